"""Limits of a public page, from environment variables so that a Space can set them without code."""

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass

from ..config import UserError


@dataclass(frozen=True)
class Limits:
    """Every limit, its environment variable being TTS_DEMO_ and the name in capitals."""

    max_upload_mb: int = 20  # size of an uploaded voice
    max_characters: int = 600  # of one text
    max_seconds: int = 40  # of speech per side
    max_queue: int = 16  # runs waiting; the next visitor is politely refused
    per_visitor: int = 1  # runs one visitor may have running or waiting
    per_address: int = 2  # runs, recordings and checks that one address may have running or waiting, of each kind
    visitor_uploads_mb: int = 100  # what one address may upload within the hour that files are kept
    body_seconds: float = 30.0  # for a request's headers, and for each megabyte of its body
    uploads_mb: int = 2000  # what all files of visitors may take
    shutdown_seconds: int = 20  # how long a running job may finish after SIGTERM
    max_prompt_seconds: float = 10.0  # longer voices are cut to this

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Limits":
        values = {}
        for f in dataclasses.fields(cls):
            name = f"TTS_DEMO_{f.name.upper()}"
            if name not in environment:
                continue
            try:
                values[f.name] = type(f.default)(environment[name])
            except ValueError:
                raise UserError(f"{name} must be a number, not {environment[name]!r}.") from None
            if values[f.name] <= 0:
                raise UserError(f"{name} must be above 0, not {values[f.name]}.")
        return cls(**values)


class Unavailable(UserError):
    """Nothing is wrong with what was asked: the server cannot do it now. ``seconds``: when to ask again."""

    def __init__(self, message: str, seconds: int = 60) -> None:
        super().__init__(message)
        self.seconds = seconds
