"""The bundled voices: prompts that ship with the page, listed in ``assets/prompts/prompts.json``."""

import json
from dataclasses import dataclass
from pathlib import Path

from .config import UserError

ASSETS = Path(__file__).parents[1] / "assets"


@dataclass(frozen=True)
class Voice:
    """A prompt: its recording and what it says ("" = unknown). ``about``: its character in a word or two."""

    name: str
    path: Path
    transcript: str = ""
    licence: str = ""
    about: str = ""


def bundled() -> list[Voice]:
    """The voices of the listing (file, name, text, licence, about), in its order; the first is the default."""
    folder = ASSETS / "prompts"
    listing = folder / "prompts.json"
    rows = json.loads(listing.read_text(encoding="utf-8")) if listing.is_file() else []
    more = ("licence", "about")
    return [Voice(r["name"], folder / r["file"], r["text"], *(r.get(name, "") for name in more)) for r in rows]


def at_least_one() -> list[Voice]:
    """The bundled voices. Raises UserError where there is none."""
    if found := bundled():
        return found
    raise UserError("No example voice is bundled: give one with --prompt RECORDING.wav.")
