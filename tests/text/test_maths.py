"""Cardinals, ordinals, decimals, fractions, scores, ratios, ranges, powers, comparisons, signs."""

from __future__ import annotations

import pytest
from reading import words

from tts_demo.text import numbers

NUMBERS = {
    "1.2bn people": "one point two billion people",
    "I have 21 of 1,234.5": "i have twenty one of one thousand two hundred thirty four point five",
    "0.5 and .5": "zero point five and point five",
    "3.14159": "three point one four one five nine",
    "1,000,000 people": "one million people",
    "7,800,000,000": "seven billion eight hundred million",
    "The 2nd, 3rd, 21st and 100th": "the second third twenty first and one hundredth",
    "the 1,000th visitor": "the one thousandth visitor",
    "agent 007": "agent double oh seven",
    "-5 degrees": "minus five degrees",
    "10k followers": "ten thousand followers",
    "2.5M views": "two point five million views",
    "the 747s": "the seven forty sevens",
    "in groups of 6s and 7s": "in groups of sixes and sevens",
    "100 percent": "one hundred percent",
    "the 101 ways": "the one hundred one ways",
    "1" * 19: " ".join(["one"] * 19),
    "(42)": "forty two",
    "2000 people": "two thousand people",
    "1500 words": "one thousand five hundred words",
    "5th-grade": "fifth grade",
}
FRACTIONS = {
    "3/4 mile": "three quarters of a mile",
    "He ran 1/2 mile.": "he ran half a mile",
    "a 3/4 mile run": "a three quarters mile run",
    "2/3 hour later": "two thirds of an hour later",
    "BP: 130/85": "bp one hundred thirty over eighty five",
    "3/16": "three sixteenths",
    "1/100": "one one hundredth",
    "7/8ths": "seven eighths",
    "15/16 in.": "fifteen sixteenths inch",
    "5/0": "five over zero",
    "a 3¾-hour drive": "a three and three quarters hour drive",
    "he ate 1/8 of the cake": "he ate one eighth of the cake",
    "1/x": "one over x",
    "an updated 1/2 bath": "an updated one half bath",
    "7/16 of an inch": "seven sixteenths of an inch",
    "3/4 of the class": "three quarters of the class",
    "1/2 a cup": "half a cup",
    "1/2 cup": "one half cup",
    "2/3 cup of milk": "two thirds cup of milk",
    "1 1/2 cups": "one and a half cups",
    "2 3/4 miles": "two and three quarters miles",
    "5/8-inch bolt": "five eighths inch bolt",
    "1/10 of it": "one tenth of it",
    "a 1-1/4 inch pipe": "a one and a quarter inch pipe",
    "9/10 of people": "nine tenths of people",
    "3/2": "three halves",
}
SCORES = {
    "4.5/5 stars": "four point five out of five stars",
    "she got 18/20": "she got eighteen out of twenty",
    "The motion passed 7-0-0.": "the motion passed seven zero zero",
    "a 5-4 decision": "a five to four decision",
    "20/20 vision": "twenty twenty vision",
    "a 50/50 chance": "a fifty fifty chance",
    "6-4, 7-5": "six to four seven to five",
    "They won 3-2.": "they won three to two",
    "a 24–21 loss": "a twenty four to twenty one loss",
    "I give it 4/5 stars.": "i give it four out of five stars",
    "8/10 would recommend": "eight out of ten would recommend",
    "He got 18/20 on the test.": "he got eighteen out of twenty on the test",
    "a perfect 10/10": "a perfect ten out of ten",
    "The Cougars (1-2) travel to Utah (2-2).": "the cougars one and two travel to utah two and two",
    "The score was 102-99.": "the score was one hundred two to ninety nine",
    "I scored 95/100": "i scored ninety five out of one hundred",
    "a 3:1 ratio": "a three to one ratio",
    "at 16:9": "at sixteen to nine",
    "mix it 1:10": "mix it one to ten",
}
RANGES = {
    "-5–10": "minus five to ten",
    "pages 10-20": "pages ten to twenty",
    "ages 5–12": "ages five to twelve",
    "20-30%": "twenty to thirty percent",
    "10%-20%": "ten percent to twenty percent",
    "2-3 times": "two to three times",
    "5 - 10 items": "five to ten items",
    "1,000-2,000 words": "one thousand to two thousand words",
    "0.5-1.5": "zero point five to one point five",
}
MATHS = {
    "y = 2x": "y equals two x",
    "z = 3x.": "z equals three x",
    "1/3 + 1/6 = 1/2": "one third plus one sixth equals one half",
    "1 + 8/2 = 5": "one plus eight divided by two equals five",
    "(a+b)(a-b)": "a plus b times a minus b",
    "6.02 x 10^23": "six point zero two times ten to the power of twenty three",
    "Is 5 > 3?": "is five greater than three",
    "Is x <= 3?": "is x less than or equal to three",
    "If 5 > 3": "if five is greater than three",
    "10**6": "ten to the power of six",
    "³√8": "the cube root of eight",
    "~50% of it": "about fifty percent of it",
    "≈ 5": "approximately five",
    "1 000 000": "one million",
    "1'000'000": "one million",
    "E = mc²": "e equals m c squared",
    "log₂ 8 = 3": "log base two of eight equals three",
    "n! = 120": "n factorial equals one hundred twenty",
    "|x| < 3": "the absolute value of x is less than three",
    "dy/dx": "d y over d x",
    "y = 2x² − 3x + 1": "y equals two x squared minus three x plus one",
    "aged ≥ 50 years": "aged greater than or equal to fifty years",
    "1 + 1.05 ± 1.34": "one plus one point zero five plus or minus one point three four",
    "155.2×77.6×10.6 mm": "one hundred fifty five point two by seventy seven point six by ten point six millimeters",
    "1920 x 1080 pixels": "nineteen twenty by ten eighty pixels",
    "3 × 10⁸ m/s": "three times ten to the power of eight meters per second",
    "2 + 2 = 4": "two plus two equals four",
    "5 - 3 = 2": "five minus three equals two",
    "6 × 7 = 42": "six times seven equals forty two",
    "10 ÷ 2 = 5": "ten divided by two equals five",
    "8/2=4": "eight divided by two equals four",
    "3*4=12": "three times four equals twelve",
    "x^2 + y^2": "x squared plus y squared",
    "2^10": "two to the power of ten",
    "x^n": "x to the power of n",
    "6.02 × 10^23": "six point zero two times ten to the power of twenty three",
    "1e-5": "one times ten to the power of minus five",
    "x < 5": "x is less than five",
    "x ≥ 3": "x is greater than or equal to three",
    "a <= b": "a is less than or equal to b",
    "a != b": "a is not equal to b",
    "p < 0.05": "p is less than zero point zero five",
    "in < 5 minutes": "in less than five minutes",
    "> 50% of them": "greater than fifty percent of them",
    "±5": "plus or minus five",
    "√16 = 4": "the square root of sixteen equals four",
    "y = 3x + 2": "y equals three x plus two",
    "f(x) = x - 1": "f of x equals x minus one",
    "~5 minutes": "about five minutes",
    "a 4x4 truck": "a four by four truck",
    "an 8 x 10 photo": "an eight by ten photo",
    "3x faster": "three times faster",
    "an A+ or a B-": "an a plus or a b minus",
    "18+ only": "eighteen plus only",
    "A → B": "a to b",
}


@pytest.mark.parametrize(
    ("text", "said"), [*NUMBERS.items(), *FRACTIONS.items(), *SCORES.items(), *RANGES.items(), *MATHS.items()]
)
def test_read(text: str, said: str) -> None:
    assert words(text) == said


def test_years() -> None:
    said = {"1900": "nineteen hundred", "1776": "seventeen seventy six", "2000": "two thousand"}
    said |= {"2001": "two thousand one", "2010": "twenty ten", "1905": "nineteen oh five", "1066": "ten sixty six"}
    assert {n: numbers.year(n) for n in said} == said


def test_roman() -> None:
    read = {"I": 1, "IV": 4, "IX": 9, "XIV": 14, "XL": 40, "XCIX": 99, "MCMXCIV": 1994}
    assert {r: numbers.roman(r) for r in read} == read
    assert [numbers.roman(r) for r in ("", "IIII", "VX", "ABC")] == [None] * 4
