"""The real server with the bundled weights: many visitors at once, half of whom leave in the middle; and kill -9.

Seconds here. The long run: ``TTS_DEMO_LOAD_SECONDS=600 TTS_DEMO_LOAD_VISITORS=20 pytest -s
tests/ui/test_under_load.py``.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import numpy as np
import pytest
import soundfile
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError
from gradio_client.utils import QueueError
from toy import free_port

from tts_demo import checkpoints
from tts_demo.measure import judges
from tts_demo.methods import METHODS
from tts_demo.ui.page import voices

ROOT = Path(__file__).parents[2]
SECONDS, VISITORS = (
    int(os.environ.get(f"TTS_DEMO_LOAD_{name}", usual)) for name, usual in (("SECONDS", 15), ("VISITORS", 6))
)
TEXTS = (
    "The old lighthouse keeper counted seven ships before breakfast.",
    "Please bring me a glass of cold water and some bread.",
    "He did not know what went on in the minds of his superiors.",
    "My brother plays the piano every Sunday afternoon.",
    "We should have turned left at the second bridge.",
    "Winter came early and the river froze in one night.",
    "Nobody believed that the small red box was empty.",
    "They sold the farm and moved to a city by the sea.",
    "The doctor asked her to breathe in slowly and hold.",
    "A thin grey cat watched the birds from the roof.",
)
pytestmark = pytest.mark.skipif(
    not checkpoints.available(checkpoints.resolve("nano"), "lm"), reason="no bundled weights"
)


class Server:
    """``python app.py`` in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.port, self.folder = free_port(), folder
        environment = {**os.environ, "GRADIO_TEMP_DIR": str(folder), "TTS_DEMO_MAX_QUEUE": "8", "HF_HUB_OFFLINE": "1"}
        self.started = time.monotonic()
        self.log = open(folder / "log.txt", "a")
        self.process = subprocess.Popen(
            [sys.executable, "app.py", "--port", str(self.port), "--device", "cpu"],
            cwd=ROOT,
            env=environment,
            stdout=self.log,
            stderr=self.log,
        )
        self.url = f"http://127.0.0.1:{self.port}"

    def wait(self) -> dict:
        """Until the model is loaded: the health report and the seconds it took."""
        while time.monotonic() - self.started < 120:
            assert self.process.poll() is None, (self.folder / "log.txt").read_text()[-2000:]
            with contextlib.suppress(httpx.HTTPError):
                state = httpx.get(f"{self.url}/health", timeout=5).json()
                assert state["status"] in ("loading", "ok"), state
                if state["status"] == "ok":
                    return state | {"seconds": time.monotonic() - self.started}
            time.sleep(0.1)
        raise AssertionError("the server did not come up")

    def kill(self, how: int = signal.SIGKILL) -> int:
        self.process.send_signal(how)
        code = self.process.wait(60)
        self.log.close()
        return code

    def megabytes(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024


@pytest.fixture(scope="module")
def voice(tmp_path_factory) -> str:
    return str(voices.examples()[0].path)


def ask(voice: str, number: int) -> dict:
    method = list(METHODS)[number % len(METHODS)]
    return dict(
        text=TEXTS[number % len(TEXTS)],
        voice=handle_file(voice),
        consent=True,
        method=method,
        seed=number,
        max_seconds=4,
        api_name="/synthesize",
    )


def digest(path: str) -> str:
    samples, _ = soundfile.read(path, dtype="int16")
    return hashlib.sha256(samples.tobytes()).hexdigest()


def stay(server: Server, voice: str, number: int, end: float, told: Counter, heard: dict[int, set]) -> None:
    """Ask again and again; every answer is speech, or a refusal that says why."""
    client, chance = (
        Client(server.url, verbose=False, download_files=str(server.folder / f"visitor{number}")),
        random.Random(number),
    )
    while time.monotonic() < end:
        try:
            job = client.submit(**ask(voice, number))
            while not job.done():
                told["a place in the queue was told"] += job.status().rank is not None
                time.sleep(0.1)
            speech, record = job.result(timeout=120)
            assert record["seed"] == number and record["text"] == TEXTS[number % len(TEXTS)]
            heard.setdefault(number, set()).add((digest(speech), speech))
            told["answered"] += 1
        except (AppError, QueueError) as error:
            polite = "try again" in str(error)
            told["politely refused" if polite else f"failed: {str(error)[:80]}"] += 1
            time.sleep(chance.uniform(1, 3))  # as a person would


def leave(server: Server, voice: str, number: int, end: float, told: Counter) -> None:
    """Ask, listen for a moment, and hang up."""
    chance = random.Random(number)
    with httpx.Client(base_url=server.url, timeout=30) as http:
        with open(voice, "rb") as file:
            path = http.post("/gradio_api/upload", files={"files": file}).json()[0]
        data = [
            TEXTS[number % len(TEXTS)],
            {"path": path, "meta": {"_type": "gradio.FileData"}},
            True,
            "baseline",
            {},
            "",
            number,
            0.7,
            4,
        ]
        while time.monotonic() < end:
            answer = http.post("/gradio_api/call/synthesize", json={"data": data})
            if answer.status_code != 200:  # the queue is full
                told["left: refused before"] += 1
                time.sleep(chance.uniform(1, 3))
                continue
            with (
                contextlib.suppress(httpx.TimeoutException),
                http.stream(
                    "GET", f"/gradio_api/call/synthesize/{answer.json()['event_id']}", timeout=chance.uniform(0.2, 2)
                ),
            ):
                time.sleep(chance.uniform(0, 1))
            told["left in the middle"] += 1


def test_visitors_come_and_go_and_each_hears_only_what_they_asked_for(tmp_path, voice):
    server = Server(tmp_path)
    told: Counter = Counter()
    heard: dict[int, set] = {}
    try:
        server.wait()
        client = Client(server.url, verbose=False, download_files=str(tmp_path / "alone"))
        alone = {n: digest(client.predict(**ask(voice, n))[0]) for n in range(VISITORS // 2)}
        first, end = server.megabytes(), time.monotonic() + SECONDS
        crowd = [
            threading.Thread(target=stay, args=(server, voice, n, end, told, heard))
            if n < VISITORS // 2
            else threading.Thread(target=leave, args=(server, voice, n, end, told))
            for n in range(VISITORS)
        ]
        memory = []
        for visitor in crowd:
            visitor.start()
        while any(v.is_alive() for v in crowd):
            time.sleep(max(0.2, SECONDS / 40))
            memory.append(server.megabytes())
        for visitor in crowd:
            visitor.join()
        deadline = time.monotonic() + 60
        while httpx.get(f"{server.url}/health").json()["jobs"] and time.monotonic() < deadline:
            time.sleep(0.2)
        assert httpx.get(f"{server.url}/health").json() | {"stack": 0, "checkpoint_hash": 0} == {
            "status": "ok",
            "jobs": 0,
            "stack": 0,
            "checkpoint_hash": 0,
        }
        assert digest(client.predict(**ask(voice, 0))[0]) == alone[0]
        # byte for byte what they hear alone
        assert all({d for d, _ in found} == {alone[n]} for n, found in heard.items())
        half = len(memory) // 2
        print(
            json.dumps(
                {
                    "visitors": VISITORS,
                    "seconds": SECONDS,
                    **told,
                    "MB at the start": round(first),
                    "MB half-way": round(float(np.median(memory[half // 2 : half])), 1),
                    "MB at the end": round(float(np.median(memory[-half // 2 :])), 1),
                    "nearest text is their own": nearest_own(heard),
                }
            )
        )
        assert not [key for key in told if key.startswith("failed")] and told["answered"] and told["left in the middle"]
        if SECONDS >= 300:
            assert np.median(memory[-half // 2 :]) < 1.05 * np.median(memory[half // 2 : half])
        assert server.kill(signal.SIGTERM) == 0
    finally:
        if server.process.poll() is None:
            server.kill()


def nearest_own(heard: dict[int, set]) -> str:
    """Of the texts asked for, how often the one nearest to what Whisper heard is the asker's."""
    judge = judges.Judges(download=False)
    right = 0
    for number, found in heard.items():
        samples, _ = soundfile.read(next(iter(found))[1], dtype="float32")
        rates = []
        for other in heard:
            errors, length = judges.word_errors(TEXTS[other % len(TEXTS)], judge.words(samples) or "")
            rates.append(errors / length)
        right += list(heard)[int(np.argmin(rates))] == number
    return f"{right} of {len(heard)}"


def test_kill_9_leaves_nothing_behind_that_hinders_the_next_start(tmp_path, voice):
    before = {p: p.stat().st_mtime_ns for p in (ROOT / "checkpoints").rglob("*") if p.is_file()}
    starting = Server(tmp_path)
    time.sleep(1.0)
    assert starting.kill() == -signal.SIGKILL  # while it starts
    running = Server(tmp_path)
    running.wait()
    long = {"text": " ".join(TEXTS), "max_seconds": 30}  # takes seconds to say
    job = Client(running.url, verbose=False, download_files=str(tmp_path / "killed")).submit(**ask(voice, 1) | long)
    while not httpx.get(f"{running.url}/health", timeout=5).json()["jobs"]:
        assert not job.done()
    assert running.kill() == -signal.SIGKILL  # while it speaks
    with pytest.raises(Exception):  # noqa: B017
        job.result(timeout=30)
    again = Server(tmp_path)
    try:
        state = again.wait()
        client = Client(again.url, verbose=False, download_files=str(tmp_path / "again"))
        speech, _ = client.predict(**ask(voice, 1))
        assert soundfile.info(speech).duration > 0.5
        print(
            json.dumps({"start-up seconds": round(state["seconds"], 1), "MB after one run": round(again.megabytes())})
        )
    finally:
        again.kill()
    assert before == {p: p.stat().st_mtime_ns for p in (ROOT / "checkpoints").rglob("*") if p.is_file()}
