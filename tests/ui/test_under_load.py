"""The real server with the bundled weights: many visitors at once, of whom some hang up, some cancel, and all are cut
off once by kill -9 while it speaks and come again. Short here; the long form prints the same figures:

    TTS_DEMO_LOAD_SECONDS=3600 TTS_DEMO_LOAD_VISITORS=20 pytest -s tests/ui/test_under_load.py
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
from toy import free_port

from tts_demo import checkpoints
from tts_demo.methods import METHODS
from tts_demo.ui import voices

ROOT = Path(__file__).parents[2]
SECONDS, VISITORS = (
    int(os.environ.get(f"TTS_DEMO_LOAD_{name}", usual)) for name, usual in (("SECONDS", 12), ("VISITORS", 6))
)
LONG = SECONDS >= 300  # memory and handles have settled by then, and are judged
PATIENCE = 1800  # seconds: a machine may have little time left for the server
BEFORE_KILL = 0.2  # of the time, and then the whole of it with the server that is started next
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
    """``python app.py`` in a process of its own, which keeps uploads and everything temporary under ``folder``."""

    def __init__(self, folder: Path, port: int = 0) -> None:
        self.port, self.folder, self.uploads = port or free_port(), folder, folder / "uploads"
        (folder / "tmp").mkdir(exist_ok=True)
        own = {"GRADIO_TEMP_DIR": str(self.uploads), "TMPDIR": str(folder / "tmp"), "HF_HUB_OFFLINE": "1"}
        own |= {
            "TTS_DEMO_PER_ADDRESS": "1000",
            "TTS_DEMO_VISITOR_UPLOADS_MB": "100000",
        }  # all visitors have one address
        self.started = time.monotonic()
        self.log = open(folder / "log.txt", "a")
        self.process = subprocess.Popen(
            [sys.executable, "app.py", "--port", str(self.port), "--device", "cpu"],
            cwd=ROOT,
            env={**os.environ, **own},
            stdout=self.log,
            stderr=self.log,
        )
        self.url = f"http://127.0.0.1:{self.port}"

    def wait(self) -> dict:
        """Until the model is loaded: the health report and the seconds it took."""
        while time.monotonic() - self.started < PATIENCE:
            assert self.process.poll() is None, (self.folder / "log.txt").read_text()[-2000:]
            with contextlib.suppress(httpx.HTTPError):
                state = self.health()
                assert state["status"] in ("loading", "ok"), state
                if state["status"] == "ok":
                    self.index = synthesize_index(self.url)
                    return state | {"seconds": time.monotonic() - self.started}
            time.sleep(0.5)
        raise AssertionError("the server did not come up")

    def health(self) -> dict:
        return httpx.get(f"{self.url}/health", timeout=30, verify=False).json()

    def idle(self) -> None:
        end = time.monotonic() + PATIENCE
        while self.health()["jobs"]:
            assert time.monotonic() < end, "a run does not end"
            time.sleep(0.2)

    def kill(self, how: int = signal.SIGKILL) -> int:
        self.process.send_signal(how)
        code = self.process.wait(60)
        self.log.close()
        return code

    def size(self) -> tuple[float, int, int]:
        """Resident MB, open file handles, threads."""
        own = Path(f"/proc/{self.process.pid}")
        status = (own / "status").read_text()
        value = lambda name: int(status.split(f"{name}:")[1].split()[0])
        return value("VmRSS") / 1024, len(list((own / "fd").iterdir())), value("Threads")


@dataclass
class Book:
    """What all visitors report."""

    told: Counter = field(default_factory=Counter)
    waits: list[float] = field(default_factory=list)  # seconds from asking to having the device
    answers: list[float] = field(default_factory=list)  # seconds from asking to the speech
    promised: list[tuple[float, float]] = field(default_factory=list)  # seconds told at first, seconds it took
    wrong: list[str] = field(default_factory=list)


class Visitor(threading.Thread):
    """Comes again and again until it is ``over``. Even ones stay for their speech, odd ones hang up or cancel."""

    def __init__(self, server: Server, number: int, over: threading.Event, book: Book, alone: dict[int, str]) -> None:
        super().__init__(daemon=True)
        self.server, self.number, self.over, self.book, self.alone = server, number, over, book, alone
        self.chance, self.visit = random.Random(number), 0
        self.habit = ("stays", "hangs up", "stays, by v1", "cancels")[number % 4]

    def run(self) -> None:
        while not self.over.is_set():
            self.visit += 1
            try:
                with client(self.server) as self.http:
                    self.speak_by_v1() if self.habit == "stays, by v1" else self.speak()
            except httpx.ConnectError:
                self.book.told["found no server after kill -9"] += 1
                self.over.wait(5)
            except httpx.HTTPError:
                self.book.told["cut off by kill -9"] += 1
            except Exception as error:
                self.book.wrong.append(f"visitor {self.number}: {error!r}"[:200])
            self.over.wait(self.chance.uniform(0.5, 2.0))

    def speak(self) -> None:
        """Through the queue, as Gradio's own client does."""
        book, session, asked = self.book, f"v{self.number}-{self.visit}", time.monotonic()
        body = {"data": self.inputs(), "fn_index": self.server.index, "session_hash": session}
        answer = self.http.post("/gradio_api/queue/join", json=body)
        if answer.status_code == 503:
            book.told["politely refused"] += 1
            return
        event_id, patience = answer.raise_for_status().json()["event_id"], self.chance.uniform(0.3, 4.0)
        promise, began = None, False
        with self.http.stream("GET", "/gradio_api/queue/data", params={"session_hash": session}) as stream:
            for line in stream.iter_lines():
                message = json.loads(line[6:]) if line.startswith("data: ") else {}
                kind, since = message.get("msg"), time.monotonic() - asked
                words = message["progress_data"][0]["desc"] if kind == "progress" else ""
                if promise is None and (told := re.search(r"about (\d+) s", words)):
                    promise = int(told[1]), since
                elif words == "Speaking" and not began:
                    began = True
                    book.waits.append(since)
                    if promise:
                        book.promised.append((promise[0], since - promise[1]))
                elif kind == "process_completed":
                    self.judge(message, since)
                    return
                if self.habit == "hangs up" and since > patience:
                    book.told["hung up"] += 1
                    return
                if self.habit == "cancels" and since > patience:
                    gone = {"session_hash": session, "fn_index": self.server.index, "event_id": event_id}
                    self.http.post("/gradio_api/cancel", json=gone)
                    book.told["cancelled"] += 1
                    return

    def judge(self, message: dict[str, Any], since: float) -> None:
        if not message["success"]:
            polite = "try again" in str(message["output"])
            self.book.told["politely refused" if polite else "failed"] += 1
            if not polite:
                self.book.wrong.append(f"visitor {self.number}: {message['output']}"[:200])
            return
        if message["output"] == {}:
            return  # of a cancelled one
        speech, record = message["output"]["data"]
        data = self.http.get(f"/gradio_api/file={speech['path']}").raise_for_status().content
        mine = record["seed"] == self.number and record["text"] == TEXTS[self.number % len(TEXTS)]
        self.heard(data, since, mine)

    def speak_by_v1(self) -> None:
        asked = time.monotonic()
        answer = self.http.post("/v1/audio/speech", json=by_v1(self.number))
        if answer.status_code == 503:
            self.book.told["politely refused"] += 1
        else:
            self.heard(answer.raise_for_status().content, time.monotonic() - asked, True)

    def heard(self, data: bytes, since: float, mine: bool) -> None:
        self.book.told["answered"] += 1
        self.book.answers.append(since)
        if self.number in self.alone and not (mine and digest(data) == self.alone[self.number]):
            self.book.wrong.append(f"visitor {self.number} heard something else")

    def inputs(self) -> list:
        """Of /synthesize, with a voice uploaded anew."""
        with open(VOICE, "rb") as file:
            path = self.http.post("/gradio_api/upload", files={"files": file}).raise_for_status().json()[0]
        method = list(METHODS)[self.number % len(METHODS)]
        voice = {"path": path, "meta": {"_type": "gradio.FileData"}}
        return [TEXTS[self.number % len(TEXTS)], voice, True, method, {}, "", self.number, 0.7, 4]


VOICE = voices.examples()[0].path


def client(server: Server) -> httpx.Client:
    """Without certificates, whose reading would cost more than the visit."""
    return httpx.Client(base_url=server.url, timeout=PATIENCE, verify=False)


def by_v1(number: int) -> dict:
    method, text = list(METHODS)[number % len(METHODS)], TEXTS[number % len(TEXTS)]
    own = {"method": method, "seed": number, "temperature": 0.7, "max_seconds": 4, "response_format": "wav"}
    return {"model": "nano", "voice": voices.examples()[0].name, "input": text} | own


def synthesize_index(url: str) -> int:
    config = httpx.get(f"{url}/config", timeout=60, verify=False).json()
    return next(d["id"] for d in config["dependencies"] if d["api_name"] == "synthesize")


def digest(data: bytes) -> str:
    samples, _ = soundfile.read(io.BytesIO(data), dtype="int16")
    return hashlib.sha256(samples.tobytes()).hexdigest()


def heard_alone(server: Server, number: int) -> str:
    """What a visitor hears when nobody else is there."""
    book, alone = Book(), Visitor(server, number, threading.Event(), Book(), {})
    alone.book, alone.habit, alone.heard = book, "stays", lambda data, *_: book.wrong.append(digest(data))
    with client(server) as alone.http:
        if number % 4 == 2:
            alone.speak_by_v1()
        else:
            alone.speak()
    (found,) = book.wrong
    return found


def spread(values: list[float]) -> str:
    return "median {:.1f}, 95th percentile {:.1f}".format(*np.percentile(values, [50, 95])) if values else "none"


def test_visitors_come_and_go_and_each_hears_only_what_they_asked_for(tmp_path):
    before, starting = weights(), Server(tmp_path)
    time.sleep(1.0)
    assert starting.kill() == -signal.SIGKILL  # while it starts
    server, book, sizes = Server(tmp_path), Book(), []
    try:
        server.wait()
        usual = files(tmp_path)  # of libraries
        alone = {n: heard_alone(server, n) for n in range(0, VISITORS, 2)}
        over = threading.Event()
        crowd = [Visitor(server, n, over, book, alone) for n in range(VISITORS)]
        for visitor in crowd:
            visitor.start()
        time.sleep(BEFORE_KILL * SECONDS)
        while not server.health()["jobs"]:
            assert any(visitor.is_alive() for visitor in crowd)
        assert server.kill() == -signal.SIGKILL
        server = Server(tmp_path, server.port)
        state = server.wait()
        for visitor in crowd:
            visitor.server = server
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            time.sleep(max(0.5, SECONDS / 100))
            sizes.append(server.size())
        over.set()
        for visitor in crowd:
            visitor.join(PATIENCE)
        server.idle()
        assert heard_alone(server, 0) == alone[0]
        time.sleep(1)
        quarter = max(1, len(sizes) // 4)
        first, last = (np.median(part, axis=0) for part in (sizes[quarter : 2 * quarter], sizes[-quarter:]))
        print(
            json.dumps(
                {
                    "visitors": VISITORS,
                    "seconds": SECONDS,
                    "load average of the machine": os.getloadavg(),
                    "runs asked for": sum(visitor.visit for visitor in crowd),
                    **book.told,
                    "seconds in the line": spread(book.waits),
                    "seconds to the speech": spread(book.answers),
                    "told minus real wait, s": spread([told - real for told, real in book.promised]),
                    "MB, handles, threads at the start": list(sizes[0]),
                    "MB, handles, threads after a quarter": first.round(1).tolist(),
                    "MB, handles, threads at the end": last.round(1).tolist(),
                    "handles when idle": server.size()[1],
                    "start after kill -9, s": round(state["seconds"], 1),
                    "files outside the folder of uploads": sorted(files(tmp_path) - usual),
                    "wrong": book.wrong[:5],
                },
                indent=1,
            )
        )
        assert not book.wrong and book.told["answered"] and book.told["hung up"] + book.told["cancelled"]
        assert book.told["cut off by kill -9"]
        assert files(tmp_path) <= usual and weights() == before
        if LONG:
            assert last[0] < 1.1 * first[0] and last[1] < first[1] + VISITORS and last[2] < first[2] + VISITORS
        assert server.kill(signal.SIGTERM) == 0
    finally:
        if server.process.poll() is None:
            server.kill()


def weights() -> dict[Path, int]:
    """When each file of the bundled weights was written."""
    return {p: p.stat().st_mtime_ns for p in (ROOT / "checkpoints").rglob("*") if p.is_file()}


def files(folder: Path) -> set[str]:
    """What lies in the server's place for temporary files, beside the folder of uploads."""
    return {p.name for p in (folder / "tmp").rglob("*") if p.is_file()}
