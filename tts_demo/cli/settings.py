"""What commands share: ``key=value`` words to a method's Options and the Sampling, and how a mistake ends."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ..config import Sampling, UserError

SAMPLING_KEYS = tuple(f.name for f in dataclasses.fields(Sampling))


def exit_code(command: Callable[[], object]) -> int:
    """Run it: 0, 2 for a mistake in the request (said in one line on stderr), 130 when interrupted."""
    try:
        command()
    except UserError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def pairs(words: Sequence[Sequence[str]]) -> dict[str, str]:
    """[['a=1', 'b=2'], ['c=3']] -> {'a': '1', ...}"""
    found = {}
    for word in (w for group in words for w in group):
        key, equals, value = word.partition("=")
        if not (equals and key and value):
            raise UserError(f"--set takes key=value, not {word!r}.")
        found[key.strip().replace("-", "_")] = value.strip()
    return found


def parse_settings(method: type, found: dict[str, str], default: Sampling = Sampling()) -> tuple[Any, Sampling]:
    """Words that name a field of Sampling change ``default``, all others go to the method's Options."""
    sampling = {}
    for key in SAMPLING_KEYS:
        if key in found:
            kind = type(getattr(Sampling(), key))
            try:
                sampling[key] = kind(found[key])
            except ValueError:
                raise UserError(
                    f"{key} must be a {'whole ' if kind is int else ''}number, not {found[key]!r}."
                ) from None
    return method.Options.parse({k: v for k, v in found.items() if k not in sampling}), dataclasses.replace(
        default, **sampling
    )
