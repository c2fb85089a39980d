"""A guess at the language of a text, for a hint before a run: these models read English only."""

import re

COMMON = {  # words that are frequent in one language and are no English ones
    "German": "der die das und ist nicht ich ein eine mit auf den von zu im dem sich wir sie war wenn auch aber heute",
    "French": "le la les des est une dans que qui pas pour sur avec nous vous je il elle sont cette mais aujourd",
    "Spanish": "el los las una que no por con para como está muy pero más este esta hoy yo usted nosotros",
    "Italian": "il lo gli che non una per con sono della nel questo questa ma più anche oggi io noi voi è",
    "Portuguese": "os as um uma que não por com para como está muito mas mais este esta hoje eu você nós",
    "Dutch": "de het een en niet is van dat zijn op met voor maar ook wij zij vandaag ik naar geen",
}
ENGLISH = "the and of to a in is it that was for on with as at by this he she they you i we not are be have one"
FEWEST = 2  # common words of another language that a text must have


def foreign(text: str) -> str:
    """The language that a text seems to be in, '' for English or where it cannot be told."""
    words = re.findall(r"[^\W\d_]+", text.casefold())
    counts = {name: sum(word in set(common.split()) for word in words) for name, common in COMMON.items()}
    likely = max(counts, key=lambda name: counts[name])
    english = sum(word in set(ENGLISH.split()) for word in words)
    return likely if counts[likely] >= FEWEST and counts[likely] > english else ""
