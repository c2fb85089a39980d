"""The symbols of text encoder and phoneme recogniser: hibari's phonemes, one character each, stress and punctuation.

The table is part of every checkpoint: append to its end, never reorder it. Index 0 is also the CTC blank."""

from collections.abc import Iterable

PADDING, UNKNOWN, BOUNDARY = "<pad>", "<unk>", " "
PUNCTUATION = tuple(',.?!;:—()"“”')
STRESS = tuple("ˈˌ")  # before the vowel they belong to
VOWELS = tuple("əᵊɪᵻɛæɑʌɔʊiuɜɐAIOWY")  # A I O W Y: as in bait, bite, boat, bout, boy
CONSONANTS = tuple("pbtdkɡTʧʤfvθðszʃʒhmnŋlɹjw")  # T: the flap of 'water'
SYMBOLS: tuple[str, ...] = (PADDING, UNKNOWN, BOUNDARY, *PUNCTUATION, *STRESS, *VOWELS, *CONSONANTS)
IDS: dict[str, int] = {symbol: i for i, symbol in enumerate(SYMBOLS)}


def encode(phonemes: Iterable[str]) -> list[int]:
    """Phonemes, one character a symbol -> ids [T], one for each character."""
    return [IDS.get(symbol, IDS[UNKNOWN]) for symbol in phonemes]
