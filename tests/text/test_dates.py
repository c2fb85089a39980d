"""Dates, years, decades, eras, times, and ranges of them."""

from __future__ import annotations

import pytest
from reading import words

DATES = {
    "on 3/14/2021": "on march fourteenth twenty twenty one",
    "on 2021-03-14": "on march fourteenth twenty twenty one",
    "He turned 30 on 3/4/24.": "he turned thirty on march fourth twenty twenty four",
    "on 12/25": "on december twenty fifth",
    "due by 7/16": "due by july sixteenth",
    "3-14-2021": "march fourteenth twenty twenty one",
    "24.12.2024": "december twenty fourth twenty twenty four",
    "on May 5": "on may fifth",
    "May 5th, 2020": "may fifth twenty twenty",
    "Jan. 5, 2020": "january fifth twenty twenty",
    "Sept 11": "september eleventh",
    "on the 5th of May": "on the fifth of may",
    "5 May 1945": "the fifth of may nineteen forty five",
    "July 4–6": "july fourth to sixth",
    "June 5-July 10": "june fifth to july tenth",
    "in March 2020": "in march twenty twenty",
    "Mon., Dec. 3": "monday december third",
    "9/11": "nine eleven",
    "Nov. 28, he left": "november twenty eighth he left",
}
YEARS = {
    "In 1907, 1850 and 2005": "in nineteen oh seven eighteen fifty and two thousand five",
    "the 1990s": "the nineteen nineties",
    "The '90s were fun.": "the nineties were fun",
    "The ’90s": "the nineties",
    "the 80s": "the eighties",
    "in her 30s": "in her thirties",
    "the mid-1800s": "the mid eighteen hundreds",
    "the early 2000s": "the early two thousands",
    "the class of '05": "the class of oh five",
    "the summer of '69": "the summer of sixty nine",
    "1914–1918": "nineteen fourteen to nineteen eighteen",
    "1990-95": "nineteen ninety to ninety five",
    "44 BC": "forty four b c",
    "AD 79": "a d seventy nine",
    "500 BCE": "five hundred b c e",
    "the 19th century": "the nineteenth century",
    "c. 1850": "circa eighteen fifty",
    "Q3 2024": "q three twenty twenty four",
    "FY2024": "fiscal year twenty twenty four",
    "2024 was good": "twenty twenty four was good",
}
TIMES = {
    "at 5:05 p.m. sharp": "at five oh five p m sharp",
    "She came at 9 a.m.": "she came at nine a m",
    "at 12:00": "at twelve o'clock",
    "at 8:00 AM": "at eight a m",
    "10:30": "ten thirty",
    "17:45": "seventeen forty five",
    "5pm": "five p m",
    "9-5": "nine to five",
    "9am–5pm": "nine a m to five p m",
    "9:30-11 a.m.": "nine thirty to eleven a m",
    "2-3 PM": "two to three p m",
    "10:00–12:30": "ten o'clock to twelve thirty",
    "1400 hours": "fourteen hundred hours",
    "0700 hours": "oh seven hundred hours",
    "1:15:30": "one hour fifteen minutes and thirty seconds",
    "9a-5p": "nine a m to five p m",
    "It was 3:07.": "it was three oh seven",
    "John 3:16": "john three sixteen",
}


@pytest.mark.parametrize(("text", "said"), [*DATES.items(), *YEARS.items(), *TIMES.items()])
def test_read(text: str, said: str) -> None:
    assert words(text) == said
