"""What ``/v1`` refuses, in the form of OpenAI's errors."""

from typing import Any

from starlette.responses import JSONResponse, Response

from ..config import UserError
from .asked import BadField
from .limits import Unavailable


class NoSuchModel(BadField):
    """Another status than for a wrong value."""

    def __init__(self, asked: str, name: str) -> None:
        super().__init__("model", f"{asked!r} is not served here; choose {name}.")


def error_body(error: Exception) -> dict[str, Any]:
    """In OpenAI's form."""
    known, later = isinstance(error, UserError), isinstance(error, Unavailable)
    return {
        "message": str(error) if known else "The model failed on this request; the server's log says why.",
        "type": "invalid_request_error" if known and not later else "server_error",
        "param": getattr(error, "field", None),
        "code": "model_not_found" if isinstance(error, NoSuchModel) else None,
    }


def refusal(error: Exception) -> Response:
    """400 for what the client got wrong, 503 for what it may send again later, 500 for what is ours."""
    kinds = {NoSuchModel: 404, Unavailable: 503, UserError: 400, Exception: 500}
    status = next(code for kind, code in kinds.items() if isinstance(error, kind))
    again = {"Retry-After": str(error.seconds)} if isinstance(error, Unavailable) else None
    return JSONResponse({"error": error_body(error)}, status, headers=again)
