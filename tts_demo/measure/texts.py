"""What is spoken: the bundled evaluation texts in their voices, natural recordings and a teacher's speech beside them.

``assets/texts/evaluation.tsv`` has two lists: choices are made on ``development``, tables show ``report``. No text of
either is in any training set. Recordings are not bundled: they are found in a folder of corpora where one is given.
"""

import csv
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import audio, engine, voices
from ..config import UserError
from ..voices import ASSETS, Voice

LISTS = ("report", "development")
LONG = "lj"  # sentences of eight seconds and more
SUFFIXES = (".opus", ".flac", ".wav")
BUNDLED_VOICES = 4  # beside the natural ones


@dataclass(frozen=True)
class Case:
    """A text to speak in a voice; or (``recording``) somebody's speech of it, whose voice is compared with that one."""

    id: str
    text: str
    voice: Voice
    kind: str = ""
    recording: Path | None = None
    seed: int = 0


def table(name: str) -> list[dict[str, str]]:
    """The lines of a bundled table of texts."""
    with open(ASSETS / "texts" / name, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def natural_voices(speech: Path, use: str = "unheard") -> list[Voice]:
    """Prompts of ``assets/texts/voices.tsv`` in a folder of corpora. ``unheard``: of people who are in no training set;
    ``reader``: of those who read the evaluation's ARCTIC texts."""
    rows = [row for row in table("voices.tsv") if row["use"] == use]
    return [Voice(row["id"], find_recording(speech, row["recording"]), row["words"]) for row in rows]


def unheard() -> set[str]:
    """Names of the natural voices of people who are in no training set."""
    return {row["id"] for row in table("voices.tsv") if row["use"] == "unheard"}


def find_recording(speech: Path, name: str) -> Path:
    """'slt/arctic_b0479' -> its file under ``speech``. Raises UserError where there is none."""
    for suffix in SUFFIXES:
        if (path := speech / f"{name}{suffix}").is_file():
            return path
    raise UserError(f"There is no recording {name} in {speech}: give the folder that holds the corpora with --data.")


def bundled_voices() -> list[Voice]:
    """``BUNDLED_VOICES`` of them, spread over all. Raises UserError where there is none."""
    spread = voices.at_least_one()
    return spread[:: max(1, len(spread) // BUNDLED_VOICES)][:BUNDLED_VOICES]


def encoded(stack: engine.Stack, voice: Voice) -> Any:
    """The voice as the stack's prompt."""
    recording = audio.read(str(voice.path), target=None)
    return stack.encode_prompt(recording.samples, recording.rate, voice.transcript or None)


def timed() -> list[tuple[str, Voice]]:
    """What speed is measured on: the first long sentences of the report list, one in each of ``bundled_voices``."""
    texts = [row["text"] for row in table("evaluation.tsv") if (row["list"], row["kind"]) == ("report", LONG)]
    return list(zip(texts, bundled_voices()))


def cases(
    which: str = "report", speech: Path | None = None, limit: int | None = None, takes: int = 1, seed: int = 0
) -> list[Case]:
    """The first ``limit`` texts of a list, with ``takes`` seeds each: all of them with the first seed, then all with
    the next one. Every other case is in a natural voice that nothing was trained on, the others in a bundled one; a
    text changes between them with its seed. Without a folder of corpora all voices are bundled. The first N of a list
    are a fair mixture of its kinds."""
    if which not in LISTS:
        raise UserError(f"--list must be {' or '.join(LISTS)}, not {which!r}.")
    own = bundled_voices()
    people = natural_voices(speech) if speech else []
    rows = [row for row in table("evaluation.tsv") if row["list"] == which][:limit]
    found = []
    for take in range(takes):
        for i, row in enumerate(rows, take):
            these = people if people and i % 2 == 0 else own
            voice = these[(i // 2 if people else i) % len(these)]
            found.append(Case(row["id"], row["text"], voice, row["kind"], seed=seed + take))
    return found


def natural(which: str, speech: Path, limit: int | None = None) -> list[Case]:
    """The ARCTIC texts of a list as two speakers read them, in turn, each beside another recording of the speaker."""
    found = [case for case in cases(which, None, limit) if case.kind == "arctic"]
    readers = natural_voices(speech, "reader")
    return [
        Case(case.id, case.text, voice, case.kind, find_recording(speech, f"{voice.name.split('-')[1]}/{case.id}"))
        for i, case in enumerate(found)
        for voice in [readers[i % len(readers)]]
    ]


def teacher(folder: Path, limit: int) -> list[Case]:
    """``limit`` utterances of a teacher's speech (``metadata.csv``: id, text, seconds; the audio beside it), spread
    over it, each beside another one of its voice (what an id begins with)."""
    metadata = folder / "metadata.csv"
    if not metadata.is_file():
        raise UserError(f"{folder} holds no metadata.csv: give the folder of the teacher's audio.")
    lines = [line.split("|") for line in metadata.read_text(encoding="utf-8").splitlines()]
    by_voice: dict[str, list[list[str]]] = defaultdict(list)
    for line in lines:
        by_voice[line[0].split("-")[0]].append(line)
    shared = [(voice, lines) for voice, lines in sorted(by_voice.items()) if len(lines) > 1]
    found = []
    for i in range(min(limit, len(shared))):
        voice, lines = shared[i * len(shared) // min(limit, len(shared))]
        prompt = Voice(voice, find_recording(folder, lines[1][0]), lines[1][1])
        found.append(Case(lines[0][0], lines[0][1], prompt, "teacher", find_recording(folder, lines[0][0])))
    return found
