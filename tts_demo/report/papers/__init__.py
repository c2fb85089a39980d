"""Papers' figures and our goals as data (``data.py``), set beside what was measured here (``table.py``)."""

from .data import Goal, Line, Paper, Sentence, judged_rows, long_rows, measured_rows, paper, papers
