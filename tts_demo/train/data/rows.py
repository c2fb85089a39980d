"""The one cache of training data: arrays of unequal length by key, on disk, whatever they hold (samples, labels, codes,
pitch).

A cache is a folder of pieces. A piece is a safetensors file of up to ``PIECE`` arrays behind each other, their keys in
its header. It is written under a temporary name and put in place by ``os.replace``, so it is there as a whole or not
at all, whenever the process that writes it dies. Pieces never change: what a growing corpus lacks goes into new ones.
"""

import json
import os
import tempfile
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save
from tqdm import tqdm

PIECE = 500  # arrays


class Rows:
    """Arrays [n_i, ...] by key, all of one dtype and width, read through memory maps."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._index: dict[str, tuple[np.ndarray, int, int]] = {}  # key -> its piece, first and last row + 1
        self._seen: set[str] = set()
        self.refresh()

    def refresh(self) -> None:
        """Find pieces that another process has written since."""
        for path in sorted(self.folder.glob("*.safetensors")):
            if path.name not in self._seen:
                self._seen.add(path.name)
                with safe_open(path, "pt") as file:  # maps the memory; "numpy" would read all of it
                    rows, offsets = (file.get_tensor(name).numpy() for name in ("rows", "offsets"))
                    keys = json.loads(file.metadata()["keys"])
                rows.setflags(write=False)
                self._index |= {key: (rows, int(a), int(b)) for key, a, b in zip(keys, offsets[:-1], offsets[1:])}

    def __contains__(self, key: str) -> bool:
        return key in self._index

    def __getitem__(self, key: str) -> np.ndarray:
        """[n, ...], a view of the file."""
        rows, first, end = self._index[key]
        return rows[first:end]

    def length(self, key: str) -> int:
        _, first, end = self._index[key]
        return end - first

    def fill(self, keys: Iterable[str], make: Callable[[str], np.ndarray], what: str) -> "Rows":
        """Make the arrays of those keys that are not there yet; ``what``: a word for the progress bar."""
        missing = [key for key in dict.fromkeys(keys) if key not in self]
        bar = tqdm(missing, desc=what, unit="row", mininterval=2.0, disable=len(missing) < 2)
        made = ((key, make(key)) for key in bar)
        while some := list(islice(made, PIECE)):
            self.add(*map(list, zip(*some)))
        return self

    def add(self, keys: list[str], arrays: list[np.ndarray]) -> None:
        """Write one piece."""
        self.folder.mkdir(parents=True, exist_ok=True)
        offsets = np.cumsum([0, *map(len, arrays)], dtype=np.int64)
        rows = np.ascontiguousarray(np.concatenate(arrays))  # safetensors writes memory as it lies
        written = save({"rows": rows, "offsets": offsets}, {"keys": json.dumps(keys)})
        handle, part = tempfile.mkstemp(dir=self.folder, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(written)
                out.flush()
                os.fsync(out.fileno())
            os.replace(part, Path(part).with_suffix(".safetensors"))
        except BaseException:
            Path(part).unlink(missing_ok=True)
            raise
        self.refresh()
