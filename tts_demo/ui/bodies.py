"""The bodies of Gradio's requests, checked before Gradio sees them: types, sizes, and that what they name exists."""

from typing import Annotated, Any

from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from starlette.responses import JSONResponse

Name = Annotated[str, Field(max_length=128, pattern=r"^[\x20-\x7e]*$")]  # of sessions, events and endpoints
Number = Annotated[int, Field(ge=0, lt=2**31, strict=True)]


class Refusal(Exception):
    """An answer instead of the page's own."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message

    def response(self, openai: bool) -> JSONResponse:
        """``openai``: in the form of OpenAI's errors."""
        if not openai:
            return JSONResponse({"detail": self.message}, self.status)
        kind = "server_error" if self.status >= 500 or self.status == 429 else "invalid_request_error"
        error = {"message": self.message, "type": kind, "param": None, "code": None}
        return JSONResponse({"error": error}, self.status)


class Call(BaseModel):
    """Of an endpoint by its name."""

    data: Annotated[list[Any], Field(max_length=32)]
    session_hash: Name | None = None


class Event(Call):
    """Of an event of the page, by its number."""

    fn_index: Number
    trigger_id: Number | None = None
    event_id: Name | None = None
    event_data: dict[str, Any] | None = None


class ServerCall(BaseModel):
    """Of a function that a component of the page has on the server."""

    data: Any
    component_id: Number
    fn_name: Name
    session_hash: Name


class Cancel(BaseModel):
    session_hash: Name
    fn_index: Number
    event_id: Name


def checked(path: str, body: bytes, blocks: Any) -> BaseModel | None:
    """The body of a POST to ``path`` below the prefix of Gradio's addresses; None of one that Gradio itself checks.
    blocks: the page. Raises Refusal."""
    first, *rest = path.split("/")
    if first == "call" and rest:
        return _call(rest, body, blocks)
    if first in ("run", "api") or path == "queue/join":
        event = _parsed(Event, body)
        _enough(event.data, _known(blocks.fns, event.fn_index))
        if path == "queue/join" and event.session_hash is None:
            raise Refusal(422, "session_hash is missing.")
        return event
    if first == "component_server":
        asked = _parsed(ServerCall, body)
        _known(blocks.blocks, asked.component_id)
        return asked
    return _parsed(Cancel, body) if first == "cancel" else None


def _call(rest: list[str], body: bytes, blocks: Any) -> Call | None:
    by_name, name = rest[0] == "v2" and len(rest) > 1, rest[-1]
    found = [fn for fn in blocks.fns.values() if fn.api_name == name and fn.api_visibility == "public"]
    if not found:
        raise Refusal(404, f"There is no endpoint {name[:64]!r} here.")
    if by_name:
        _named(_parsed(dict[str, Any], body), blocks.get_api_info()["named_endpoints"][f"/{name}"]["parameters"])
        return None
    asked = _parsed(Call, body)
    _enough(asked.data, found[0])
    return asked


def _named(fields: dict[str, Any], parameters: list[dict[str, Any]]) -> None:
    """``parameters``: of the endpoint, in the form of Gradio's own description."""
    names = [p["parameter_name"] for p in parameters]
    for field in fields:
        if field not in names:
            raise Refusal(422, f"{field[:64]!r} is not known here; known are {', '.join(names) or 'no fields'}.")
    for p in parameters:
        if p["parameter_name"] not in fields and not p.get("parameter_has_default"):
            raise Refusal(422, f"{p['parameter_name']} is missing.")


def _known(table: dict[int, Any], number: int) -> Any:
    if number not in table:
        raise Refusal(404, f"There is no number {number} here.")
    return table[number]


def _enough(data: list[Any], function: Any) -> None:
    most = len(function.inputs)
    least = len([block for block in function.inputs if not block.skip_api])
    if len(data) not in (least, most):
        raise Refusal(422, f"data must have {most} values, not {len(data)}.")


def _parsed(kind: Any, body: bytes) -> Any:
    try:
        return TypeAdapter(kind).validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "The body"
        raise Refusal(422, f"{field} is wrong: {first['msg'][0].lower()}{first['msg'][1:]}.") from None
