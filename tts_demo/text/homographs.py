"""Words written alike and said differently where the G2P's tags do not tell: the words around them decide."""

from __future__ import annotations

import re
from collections.abc import Sequence

_BE = r"(?:am|is|are|was|were|be|been|being|'m|'re|'s|feel|feels|felt|seem|seems|seemed|quite|perfectly)"
_SUBJECT = (
    r"(?:i|you|we|they|who|to|not|n't|will|would|'ll|'d|can|could|may|might|must|shall|should|do|did|always|never|"
    r"strongly)"
)
_OBJECT = r"(?:him|her|them|me|us|it|you|your|my|his|their|our|the|a|an|this|that|these|those)"
_THEN = rf"(?:[.,;!?]|$|{_OBJECT}\b|to\b|with\b|for\b|from\b|into\b|onto\b|more\b|against\b|at\b|goods\b|confidence\b)"
_A = r"(?:a|an|the|this|that|my|your|his|her|our|their|each|every|old|new|one)"
_FISH = r"(?:sea|striped|largemouth|smallmouth|grilled|fresh|black|caught a|catch a|big)"

# word -> (what stands before it, what stands behind it, its sounds); the first that fits decides, none: the G2P
_CASES: dict[str, tuple[tuple[str, str, str], ...]] = {
    "bass": (
        (_FISH, "", "bˈæs"),
        ("", r"(?:fish|fishing|lake|pond|river|boat|fillet|swim|in the (?:lake|river|pond))", "bˈæs"),
        ("", "", "bˈAs"),
    ),
    "lead": (
        (
            r"(?:made (?:out )?of|made from|contains?|molten|of|heavy as|tin and)",
            r"(?:[.,;!?]|and|or|in|is|was|$)",
            "lˈɛd",
        ),
        (
            "",
            r"(?:pipes?|paint|poisoning|bullets?|acid|shot|weights?|pencils?|balloon|free|levels|exposure|apron|"
            r"shielding)",
            "lˈɛd",
        ),
    ),
    "bow": (
        (
            r"(?:takes?|took|taken|taking|final|little|deep) (?:a|another|his|her|their)|(?:a|his|her) (?:deep|final|"
            r"little|low|slight)",
            "",
            "bˈW",
        ),
        (_SUBJECT, "", "bˈW"),
        ("", r"(?:down|to the|before|out of|of the (?:ship|boat))", "bˈW"),
    ),
    "bowed": (("", "", "bˈWd"),),
    "minute": (
        (
            "",
            r"(?:details?|amounts?|quantit\w+|particles?|differences?|traces?|fractions?|organisms?|changes?)\b",
            "mInˈut",
        ),
        (r"(?:in|so|very|extremely)", r"(?:detail)", "mInˈut"),
    ),
    "object": ((_SUBJECT, r"(?:to|that|[.,;!?]|$|strongly|when|if|because)", "əbʤˈɛkt"),),
    "content": ((_BE, r"(?:with|to|[.,;!?]|$|and|in|if|when|just|as)", "kəntˈɛnt"),),
    "resume": (
        (_A, "", "ɹˈɛzəmˌA"),
        (r"(?:and|or|your|send|attach|updated)", r"(?:[.,;!?]|to|with|and|$)", "ɹˈɛzəmˌA"),
    ),
    "resumes": ((r"(?:the|their|your|our|of|all|many|two|three|hundred|send|read|these|those)", "", "ɹˈɛzəmˌAz"),),
    "protest": ((_SUBJECT, _THEN, "pɹətˈɛst"),),
    "project": ((_SUBJECT, _THEN, "pɹəʤˈɛkt"),),
    "contract": ((_SUBJECT, _THEN, "kəntɹˈækt"), (r"(?:muscles|metals|markets|economies)", "", "kəntɹˈækt")),
    "converse": ((_SUBJECT, _THEN, "kənvˈɜɹs"),),
    "console": (
        (_SUBJECT, "", "kənsˈOl"),
        ("", r"(?:him|her|them|me|us|yourself|himself|herself|themselves)\b", "kənsˈOl"),
    ),
    "insert": ((_SUBJECT, _THEN, "ɪnsˈɜɹt"), ("^", _OBJECT, "ɪnsˈɜɹt"), (r"(?:and|then|,)", _OBJECT, "ɪnsˈɜɹt")),
    "frequent": ((r"(?:i|you|we|they|who|to)", r"(?:the|this|that|bars|many|such|a)\b", "fɹəkwˈɛnt"),),
    "export": ((_SUBJECT, _THEN, "ɪkspˈɔɹt"),),
    "import": ((_SUBJECT, _THEN, "ɪmpˈɔɹt"),),
    "transport": ((_SUBJECT, _THEN, "tɹænspˈɔɹt"),),
    "learned": (
        (
            _A,
            r"(?:man|woman|person|scholar|scholars|friend|colleague|society|societies|judge|professor|men|people)",
            "lˈɜɹnᵻd",
        ),
    ),
    "blessed": ((_A, r"(?:day|event|virgin|sacrament|mother|life|relief|man|woman|child|silence)", "blˈɛsᵻd"),),
    "aged": (
        (_A, r"(?:man|woman|mother|father|parents?|couple|people|relative)", "ˈAʤᵻd"),
        ("the", r"(?:[.,;]|and|$)", "ˈAʤᵻd"),
    ),
    "beloved": ((_A, "", "bəlˈʌvᵻd"), ("", r"[a-z]", "bəlˈʌvᵻd")),
    "moped": ((_A, "", "mˈOpˌɛd"),),
    "used": (
        (
            rf"(?:{_BE}|get|gets|got|getting|become|became|grown|grew|not)",
            r"to (?:it|this|that|him|her|them|me|us|the|my|your|his|their|our|being|having|\w+ing)\b",
            "jˈust",
        ),
    ),
    "live": (
        (
            r"(?:watch|watched|streamed|streaming|stream|broadcast|going|go|went|goes|perform|performed|aired|"
            r"reporting|coming to you)",
            "",
            "lˈIv",
        ),
        (_BE, r"(?:[.,;!?]|on|from|at|now|$)", "lˈIv"),
        (
            "",
            r"(?:music|audience|bands?|broadcast|stream|streams|performances?|concerts?|recording|albums?|tv|"
            r"television|coverage|updates?|wires?|bait|animals|ammunition|demo|chat|event|events|sessions?)\b",
            "lˈIv",
        ),
    ),
    "lives": (
        (
            r"(?:our|their|your|many|people's|save|saved|saving|two|three|nine|of|the|lost|past|private|whose)",
            "",
            "lˈIvz",
        ),
    ),
    "wound": (
        (r"(?:i|he|she|it|we|they|who|tightly|and)", r"(?:up|down|the|his|her|around|through|it|its|tight)\b", "wˈWnd"),
    ),
    "close": (
        (
            r"(?:very|too|so|how|get|got|getting|stay|stayed|came|come|comes|as)",
            r"(?!(?:the|a|your|my|it|this|that|up|down)\b)",
            "klˈOs",
        ),
    ),
    "sow": ((_SUBJECT, "", "sˈO"),),
    "excuse": ((r"(?:no|an|any|poor|lame|good|bad|every|that|his|her|my|your|the|a)", "", "ɪkskjˈus"),),
    "does": ((r"(?:two|three|four|several|bucks and|the)", r"(?:ran|are|were|and)", "dˈOz"),),
}
_RULES = {
    word: tuple(
        (re.compile({"": "", "^": "^$"}.get(b, rf"(?:^|\s)(?:{b})$")), re.compile(rf"\s*(?:{a})"), said)
        for b, a, said in cases
    )
    for word, cases in _CASES.items()
}


def decide(words: Sequence[str]) -> dict[int, str]:
    """Index of a word -> its phonemes, for those that their neighbours decide."""
    low = [word.lower() for word in words]
    found = {}
    for i, word in enumerate(low):
        for before, after, said in _RULES.get(word, ()):
            if before.search(" ".join(low[max(0, i - 4) : i])) and after.match(" ".join(low[i + 1 : i + 5])):
                found[i] = said
                break
    return found
