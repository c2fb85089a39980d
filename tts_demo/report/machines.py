"""Speeds belong to a machine: those of another are kept beside the table of this one, and shown beside it."""

from __future__ import annotations

from typing import Any

Section = dict[str, Any]
SHOWN = (("ms_per_step", "ms a step", 2), ("lm_rtf", "LM-RTF", 3), ("lm_gain", "LM gain", 2))


def machine(section: Section) -> str | None:
    """What the speeds of a section were measured on."""
    return section.get("conditions", {}).get("device")


def still_paced(section: Section, paces: dict[str, str]) -> set[str]:
    """Labels of the rows of a section that are speeds and hold for methods of these ``paces`` (name -> hash)."""
    before = section.get("conditions", {}).get("paces", {})
    return {
        label
        for label, name in section.get("follows", {}).items()
        if before.get(name) and before[name] == paces.get(name)
    }


def apart(old: Section, new: Section) -> tuple[Section, dict[str, Section]]:
    """What ``new`` may be joined with: the section of its own machine. And the sections of all other machines by their
    names."""
    others = dict(old.get("elsewhere", {}))
    old = {key: value for key, value in old.items() if key != "elsewhere"}
    if old and machine(old) != machine(new):
        others[machine(old)] = old
        old = others.pop(machine(new), {})
    return old, others


def forget_speeds(analyses: Section) -> None:
    """Analyses that are speeds are about the machine of the speed table: they go with it, until they are measured
    here."""
    for label in analyses.get("follows", {}):
        analyses["rows"].pop(label, None)
    analyses["follows"] = {}


def elsewhere(here: Section) -> dict[str, Section]:
    """The sections of other machines by their names, of their rows those that still hold and that were measured here
    too."""
    found = {}
    for name, there in here.get("elsewhere", {}).items():
        holds = still_paced(there, here["conditions"].get("paces", {})) & here["rows"].keys()
        if holds:
            found[name] = there | {"rows": {label: row for label, row in there["rows"].items() if label in holds}}
    return found


def tables(here: Section) -> list[str]:
    """One a machine, its speeds beside those of the table above."""
    return [_table(here, name, there) for name, there in elsewhere(here).items()]


def _table(here: Section, name: str, there: Section) -> str:
    c = there["conditions"]
    lines = [
        f"**On another machine.** {name}, {c['dtype']}, {c['runtime']}, {c['threads']} threads, torch {c['torch']}, checkpoint "
        f"{c['checkpoint']}, {c['bandwidth_gb_s']:.0f} GB/s, measured at commit {there.get('commit')}, against the table above "
        f"({machine(here)}): gain, higher is better; times, lower is better.",
        "",
        "| method | " + " | ".join(f"{head} here | {head} there" for _, head, _ in SHOWN) + " |",
        "|---" * (2 * len(SHOWN) + 1) + "|",
    ]
    for label, row in there["rows"].items():
        cells = [f"{each[key]:.{digits}f}" for key, _, digits in SHOWN for each in (here["rows"][label], row)]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
