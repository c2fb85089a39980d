from .spoken import Spoken, preview

__all__ = ["Spoken", "preview"]
