"""Abbreviations, titles, Roman numerals, letters, interjections and the short words of chats."""

from __future__ import annotations

import re

from . import g2p, numbers
from .rules import Rules, apply, compiled, letters
from .units import PER

# said wherever they stand before a full stop
_ALWAYS = {
    "mr": "mister", "mrs": "missus", "ms": "miz", "dr": "doctor", "prof": "professor", "gen": "general",
    "col": "colonel",
    "capt": "captain", "lt": "lieutenant", "sgt": "sergeant", "cpl": "corporal", "maj": "major", "adm": "admiral",
    "rev": "reverend", "hon": "honorable", "gov": "governor", "sen": "senator", "rep": "representative",
    "pres": "president", "messrs": "messers", "supt": "superintendent", "cmdr": "commander", "atty": "attorney",
    "sr": "senior", "jr": "junior", "mt": "mount", "vs": "versus", "etc": "et cetera", "e.g": "for example",
    "i.e": "that is", "cf": "compare", "viz": "namely", "al": "al", "approx": "approximately", "inc": "incorporated",
    "ltd": "limited", "co": "company", "corp": "corporation", "bros": "brothers", "assn": "association",
    "dept": "department", "univ": "university", "govt": "government", "ave": "avenue", "blvd": "boulevard",
    "rd": "road", "ln": "lane", "hwy": "highway", "pkwy": "parkway", "ste": "suite", "apt": "apartment",
    "bldg": "building", "est": "established", "incl": "including", "excl": "excluding", "misc": "miscellaneous",
    "max": "maximum", "min": "minimum", "avg": "average", "temp": "temperature", "rte": "route", "tel": "telephone",
    "vol": "volume", "vols": "volumes", "fig": "figure", "figs": "figures", "eq": "equation", "eqs": "equations",
    "sec": "section", "sect": "section", "ch": "chapter", "chap": "chapter", "pp": "pages", "ed": "edition",
    "eds": "editors", "p": "page", "no": "number", "nos": "numbers", "art": "article", "para": "paragraph",
    "ver": "version", "calif": "California", "mass": "Massachusetts", "conn": "Connecticut", "fla": "Florida",
    "penn": "Pennsylvania", "tenn": "Tennessee", "ariz": "Arizona", "colo": "Colorado", "ala": "Alabama",
    "wash": "Washington", "minn": "Minnesota", "wis": "Wisconsin", "mich": "Michigan", "tex": "Texas",
    "okla": "Oklahoma",
    "ont": "Ontario", "intl": "international", "natl": "national", "mgr": "manager", "op": "opus",
    "ep": "episode", "pt": "part", "bk": "book", "ph": "phone", "mk": "mark", "asst": "assistant",
    "qty": "quantity", "amt": "amount", "yrs": "years", "yr": "year", "hrs": "hours", "hr": "hour", "mins": "minutes",
    "secs": "seconds", "lbs": "pounds", "lb": "pound", "oz": "ounces", "tbsp": "tablespoons", "tsp": "teaspoons",
    "a.k.a": "A.K.A", "ph.d": "P.H.D", "mph": "miles per hour", "feat": "featuring", "orig": "originally", "ft": "feet",
    "ext": "extension", "rm": "room", "fl": "floor", "attn": "attention", "re": "regarding", "blvds": "boulevards",
}  # fmt: skip
# those that are words too count only with a capital, or before a figure
_CAPITAL = frozenset(
    "gen col maj rev hon gov sen rep pres sr jr mt co inc corp ave st art mass wash conn fla penn ala tex ont colo "
    "min max "
    "temp ed est fig sec no ch p al re fl ft ext ms lt minn mich wis tenn ariz okla calif rd ln capt sgt cpl "
    "adm".split()
) - {"al", "est", "fig", "no", "ed", "min", "max"}
_BEFORE_FIGURE = frozenset(
    "op ep pt bk ph no nos p pp ch sec fig art ext ed est vol max min ft fl rm para eq temp".split()
)
_TITLES = "Mr|Mrs|Ms|Dr|Prof|Gen|Col|Capt|Lt|Sgt|Gov|Sen|Rep|Rev|Hon|Messrs|Mx"
_SIMPLE = {
    "w/o": "without", "w/in": "within",
    "w/": "with", "b/c": "because", "c/o": "care of", "n/a": "N.A.", "a/c": "A.C.", "i/o": "I.O.",
    "2nite": "tonight", "2day": "today", "2morrow": "tomorrow", "gr8": "great", "l8r": "later", "b4": "before",
    "ttyl": "T.T.Y.L.", "thx": "thanks", "pls": "please", "plz": "please", "ppl": "people", "msg": "message",
    "tmrw": "tomorrow",
    "tmr": "tomorrow", "abt": "about", "bday": "birthday", "ur": "your", "govt": "government", "vs": "versus",
    "etc": "et cetera", "approx": "approximately", "dept": "department", "kinda": "kinda", "lmao": "L.M.A.O.",
    "omg": "O.M.G.",
    "idk": "I.D.K.", "imo": "I.M.O.", "imho": "I.M.H.O.", "diy": "D.I.Y.", "faq": "F.A.Q.", "faqs": "F.A.Q.s",
    "asap": "A.S.A.P.",
    "fyi": "F.Y.I.", "aka": "A.K.A.", "ceo": "C.E.O.", "api": "A.P.I.", "gpu": "G.P.U.", "cpu": "C.P.U.",
    "usa": "U.S.A.",
    "eta": "E.T.A.", "rsvp": "R.S.V.P.", "iirc": "I.I.R.C.", "afaik": "A.F.A.I.K.", "irl": "I.R.L.", "ai": "A.I.",
    "iq": "I.Q.",
    "wifi": "Wi-Fi", "tho": "though", "thru": "through", "nite": "night", "cuz": "because", "yall": "y'all",
}  # fmt: skip
# 'dont' and the like, where the apostrophe was not typed
_STREETS = "Street|Avenue|Road|Lane|Drive|Square|Boulevard"
_PEOPLE = frozenset(
    "Henry Louis Edward George William Charles James Richard Elizabeth Napoleon Pius Benedict Leo Paul Ramses Ramesses "
    "Frederick Friedrich Philip Philippe Alexander Nicholas Peter Catherine Ivan Umberto Emmanuel Gustav Christian "
    "Ferdinand "
    "Mary Robert David Malcolm Wilhelm Franz Francis Carlos Juan Felipe Alfonso Pedro Leopold Albert Haakon Harald "
    "Olav "
    "Clement Gregory Innocent Urban Boniface Sixtus Julius Ptolemy Darius Xerxes Cyrus Constantine Theodosius "
    "Justinian "
    "Otto Rudolf Maximilian Joseph Sigismund Casimir Harold Stephen John Thomas Howell Walter Frank Michael Ford "
    "Rockefeller "
    "Vittorio Xavier Mehmed Murad Selim Suleiman Abdul Rainier Margrethe Beatrix Isabella Victoria Arthur Andrew "
    "Martin".split()
)
_TITLED = "King|Queen|Pope|Emperor|Empress|Tsar|Czar|Kaiser|Prince|Princess|Sultan|Pharaoh|Saint|Sir|Lord|Duke|Count"
_PARTS = (
    "Chapter|Part|Parts|War|Volume|Vol\\.|Act|Book|Section|Type|Phase|Article|Scene|Figure|Table|Level|Class|Title|"
    "Stage|Grade|"
    "Episode|Mark|Round|Bowl|Apollo|Gemini|Rocky|Fantasy|Category|Division|Group|Unit|Factor|Appendix|Theorem|Game|"
    "Quest|"
    "Wars|Generation|Gen|Tier|Schedule|Annex|Vatican|Windows|Saturn|Titan|Olympiad|WrestleMania|Page|Canto|Sonnet|"
    "Symphony|Saw|Halloween"
)
_STRETCHED = re.compile(r"\b[A-Za-z]*([A-Za-z])\1{2,}[A-Za-z]*\b")


def _abbreviation(match: re.Match[str]) -> str:
    """An abbreviation with its full stop; the stop stays where it also ends the sentence."""
    word, text = match["word"], match.string
    low, after = word.lower(), text[match.end() :]
    full = _ALWAYS.get(low)
    ends = not after.strip("\"')]*_ ")
    figure = bool(
        re.match(
            r"\s?(?:[\d#]|[IVXLC]+\b|(?:one|two|three|four|five|six|seven|eight|nine|ten|\w+teen|\w+ty|minus)\b)", after
        )
    )
    if full is None or (low in _BEFORE_FIGURE and not figure) or (low in _CAPITAL and word.islower() and not figure):
        return match.group()
    if (
        low in ("co", "st", "no", "al", "ed", "est", "max", "temp", "sat", "mass", "wash", "art")
        and ends
        and word.islower()
        and low != "al"
    ):
        return match.group()
    if word[0].isupper() and full.islower():
        full = full[0].upper() + full[1:]
    if low in ("jr", "sr", "ph.d", "a.k.a") and full.endswith(("D", "A")):
        full += "."
    return full + ("." if ends and not full.endswith(".") else "")


def _saint_or_street(match: re.Match[str]) -> str:
    """'St. Paul' is a saint, '5th St.' and 'Main St. is' are streets."""
    before, after = match.string[: match.start()], match.string[match.end() :]
    ends = not after.strip("\"')] ")
    street = re.search(r"(?:\b(?:[A-Z][a-z]+|[a-z]+(?:st|nd|rd|th))\s)$", before) and not re.match(r"\s+[A-Z]", after)
    street = street or re.search(r"\b[a-z]*(?:first|second|third|th)\s$|\d(?:st|nd|rd|th)\s$", before)
    if match[1] == "St":
        return ("Street" + ("." if ends and match.group().endswith(".") else "")) if street or ends else "Saint"
    return ("Drive" + ("." if ends and match.group().endswith(".") else "")) if street else "Doctor"


def _roman(match: re.Match[str]) -> str:
    """'Henry VIII' -> 'Henry the eighth', 'Chapter IV' -> 'Chapter four', 'Louis XIV's' keeps its ending."""
    before, numeral = match["before"], match["roman"].upper()
    number = numbers.roman(numeral)
    if number is None:
        return match.group()
    text = match.string
    person = before in _PEOPLE or re.search(rf"\b(?:{_TITLED})\s$", text[: match.start()])
    if numeral in ("I", "V", "X") and before in _PEOPLE:
        # 'Charles I think' is no king
        titled = re.search(rf"\b(?:{_TITLED})\s(?:[A-Z][a-z]+\s)?$", text[: match.start()])
        follows = re.match(r"\s(?:of|was|became|died|ruled|reigned)\b|'s\b|\s?[,.;:)]|$", text[match.end() :])
        if numeral != "V" and not (titled or follows) or (before == "Malcolm" and numeral == "X"):
            return match.group()
    if person:
        return f"{before} the {numbers.ordinal(str(number))}"
    return f"{before} {numbers.cardinal(str(number))}"


def _unstretched(match: re.Match[str]) -> str:
    """'Noooo' -> 'No', 'sooo' -> 'so', 'yesss' -> 'yes': the form with one or two letters that is a word."""
    word = match.group()
    if word.isupper() and numbers.roman(word) is not None or word.lower() == "www":
        return word
    if g2p.is_interjection(word):
        return word
    twice, once = (re.sub(r"([A-Za-z])\1{2,}", form, word) for form in (r"\1\1", r"\1"))
    low = once.lower()
    if g2p.knows(low) and (low in _STRETCHABLE or not g2p.knows(twice.lower())):
        return once
    return twice if g2p.knows(twice.lower()) else once


_STRETCHABLE = frozenset("no so go to me he we be yes oh hi hey the wow bye".split())


def _short(match: re.Match[str]) -> str:
    word = match.group()
    if word.isupper():
        return word  # the G2P knows its letters
    said = _SIMPLE[word.lower()]
    return said[0].upper() + said[1:] if word[0].isupper() else said


def _unspeakable(match: re.Match[str]) -> str:
    """Letters of what has no vowel and is no word: 'btw', 'xkcd'"""
    word = match.group()
    if word[1:] != word[1:].lower() or g2p.knows(word) or g2p.knows(word.lower()) or g2p.is_interjection(word):
        return word
    return letters(word)


_SLASHED = "|".join(re.escape(w) for w in _SIMPLE if "/" in w)
_CHAT = "|".join(sorted((w for w in _SIMPLE if "/" not in w), key=len, reverse=True))
_RULES: Rules = compiled(
    (
        rf"(?i)(?<![\w/])(?:(?:{_SLASHED})(?![\w/])|w/(?=\s|[a-np-z]))",
        lambda m: _SIMPLE.get(m.group().lower(), m.group()) + (" " if m.group().endswith("/") else ""),
    ),
    (r"\bP\.\s?O\.\s(?=Box)", "P.O. "),
    (r"\bSec\.\s(?=of\s)", "Secretary "),
    (
        r"\b([Mm]ax|[Mm]in|[Tt]emp|[Aa]vg)\.(?=\s[a-z])",
        lambda m: _ALWAYS[m[1].lower()] if m[1].islower() else _ALWAYS[m[1].lower()].capitalize(),
    ),
    (r"\b([Pp]er|[Aa])\s[Ss]q\.?\s?[Ff]t\b\.?", r"\1 square foot"),
    (r"\b[Ss]q\.?\s?[Ff]t\b\.?", "square feet"),
    (r"\bPh\.?D\.?s\b", "PhDs"),
    (r"\bM&M'?(s?)\b", lambda m: "M and M" + "'s" * bool(m[1])),
    (r"\b([Ss])/he\b", lambda m: f"{m[1]}he or he"),
    (rf"\bper ({'|'.join(unit for unit in PER if len(unit) > 1)})\b(?:\.(?=\s|,))?", lambda m: f"per {PER[m[1]]}"),
    (r"\bSecs\.\s(?=\d)", "Sections "),
    (r"\b(Hwy|Apt|Ste|Rte)\s(?=#?\d)", lambda m: _ALWAYS[m[1].lower()].capitalize() + " "),
    (r"(?<![\w/])(km/h|m/s|km/s|mph|kph|kg|km|lbs)(?![\w/])", lambda m: _ALONE[m[1]]),
    (r"\bPop\.?\s(?=[\d(])", "Population "),
    (r"\bv\.\s(?=[A-Z])", "versus "),
    (r"\bWW(?:II|2)\b", "World War two"),
    (r"\bWW(?:I|1)\b", "World War one"),
    (r"\b([IVX]{2,6})(?=\scentur)", lambda m: numbers.ordinal(str(numbers.roman(m[1]) or 0))),
    (
        r"\bM[MCDLXVI]{3,}\b",
        lambda m: numbers.year(str(numbers.roman(m.group()))) if numbers.roman(m.group()) else m.group(),
    ),
    (r"(?<!\w)\((i{1,3}|iv|vi{0,3}|ix)\)", lambda m: f"({numbers.cardinal(str(numbers.roman(m[1].upper())))})"),
    (
        r"(?<=\s)([IVX]{2,5})(\s(?:and|or|to|through|&)\s)([IVX]{2,5})\b",
        lambda m: f"{m[1]}{m[2]}{numbers.cardinal(str(numbers.roman(m[3])))}" if numbers.roman(m[3]) else m.group(),
    ),
    (r"\bd/b/a\b", "doing business as"),
    (r"\b(and)/(or)\b", r"\1 \2"),
    (
        r"\b(s?he|his|him|yes|no|true|false|on|off|his|hers?|mother|father|he)/(s?he|hers?|her|no|false|off|she|"
        r"father|mother)\b",
        r"\1 or \2",
    ),
    (r"\b(St|Dr)\.(?=\s|$|[,;:)])", _saint_or_street),
    (r"(?<=[A-Z][a-z]{2}\s)(St|Ave|Blvd|Rd|Ln)\b(?=,|\s[NSEW]\b|$)", lambda m: _ROADS[m[1]]),
    (r"\bFt\.\s(?=[A-Z])", "Fort "),
    (r"\bMt\.?\s(?=[A-Z])", "Mount "),
    (r"\bSt\s(?=[A-Z][a-z])", "Saint "),
    (
        rf"\b(?:({_TITLES})\.|(Mr|Mrs|Ms|Mx|Dr|Prof))(?=\s[A-Z])",
        lambda m: _ALWAYS.get((m[1] or m[2]).lower(), m[1] or m[2]).capitalize(),
    ),
    (r"(?<![\w.])(?P<word>[eEiI]\.[gGeE]|[aA]\.k\.a|[Pp]h\.[dD]|[A-Za-z]{1,6})\.(?!\w)", _abbreviation),
    (r"\b(?:[Nn]o|NO)\.\s*(?=\d)", "number "),
    (r"\bPh\.?D\b", "P.H.D."),
    (r"(?<![\w.])(i\.?e|e\.?g)(?=,\s)", lambda m: "that is" if m[1][0] == "i" else "for example"),
    (r"\bvs\b", "versus"),
    (r"\b(Fig|Eq|Vol|Ch|Sec)\s(?=\d)", lambda m: _ALWAYS[m[1].lower()].capitalize() + " "),
    (r"\b(?P<before>[A-Z][a-z]+)\s(?P<roman>[IVXLC]{2,7})\b(?![.'’]?[A-Za-z]*[A-Z])", _roman),
    (
        rf"\b(?P<before>{_PARTS})\s(?P<roman>[IVXLC]{{1,7}}|(?<=Scene\s)[ivx]{{1,5}}|(?<=Page\s)[ivx]{{1,5}})\b(?!')",
        _roman,
    ),
    (
        r"\b(?P<before>[A-Z][a-z]+)\s(?P<roman>[IVX])\b(?=\s|[.,;:!?)]|'s|$)",
        lambda m: _roman(m) if m["before"] in _PEOPLE else m.group(),
    ),
    (r"\b(iPhone|OS|Mac OS)\s(?P<roman>X)(?![\w-])", lambda m: f"{m[1]} ten"),
    (r"(?<!\w)(?:AT&T)(?!\w)", "A.T. and T."),
    (r"(?<=\b[A-Z])\s?&\s?(?=[A-Z]\b)", " and "),
    (rf"(?i)\b(?:{_CHAT})\b(?![-'])", _short),
)
_ALONE = {"km/h": "kilometers per hour", "m/s": "meters per second", "km/s": "kilometers per second", "kg": "kilograms"}
_ALONE |= {"mph": "miles per hour", "kph": "kilometers per hour", "km": "kilometers", "lbs": "pounds"}
_ROADS = {"St": "Street", "Ave": "Avenue", "Blvd": "Boulevard", "Rd": "Road", "Ln": "Lane"}
_WORDS: Rules = compiled(
    (r"\b[A-Za-z]*([A-Za-z])\1{2,}[A-Za-z]*\b", _unstretched),
    (r"(?<![\w.'])[b-df-hj-np-tv-xzB-DF-HJ-NP-TV-XZ]{2,8}(?![\w.'])", _unspeakable),
    (r"\b(gonna|wanna|gotta)\b", r"\1"),
)


def write_out(text: str) -> str:
    return apply(_RULES, text)


def words_only(text: str) -> str:
    """When no figure is left: stretched words, and letters of what is no word."""
    return apply(_WORDS, text)
