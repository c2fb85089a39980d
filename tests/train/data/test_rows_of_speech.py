"""The cache of arrays: what is in it comes back, it grows, and a writer that is killed leaves nothing broken."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tts_demo.train.data import rows as module
from tts_demo.train.data.rows import Rows


def test_arrays_come_back_and_only_missing_ones_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE", 4)
    made = []

    def make(key: str) -> np.ndarray:
        made.append(key)
        return np.arange(int(key), dtype=np.int16)

    keys = [str(n) for n in (3, 0, 7, 1, 5, 9)]
    cache = Rows(tmp_path / "numbers").fill(keys, make, "numbers")
    assert made == keys and len(list((tmp_path / "numbers").iterdir())) == 2
    again = Rows(tmp_path / "numbers").fill([*keys, "12"], make, "numbers")
    assert made == [*keys, "12"] and "12" in again and "12" not in cache
    cache.refresh()
    for key in [*keys, "12"]:
        assert again[key].tolist() == cache[key].tolist() == list(range(int(key)))
        assert again.length(key) == int(key) and again[key].dtype == np.int16


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.float16, np.float32])
def test_width_and_dtype_are_kept(tmp_path: Path, dtype: type) -> None:
    value = np.arange(12).reshape(4, 3).astype(dtype)
    made = Rows(tmp_path).fill("ab", lambda key: np.asfortranarray(value), "rows")
    assert all(made[key].dtype == dtype and (made[key] == value).all() for key in "ab")


def test_an_error_while_making_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        Rows(tmp_path).fill(["a", "b"], lambda key: np.zeros(1 // (key == "a")), "rows")
    assert not list(tmp_path.iterdir())


KILLED = """
import os, signal, sys, time
import numpy as np
from tts_demo.train.data import rows
rows.PIECE = 2
real = os.fsync
def slow(handle):  # the bytes are written, the file is not in place
    if len(list(rows.Path(sys.argv[1]).glob("*.safetensors"))) == 1:
        print("now", flush=True)
        time.sleep(60)
    real(handle)
os.fsync = slow
rows.Rows(sys.argv[1]).fill("abcd", lambda key: np.full(1000, ord(key), np.int16), "rows")
"""


def test_a_writer_that_is_killed_leaves_whole_pieces_alone(tmp_path: Path) -> None:
    writer = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout and writer.stdout.readline() == "now\n"
    time.sleep(0.05)
    writer.send_signal(signal.SIGKILL)
    assert writer.wait() == -signal.SIGKILL
    assert list(tmp_path.glob("*.part"))  # it died in the middle of the second piece
    cache = Rows(tmp_path)
    assert "a" in cache and "b" in cache and "c" not in cache and "d" not in cache
    cache.fill("abcd", lambda key: np.full(1000, ord(key), np.int16), "rows")
    assert all((cache[key] == ord(key)).all() and len(cache[key]) == 1000 for key in "abcd")
