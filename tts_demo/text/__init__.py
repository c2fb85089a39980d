from .sentences import Sentence, preview
