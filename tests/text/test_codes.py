"""Digits that are no number: telephones, zip codes, cards, machines, versions, sections, houses, rooms, models."""

from __future__ import annotations

import pytest
from reading import words

TELEPHONES = {
    "Call me at 2125550100": "call me at two one two five five five zero one zero zero",
    "call 1-888-GO-FEDEX": "call one eight eight eight go fedex",
    "Tel. +30 210-9549332": "telephone plus three zero two one zero nine five four nine three three two",
    "911 is the number to call, so call 911": "nine one one is the number to call so call nine one one",
    "(555) 123-4567": "five five five one two three four five six seven",
    "Call 555-0142.": "call five five five zero one four two",
    "212-555-0143 ext. 7": "two one two five five five zero one four three extension seven",
    "1-800-555-0199": "one eight hundred five five five zero one nine nine",
    "+1 (415) 555-2671": "plus one four one five five five five two six seven one",
    "+44 20 7946 0958": "plus four four two zero seven nine four six zero nine five eight",
    "1-800-FLOWERS": "one eight hundred flowers",
    "415.555.2671": "four one five five five five two six seven one",
    "Call 911!": "call nine one one",
    "Dial 112 now": "dial one one two now",
    "text 988": "text nine eight eight",
    "911 people came": "nine hundred eleven people came",
}
CODES = {
    "LA 70112": "la seven zero one one two",
    "No. 75-1605": "number seventy five sixteen oh five",
    "order #100-2345": "order one zero zero two three four five",
    "#FF5733": "hash f f five seven three three",
    "0x1F": "zero x one f",
    "VIN 1HGCM82633A004352": "vin one h g c m eight two six three three a zero zero four three five two",
    "Beverly Hills, CA 90210": "beverly hills california nine zero two one zero",
    "zip code 02139": "zip code zero two one three nine",
    "Boston, MA 02115-1234": "boston massachusetts zero two one one five one two three four",
    "4111 1111 1111 1111": "four one one one one one one one one one one one one one one one",
    "123-45-6789": "one two three four five six seven eight nine",
    "your PIN is 4821": "your pin is four eight two one",
    "a card ending in 4242": "a card ending in four two four two",
    "ISBN 978-3-16-148410-0": "isbn nine seven eight three one six one four eight four one zero zero",
    "open 24/7": "open twenty four seven",
    "my 401(k)": "my four oh one k",
}
MACHINES = {
    "192.168.1.1": "one nine two dot one six eight dot one dot one",
    "127.0.0.1:8080": "one two seven dot zero dot zero dot one colon eighty eighty",
    "on port 7860": "on port seventy eight sixty",
    "version 2.0.1": "version two point zero point one",
    "v1.10": "version one point ten",
    "Python 3.11 or newer": "python three point eleven or newer",
    "Ubuntu 22.04": "ubuntu twenty two point oh four",
    "iOS 17.4.1": "ios seventeen point four point one",
    "torch 2.11.0": "torch two point eleven point zero",
    "section 3.2.1": "section three point two point one",
    "Section 4.12": "section four point twelve",
    "see §3.10": "see section three point ten",
    "Figure 2.10": "figure two point ten",
}
PLACES = {
    "100 W. 57th St.": "one hundred west fifty seventh street",
    "Hwy. 101": "highway one oh one",
    "error 404": "error four oh four",
    "Flight UA 237": "flight ua two thirty seven",
    "221B Baker Street": "two twenty one b baker street",
    "1600 Pennsylvania Avenue": "sixteen hundred pennsylvania avenue",
    "123 N. Main St.": "one twenty three north main street",
    "350 5th Ave., New York, NY": "three fifty fifth avenue new york new york",
    "Room 101": "room one oh one",
    "flight 237": "flight two thirty seven",
    "Route 66": "route sixty six",
    "I-95 north": "i ninety five north",
    "a Boeing 747": "a boeing seven forty seven",
    "an RTX 4090": "an rtx forty ninety",
}
MODELS = {
    "B-52s": "b fifty twos",
    "S03E05": "season three episode five",
    "Form 1040": "form ten forty",
    "H2SO4": "h two s o four",
    "C6H12O6": "c six h twelve o six",
    "802.11ac": "eight oh two dot eleven a c",
    "1080p": "ten eighty p",
    "H100 and V100": "h one hundred and v one hundred",
    "Covid-19's rise": "covid nineteen's rise",
    "MP3": "mp three",
    "COVID-19": "covid nineteen",
    "an F-16": "an f sixteen",
    "a B2B firm": "a b two b firm",
    "5G": "five g",
    "a 3D film": "a three d film",
    "a 4K TV": "a four k tv",
    "GPT-4": "gpt four",
    "an iPhone 15": "an iphone fifteen",
    "the A380": "the a three eighty",
    "H2O": "h two o",
    "Apollo 11": "apollo eleven",
}


@pytest.mark.parametrize(
    ("text", "said"), [*TELEPHONES.items(), *CODES.items(), *MACHINES.items(), *PLACES.items(), *MODELS.items()]
)
def test_read(text: str, said: str) -> None:
    assert words(text) == said
