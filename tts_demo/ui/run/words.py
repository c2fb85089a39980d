"""What a lane says of itself in words: its dials, its conditions, and what went wrong in it. Plain text, no HTML."""

from typing import Any

from ...methods import METHODS
from ...metrics import BUSY_FROM
from .session import Lane, Take

# Letters of the lexicon that stand for two sounds, or for one with another sign, as they are in the phonetic alphabet.
IPA = str.maketrans(dict(zip("AIOQWYTʤʧᵊᵻ", "eɪ aɪ oʊ əʊ aʊ ɔɪ ɾ dʒ tʃ ə ɪ".split())))
BUSY = "Other programs kept this machine busy: sound came late; RTF counts only the processor's work for a result."
PHONETIC = set("ˈˌəɪʊɛɔæʌɑɹðθʃʒŋɡᵊᵻʤʧ")  # signs that only a text in sounds has


def ipa(sounds: str) -> str:
    """Phonemes in the international phonetic alphabet; what is no text in sounds stays as it is."""
    return sounds.translate(IPA) if PHONETIC & set(sounds) else sounds


def dials(method: str, options: dict[str, Any]) -> str:
    """'Patch size 4 tokens, ...': the settings by the labels of the page's dials, without those that are off by default
    and here; empty where a method has none."""
    metadata = METHODS[method].Options.__dataclass_fields__ if method in METHODS else {}
    parts = []
    for name, value in options.items():
        m = metadata[name].metadata if name in metadata else {}
        if name in metadata and not value and value == metadata[name].default:
            continue
        shown = {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)
        shown = shown.replace(":", ": ").replace(",", ", ")  # of a choice such as random:2,3,4
        parts.append(" ".join(filter(None, (m.get("label", name), shown, m.get("unit")))))
    return ", ".join(parts)


def conditions(lane: Lane, recorded: bool) -> list[str]:
    """What a lane's figures depend on, one fact an entry."""
    c = lane.made.conditions
    facts = [
        f"{c.get('stack', '?')} stack",
        f"{c.get('processor') or c.get('device', '?')}, {c.get('dtype', '?')}",
        f"checkpoint {str(c.get('checkpoint_hash', '?'))[:10]}",
        f"prompt {c.get('prompt_seconds', 0):.1f} s",
        *c.get("changed", ()),  # of sampling and length
    ]
    if c.get("cold"):
        facts.append("first run after loading: do not quote its times")
    if recorded:
        facts.append(f"recorded{' on ' + c['machine'] if c.get('machine') else ''}, not run here")
    return facts + list(c.get("notes", ()))


def warnings(lane: Lane) -> list[str]:
    """One sentence for each thing that makes the speech shorter or other than the text."""
    found = list(lane.notes)
    if lane.stopped:
        found.append("Stopped before the end of the text.")
    elif lane.truncated and not lane.notes:
        found.append(f"Cut at {lane.seconds:.1f} s: the rest of the text was not spoken.")
    if not len(lane.audio):
        found.append("Nothing was spoken.")
    return found


def done(take: Take) -> str:
    """The status line after a take."""
    count = len(take.lanes) - 1
    if not take.lanes:
        return "Stopped before anything was spoken."
    if any(lane.stopped for lane in take.lanes):
        return "Stopped. What was spoken so far can be heard and inspected."
    beside = f" and {count} setting{'s' * (count > 1)} beside it" if count else " alone"
    return f"The baseline{beside}.{f' {BUSY}' * busy(take)}"


def busy(take: Take) -> bool:
    """Whether the run took much longer than the processor worked for it; on a GPU, where both are one clock, never."""
    seconds = lambda part: sum(lane.metrics.get(f"{part}_seconds", 0.0) for lane in take.lanes)
    return seconds("total") > BUSY_FROM * (seconds("lm") + seconds("vocoder"))
