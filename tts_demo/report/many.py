"""What many requests meet: tables from the records of ``bench --requests`` and ``bench --batch``. They are kept of every
machine, so each table names its own."""

from collections.abc import Collection

import pandas as pd

from ..measure import requests
from .markdown import columns, table


def first_audio(runs: pd.DataFrame, labels: Collection[str]) -> str:
    """Of these rows, a table for each machine and number of requests; "" where none of them was measured so."""
    found = runs[(runs["kind"] == requests.KIND) & runs["row"].isin(labels)]
    parts = []
    for (machine, text), here in found.groupby(["machine", "text"], sort=False):
        newest = here.drop_duplicates("row", keep="last").set_index("row")
        rows = [(f"`{label}`", newest.loc[label]) for label in labels if label in newest.index]
        caption = f"On {machine}, {text} of speech each: seconds of compute until the first audio of requests that come "
        caption += "one after the other, and seconds of speech made in a second of compute when several run in turns."
        parts.append(f"{caption}\n\n{table('row', columns('requests').values(), rows)}")
    return "\n\n".join(parts)
