"""What many requests meet: tables from the records of ``bench --requests`` and ``bench --batch``. They are kept of
every machine, so each table names its own."""

from collections.abc import Collection, Sequence
from typing import Any

import pandas as pd

from ..measure import batch, requests
from .markdown import columns, table


def first_audio(runs: pd.DataFrame, labels: Collection[str]) -> str:
    """Of these rows, a table for each machine and number of requests; "" where none of them was measured so."""
    found = runs[(runs["kind"] == requests.KIND) & runs["row"].isin(labels)]
    parts = []
    for (machine, text), here in found.groupby(["machine", "text"], sort=False):
        newest = here.drop_duplicates("row", keep="last").set_index("row")
        rows = [(f"`{label}`", newest.loc[label]) for label in labels if label in newest.index]
        caption = (
            f"On {machine}, {text} of speech each: seconds of compute until the first audio of requests that come one "
            "after the other, and seconds of speech made in a second of compute when several run in turns."
        )
        parts.append(f"{caption}\n\n{table('row', columns('requests').values(), rows)}")
    return "\n\n".join(parts)


def batched(runs: pd.DataFrame) -> str:
    """Several requests in one step, a table for each machine and setting, rows in the order of ``BATCHED``."""
    found, parts = runs[runs["kind"] == batch.KIND], []
    setting = found["text"].map(lambda text: text.partition(", ")[2])
    for (machine, how), here in found.groupby(["machine", setting], sort=False):
        caption = f"On {machine}, {how}, one run each: the language model alone, for as many requests in every step."
        parts.append(f"{caption}\n\n{batch_table(here.to_dict('records'))}")
    return "\n\n".join(parts)


def batch_table(records: Sequence[dict[str, Any]]) -> str:
    """Records of ``batch``, or lines of their frame: of each row and number of requests the last."""
    place = {row.label: i for i, row in enumerate(batch.BATCHED)}
    lines = {(place[r["row"]], (f := r.get("figures", r))["size"]): (f"`{r['row']}`", f) for r in records}
    return table("row", columns("batch").values(), [lines[where] for where in sorted(lines)])
