"""Whether what a visitor says is in a recording can be."""

UNUSED = "the transcript is not used; correct it or leave it empty."
SPARE = 0.8  # of the fewest frames of a text read aloud: who talks is faster


def misfit(frames: int, fewest: int, most: int, seconds: float) -> str | None:
    """A sentence for the visitor where a transcript that needs ``fewest`` to ``most`` frames cannot be what is said in
    ``frames`` of them, which last ``seconds``; None where it can."""
    if frames < SPARE * fewest:
        return f"Nobody says so many words in {seconds:.1f} s: {UNUSED}"
    if frames > most:
        return f"Nobody takes {seconds:.1f} s for so few words: {UNUSED}"
    return None
