"""Digits that are no number: telephone, emergency, zip and card numbers, codes, addresses of machines, versions,
numbered sections, houses, rooms, roads, models."""

from __future__ import annotations

import re

from . import numbers
from .rules import Rules, apply, compiled, letters

STATES = dict(
    pair.split(":")
    for pair in (
        "AL:Alabama|AK:Alaska|AZ:Arizona|AR:Arkansas|CA:California|CO:Colorado|CT:Connecticut|DE:Delaware|FL:Florida|"
        "GA:Georgia|HI:Hawaii|ID:Idaho|IL:Illinois|IN:Indiana|IA:Iowa|KS:Kansas|KY:Kentucky|LA:Louisiana|ME:Maine|"
        "MD:Maryland|MA:Massachusetts|MI:Michigan|MN:Minnesota|MS:Mississippi|MO:Missouri|MT:Montana|NE:Nebraska|"
        "NV:Nevada|NH:New Hampshire|NJ:New Jersey|NM:New Mexico|NY:New York|NC:North Carolina|ND:North Dakota|OH:Ohio|"
        "OK:Oklahoma|OR:Oregon|PA:Pennsylvania|RI:Rhode Island|SC:South Carolina|SD:South Dakota|TN:Tennessee|TX:Texas|"
        "UT:Utah|VT:Vermont|VA:Virginia|WA:Washington|WV:West Virginia|WI:Wisconsin|WY:Wyoming|DC:D.C."
    ).split("|")
)
_STATE = "|".join(STATES)
_STREET = (
    "Street|St|Avenue|Ave|Road|Rd|Boulevard|Blvd|Drive|Dr|Lane|Ln|Court|Ct|Place|Pl|Way|Parkway|Pkwy|Highway|Hwy|"
    "Square|"
    "Sq|Terrace|Ter|Circle|Cir|Broadway|Trail|Plaza|Alley|Row"
)
_VERSIONED = (
    r"[Vv]ersions?|[Vv]er\.|v|V|[Rr]elease|[Bb]uild|Python|Java|Node(?:\.js)?|PHP|Ruby|Go|Rust|Perl|CUDA|Ubuntu|Debian|"
    r"Fedora|iOS|iPadOS|macOS|OS X|Android|Windows|Linux|[Kk]ernel|PyTorch|TensorFlow|Django|React|Angular|Vue|"
    r"Kubernetes|"
    r"Docker|GCC|gcc|Chrome|Firefox|Safari|Git|npm|pip|Postgres(?:QL)?|MySQL|SQLite|Unity|GPT-|Bluetooth|USB|HTTP|"
    r"HTML|TLS|"
    r"SSL|DirectX|OpenGL|Vulkan|cuDNN|ROCm|C\+\+"
)
_SECTIONED = (
    r"[Ss]ections?|[Ss]ec\.|[Ss]ect\.|§§?|[Cc]hapters?|[Cc]h\.|[Ff]igures?|[Ff]igs?\.|[Tt]ables?|[Ee]quations?|"
    r"[Ee]qs?\.|"
    r"[Aa]ppendix|[Cc]lauses?|[Aa]rticles?|[Aa]rt\.|[Rr]ules?|[Tt]heorem|[Ll]emma|[Ee]xercises?|[Ee]xamples?|"
    r"[Ss]teps?|[Pp]arts?"
)
_NUMBERED_ROOMS = (
    r"[Rr]oom|[Rr]m\.|[Ss]uite|[Ss]te\.|[Aa]partment|[Aa]pt\.|[Uu]nit|[Ff]lights?|[Hh]ighway|[Hh]wy\.?|[Rr]oute|"
    r"[Rr]te\.|"
    r"[Ii]nterstate|[Gg]ate|[Bb]us|Boeing|Airbus|Porsche|Form|Error|error|HTTP|[Ss]tatus|BMW|Ferrari|Peugeot|RTX|GTX|"
    r"GeForce|Radeon|Ryzen|Core|[Ee]xit|"
    r"[Bb]uilding|[Bb]ldg\.|[Ll]ocker|Nikon|Canon|Office|[Ff]light [A-Z]{2}|UA|DL|Area|Channel|United|Delta|American"
)
_CODES = (
    r"(?:PIN|pin|[Cc]ode|[Pp]asscode|[Pp]assword|OTP|CVV|[Ee]nding in|[Ee]nds in|[Ll]ast four(?: digits)?|[Oo]rder|"
    r"[Ii]nvoice|"
    r"[Tt]icket|[Cc]ase|[Tt]racking|[Cc]onfirmation|[Aa]ccount|[Ss]erial|[Rr]eference|[Mm]ember|[Ii][Dd])"
)


def _grouped(text: str) -> str:
    """'555-0142' -> 'five five five, zero one four two'; '800' is said 'eight hundred', letters stay words."""
    said = []
    for group in re.findall(r"\d+|[A-Za-z]+", text):
        if group.isalpha():
            said.append(
                group.capitalize() if len(group) > 3 or group == "GO" else "".join(f"{c.upper()}." for c in group)
            )
        else:
            said.append(numbers.cardinal(group) if group in ("800", "900") else numbers.digits(group))
    return ", ".join(said)


def _telephone(match: re.Match[str]) -> str:
    text = match.group()
    said = _grouped(re.sub(r"(?i)^\+1(?=\D)|^1(?=[-. ])", "", text))
    head = "plus one, " if text.startswith("+1") and not text[2].isdigit() else "plus " if text[0] == "+" else ""
    head = "one, " if re.match(r"1[-. ]", text) else head
    if re.match(r"1[-. ]800", text):
        head = "one "
    return head + said


def _unspaced(match: re.Match[str]) -> str:
    """'Call 2125550100'"""
    return match[1] + ", ".join(numbers.digits(match[i]) for i in (2, 3, 4))


def _zip(match: re.Match[str]) -> str:
    said = numbers.digits(match["zip"])
    if match["four"]:
        said += f", {numbers.digits(match['four'])}"
    return f"{match['before']}{said}"


def _address(match: re.Match[str]) -> str:
    """'192.168.1.1' -> 'one nine two dot one six eight dot one dot one'"""
    parts = match["ip"].split(".")
    if any(int(p) > 255 for p in parts):
        return match.group()
    said = " dot ".join(numbers.digits(p) for p in parts)
    if match["mask"]:
        said += f" slash {numbers.cardinal(match['mask'])}"
    return said + (f" colon {_port(match['port'])}" if match["port"] else "")


def _spelt(text: str) -> str:
    """'1F' -> 'one F': figures and letters one by one."""
    return " ".join(numbers.digits(c) if c.isdigit() else c.upper() for c in text)


def _port(text: str) -> str:
    return numbers.pairs(text) if len(text) == 4 and not text.endswith("000") else numbers.cardinal(text)


def _version(match: re.Match[str]) -> str:
    before = match["before"].rstrip()
    name = "version" if before in ("v", "V", "ver.", "Ver.") else before
    tail = match["tail"] or ""
    said = (f"{numbers.sections(match['low'])} to " if match["low"] else "") + numbers.sections(match["n"])
    if tail.startswith(("-", "rc", "a", "b")) and tail.strip("-."):
        word = re.match(r"-?([a-z]+)\.?(\d*)", tail)
        names = {"rc": "release candidate", "a": "alpha", "b": "beta"}
        said += f" {names.get(word[1], word[1])}" + (f" {numbers.cardinal(word[2])}" if word[2] else "") if word else ""
    return f"{name.rstrip('-')} {said}"


def _house(match: re.Match[str]) -> str:
    letter = f" {match['letter'].upper()}" if match["letter"] else ""
    return numbers.pairs(match["n"]) + letter


_RULES: Rules = compiled(
    # machines, versions, sections
    (r"(?<![\w.])(?P<ip>\d{1,3}(?:\.\d{1,3}){3})(?:/(?P<mask>\d{1,2}))?(?::(?P<port>\d{2,5}))?(?![\w]|\.\d)", _address),
    (r"\b(?:[Pp]ort)\s(\d{4,5})\b", lambda m: f"port {_port(m[1])}"),
    (r"(?i)\blocalhost:(\d{2,5})\b", lambda m: f"local host colon {_port(m[1])}"),
    (
        rf"(?<![A-Za-z])(?P<before>(?:{_VERSIONED}):?\s?)(?:(?P<low>\d+\.\d+)\s?[-–]\s?)?"
        r"(?P<n>\d+(?:\.\d+)+)(?P<tail>-?(?:rc|alpha|beta|a|b)\.?\d*)?(?![\w%]|\.\d)",
        _version,
    ),
    (r"(?<![\w.])(?P<before>v)(?P<low>(?!))?(?P<n>\d{1,4})(?P<tail>(?!))?(?!\w|\.\d)", _version),
    (rf"(?<![A-Za-z])({_SECTIONED})\s?(\d+(?:\.\d+)+)(?![\w%])", lambda m: f"{m[1]} {numbers.sections(m[2])}"),
    (r"(?<=[Dd]ial )\*(\d{2,3})\b", lambda m: f"star {numbers.digits(m[1])}"),
    (r"(?<=[Pp]ress )#", "pound"),
    (r"(?<=[Pp]ress )\*", "star"),
    (r"(?<![\w.,$-])([1-9]\d{0,2})((?: 000)+)\b", lambda m: m.group().replace(" ", ",")),
    # telephones and other grouped digits
    (r"(?<![\w.,$-])(?:\+?1[-. ])?\(?\b[2-9]\d{2}\)?[-. ]{1,2}\d{3}[-. ]\d{4}(?![\w-])", _telephone),
    (r"(?<![\w.,$-])1-\d{3}(?:-[A-Z\d]{2,8}){1,3}(?![\w-])(?<=[A-Z])", _telephone),
    (
        r"((?i:\b(?:call|phone|text|tel|fax|dial|number|"
        r"reach)\b).{0,30}?)(?<![\d.,$])([2-9]\d{2})([2-9]\d{2})(\d{4})(?!\d|[.,]\d)",
        _unspaced,
    ),
    (r"(?<![\w.,$-])\+\d{1,3}(?:[-. ]\(?\d{1,8}\)?){2,6}(?![\w-])|(?<![\w.,$-])\+\d{8,14}\b", _telephone),
    (r"(?<![\w.,$-])0\d{2,4}(?:[ -]\d{3,4}){1,3}(?![\w-])", _telephone),
    (r"(?<![\w.,$/-])(?:[2-9]\d{2}-\d{4})(?![\w-]|\.\d)", _telephone),
    (
        r"(?<![\w.,$])(?P<before>)(?P<low>(?!))?(?P<n>\d+(?:\.\d+){2,5})(?P<tail>-?(?:rc|alpha|beta|a|"
        r"b)\.?\d*)?(?!\w|,\d)",
        lambda m: _version(m).strip(),
    ),
    (r"(?<![\w.,$-])\d{4}(?:[ -]\d{4}){3}(?![\w-])|(?<![\w.,$-])3\d{3} \d{6} \d{5}\b", lambda m: _grouped(m.group())),
    (r"(?<![\w.,$-])\d{3}-\d{2}-\d{4}(?![\w-])", lambda m: _grouped(m.group())),
    (r"(?<![\w.,$-])\d+(?:-\d+){3,}(?:-[Xx])?(?![\w-])|(?<=ISBN\s)[\d-]{5,17}\b", lambda m: _grouped(m.group())),
    (r"(?i)\b(?:ext|x)\.?\s?(\d{1,5})\b(?<=\d)(?<!\dx\d)", lambda m: _extension(m)),
    (
        r"\b((?:[Cc]all|[Dd]ial|[Dd]ialed|[Dd]ialing|[Cc]alled|[Cc]alling|[Pp]hone|[Tt]ext|[Rr]ing|[Tt]o|[Aa]|"
        r"[Tt]he)\s)([2-9]11|988|999|112)\b(?!\s?(?:[a-z]+s|percent|%|[,.]\d)\b)(?!,\d)",
        lambda m: m[1] + numbers.digits(m[2]),
    ),
    (
        r"(?<![\w.,$-])911(?![\w%-]|[.,]\d)(?!\s(?!is\b|was\b|has\b|calls\b|operators\b|dispatchers\b|callers\b)"
        r"(?:[a-z]+s|people|percent|men|women|million|thousand|billion)\b)",
        "nine one one",
    ),
    (r"\b20/20(?=\s(?:vision|hindsight))", "twenty twenty"),
    (r"\b50[/-]50\b", "fifty fifty"),
    (r"\b24[x-]7\b", "twenty four seven"),
    (
        r"\b802\.11([a-z]{0,2})\b",
        lambda m: "eight oh two dot eleven " + letters(m[1]) if m[1] else "eight oh two dot eleven",
    ),
    (r"(?<![\w.,$])(\d{3,4})p\b", lambda m: f"{numbers.pairs(m[1])} P"),
    (r"\b0x([\dA-Fa-f]+)\b", lambda m: f"zero X {_spelt(m[1])}"),
    (r"#(?=[A-Fa-f]*\d)([\dA-Fa-f]{6})\b", lambda m: f"hash {_spelt(m[1])}"),
    (r"\b(?=[a-f]*\d)(?=\d*[a-f])([\da-f]{7,40})\b", lambda m: _spelt(m[1])),
    (r"\b24/7(?:/365)?\b", lambda m: "twenty four seven" + (" three sixty five" if "365" in m.group() else "")),
    (r"\b401\(?k\)?(?![a-z])", "four oh one K"),
    (r"\b403\(?b\)?(?![a-z])", "four oh three B"),
    (r"\b501\(c\)\(?3?\)?", "five oh one C three"),
    # places
    (
        r"\b([NSEW])\.\s(?=(?:[A-Z][a-z]+|\d{1,3}(?:st|nd|rd|th))\s(?:St|Ave|Street|Avenue|Road|Rd|Blvd|Dr|Lane)\b)",
        lambda m: _SIDES[m[1]] + " ",
    ),
    (
        rf"(?P<before>,\s(?:{_STATE})\s|\b(?:{'|'.join(s for s in STATES.values() if s != 'D.C.')}),?\s|"
        rf"\b[Zz][Ii][Pp](?:\s[Cc]ode)?:?\s(?:is\s|was\s)?)"
        r"(?P<zip>\d{5})(?:-(?P<four>\d{4}))?(?![\w,]\d|\w)",
        _zip,
    ),
    (r"(?<![\w.,$-])(?P<before>)(?P<zip>\d{5})-(?P<four>\d{4})(?![\w-])", _zip),
    (
        rf"\b(?!(?:Yes|No|Well|Hey|Oh|So|Then|And|But|Now)\b)([A-Z][\w.']+,\s)({_STATE})\b(?=\s*(?:[.,;:)\"]|$|\d{{5}}|[a-z]))",
        lambda m: m[1] + STATES[m[2]],
    ),
    (r"\bWashington,?\sD\.?C\b", "Washington D.C"),
    (
        rf"(?<![\w.,$/-])(?P<n>\d{{2,4}})(?P<letter>[A-Za-z])?(?=\s(?:(?:North|South|East|West|[NSEW]\.?|NE|NW|SE|"
        rf"SW)\s)?(?:[A-Z][\w']+\s){{1,3}}(?:{_STREET})\b)",
        _house,
    ),
    (
        rf"(?<![\w.,$/-])(?P<n>\d{{2,4}})(?P<letter>(?!))?(?=\s(?:[NSEW]\.?\s)?\d{{1,3}}(?:st|nd|rd|"
        rf"th)\s(?:{_STREET})\b)",
        _house,
    ),
    (rf"\b({_NUMBERED_ROOMS})(\s|-)(\d{{3,4}})([A-Za-z])?\b(?!,\d|\.\d|%)", lambda m: f"{m[1]} {_house_number(m)}"),
    (r"\b(I|US|U\.S\.|SR|CR)-(\d{1,3})\b", lambda m: f"{m[1]} {numbers.pairs(m[2])}"),
    # codes
    (r"\b([A-Z]{1,3})-(\d{1,3})s\b", lambda m: f"{m[1]} {numbers.plural(numbers.cardinal(m[2]))}"),
    (r"\bS0?(\d{1,2})E0?(\d{1,2})\b", r"season \1 episode \2"),
    (rf"\b(?!OK|IN|OR|ME|HI|OH)({_STATE})\s(\d{{5}})\b(?!,)", lambda m: f"{m[1]} {numbers.digits(m[2])}"),
    (r"\b([Nn]os?\.\s)(\d{2,3})-(\d{2,5})\b(?!-)", lambda m: f"{m[1]}{numbers.cardinal(m[2])}, {numbers.pairs(m[3])}"),
    (
        rf"\b({_CODES}:?\s(?:is\s|was\s|(?:number|no\.|#)\s?)?#?)(\d{{3,10}})\b(?![,.]\d|%|-)",
        lambda m: f"{m[1].rstrip('#')}{numbers.digits(m[2])}",
    ),
    (rf"\b({_CODES}:?\s#?)(\d{{2,8}}(?:-\d{{2,8}}){{1,4}})\b", lambda m: f"{m[1].rstrip('#')}{_grouped(m[2])}"),
    (r"\b(?=[A-Z]*\d)(?=(?:\d*[A-Z]+\d+){2}|\d+[A-Z]+\d+)[A-Z\d]{9,20}\b", lambda m: _spelt(m.group())),
    (r"\b007\b", "double oh seven"),
)


_SIDES = {"N": "North", "S": "South", "E": "East", "W": "West"}


def _house_number(match: re.Match[str]) -> str:
    return numbers.pairs(match[3]) + (f" {match[4].upper()}" if match[4] else "")


def _extension(match: re.Match[str]) -> str:
    """Only behind a telephone number that is written out by now."""
    if not re.search(r"(?:zero|one|two|three|four|five|six|seven|eight|nine),?\s$", match.string[: match.start()]):
        return match.group()
    return f"extension {numbers.digits(match[1])}"


def write_out(text: str) -> str:
    return apply(_RULES, text)
