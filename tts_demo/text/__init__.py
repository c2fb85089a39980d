from .sentences import Spoken, preview

__all__ = ["Spoken", "preview"]
