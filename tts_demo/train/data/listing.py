"""Makes the list that the committed results were measured with, from the corpora it names, so that anyone can do it
again:

    python -m tts_demo.train.data.listing --data SPEECH --sentences SENTENCES -o LIST
    python -m tts_demo.train.data.listing --data SPEECH --recordings -o LIST          # for evaluate_codec

Texts are what the held-out speakers say, with their recordings, then sentences of a file that no recording says. No
other held-out recording's text is among them: a voice that was trained on may have said it (README, "Held out").
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import soundfile

from ...config import UserError
from ...measure.cases import Case
from ...measure.judges import words
from .corpora import HELD_OUT_SPEAKERS, Utterance, read_corpora

COUNT, VOICES = 100, 8
LONGEST, PROMPT_SECONDS = 12.0, 5.0  # of a recording that is spoken again; of a voice prompt, as near as there is one
SENTENCE = re.compile(r"[A-Z][A-Za-z ,'-]{38,73}\.")  # one whole sentence of 40 to 75 characters, without figures


def cases(
    utterances: Sequence[Utterance], sentences: Sequence[str], count: int = COUNT, voices: int = VOICES
) -> list[Case]:
    """What ``evaluate --list`` reads; the voices take turns, their words are left out.
    Raises UserError where there is too little to say."""
    prompts = [prompt.path for prompt in voices_of(utterances, voices)]
    natural = [
        (u.text, u.path)
        for u in utterances
        if u.speaker in HELD_OUT_SPEAKERS and seconds(u) <= LONGEST and u.path not in prompts
    ]
    said = {tuple(words(u.text)) for u in utterances}
    free = [
        s for s in dict.fromkeys(s.strip() for s in sentences) if SENTENCE.fullmatch(s) and tuple(words(s)) not in said
    ]
    wanted = count - len(natural)
    if wanted > len(free):
        raise UserError(
            f"{count} texts are wanted, but {len(natural)} recordings and {len(free)} sentences fit: give more sentences."
        )
    spread = [(free[i * len(free) // max(1, wanted)], "") for i in range(wanted)]
    return [
        Case(text, prompts[i % len(prompts)], recording=recording)
        for i, (text, recording) in enumerate([*natural[:count], *spread])
    ]


def recordings(utterances: Sequence[Utterance]) -> list[Case]:
    """The same for ``evaluate_codec``: held-out recordings that are not too long, with other speech of their voice.
    Of a sentence that several voices read one takes its turn."""
    voices = {prompt.speaker: prompt.path for prompt in voices_of(utterances, len(utterances))}
    held_out = [u for u in utterances if u.held_out and seconds(u) <= LONGEST and u.path != voices[u.speaker]]
    readings: dict[tuple[str, ...], list[Utterance]] = defaultdict(list)
    for u in sorted(held_out, key=lambda u: u.speaker not in HELD_OUT_SPEAKERS):  # unknown voices first
        readings[tuple(words(u.text))].append(u)
    chosen = [group[i % len(group)] for i, group in enumerate(readings.values())]
    return [Case(u.text, voices[u.speaker], recording=u.path) for u in chosen]


def voices_of(utterances: Sequence[Utterance], count: int) -> list[Utterance]:
    """One prompt a speaker: the held-out speakers, then voices that are a corpus of their own, then others, evenly
    spread."""
    by_speaker: dict[str, list[Utterance]] = defaultdict(list)
    for u in utterances:
        if u.speaker in HELD_OUT_SPEAKERS or not u.held_out:
            by_speaker[u.speaker].append(u)
    first = [s for s in by_speaker if s in HELD_OUT_SPEAKERS] + [s for s in by_speaker if s == by_speaker[s][0].corpus]
    others = [s for s in by_speaker if s not in first]
    more = max(0, min(count - len(first), len(others)))
    chosen = first[:count] + [others[i * len(others) // more] for i in range(more)]
    return [min(by_speaker[s], key=lambda u: abs(seconds(u) - PROMPT_SECONDS)) for s in chosen]


def seconds(utterance: Utterance) -> float:
    return soundfile.info(utterance.path).duration


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tts_demo.train.data.listing", description="Make the list that results are measured with."
    )
    parser.add_argument("--data", required=True, help="the folder of corpora that the recipes train on")
    parser.add_argument("--sentences", help="a text file, a sentence a line")
    parser.add_argument("--recordings", action="store_true", help="held-out recordings alone, for evaluate_codec")
    parser.add_argument("--count", type=int, default=COUNT, help="texts in all (%(default)s)")
    parser.add_argument("-o", "--out", required=True, type=Path)
    args = parser.parse_args(argv)
    try:
        utterances = read_corpora(args.data)
        sentences = Path(args.sentences).read_text(encoding="utf-8").splitlines() if args.sentences else []
        found = recordings(utterances) if args.recordings else cases(utterances, sentences, args.count)
    except (UserError, OSError) as error:
        sys.exit(str(error))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    here = args.out.parent.resolve()
    relative = lambda path: path and os.path.relpath(Path(path).resolve(), here)  # the list's paths are relative to it
    args.out.write_text(
        "".join(f"{c.text}|{relative(c.prompt)}|{c.prompt_text}|{relative(c.recording)}\n" for c in found),
        encoding="utf-8",
    )
    print(f"{len(found)} lines in {args.out}")


if __name__ == "__main__":
    main()
