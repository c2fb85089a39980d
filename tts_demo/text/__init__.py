from .sentences import Sentence, preview

__all__ = ["Sentence", "preview"]
