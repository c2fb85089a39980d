"""A stranger's attacks on the real server with the bundled weights, at full size, over loopback:

    python -m tests.attacks [--only NAME ...] [--port N]

Of each: the server's resident memory and open handles before, at their peak and after, files it left among the
uploads, how it answered, and how long an ordinary visitor at another address waited for one word meanwhile. Everything
is bounded: five minutes in all, less than 4 GB. The small forms are in ``tests/ui/test_hostile.py``.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import soundfile

ROOT = Path(__file__).parents[1]
META = {"_type": "gradio.FileData"}
ATTACKER, ORDINARY = "203.0.113.66", "198.51.100.1"  # loopback is a trusted proxy, so each has an address of its own
LONGEST = 40.0  # seconds of one attack


class Server:
    """``python app.py`` in a process of its own."""

    def __init__(self, port: int, folder: Path) -> None:
        self.port, self.folder, self.url = port, folder, f"http://127.0.0.1:{port}"
        self.log = folder / "log.txt"
        self.start()

    def start(self) -> None:
        (self.folder / "tmp").mkdir(exist_ok=True)
        own = {"GRADIO_TEMP_DIR": str(self.folder / "uploads"), "TMPDIR": str(self.folder / "tmp")}
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "app.py", "--port", str(self.port), "--device", "cpu"],
                cwd=ROOT,
                env={**os.environ, **own, "HF_HUB_OFFLINE": "1"},
                stdout=log,
                stderr=log,
            )
        end = time.monotonic() + 1800  # a busy machine
        while time.monotonic() < end and self.process.poll() is None:
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"{self.url}/health", timeout=10).json()["status"] == "ok":
                    return
            time.sleep(0.5)
        self.process.kill()
        raise SystemExit(self.log.read_text()[-2000:])

    def memory(self) -> float:
        """Resident MB."""
        return int(Path(f"/proc/{self.process.pid}/status").read_text().split("VmRSS:")[1].split()[0]) / 1024

    def handles(self) -> int:
        """Open files and connections."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def left(self) -> tuple[int, float]:
        """Files among the uploads, and their MB."""
        files = [p for p in (self.folder / "uploads").rglob("*") if p.is_file()]
        return len(files), sum(p.stat().st_size for p in files) / 1e6

    def client(self, address: str = ATTACKER) -> httpx.Client:
        limits = httpx.Limits(max_connections=300)
        return httpx.Client(base_url=self.url, timeout=60, headers={"X-Forwarded-For": address}, limits=limits)


class Visitor(threading.Thread):
    """Somebody ordinary, who asks for one word again and again."""

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self.http, self.over, self.waits, self.failed = server.client(ORDINARY), threading.Event(), [], 0
        voice = ROOT / "assets" / "prompts" / "maya.wav"
        self.voice = self.http.post("/gradio_api/upload", files={"files": voice.read_bytes()}).json()[0]

    def word(self) -> float:
        began = time.monotonic()
        data = ["Hello.", {"path": self.voice, "meta": META}, True, "baseline", {}, "", 1, 0.7, 1.0]
        event = self.http.post("/gradio_api/call/synthesize", json={"data": data}).json()["event_id"]
        said = self.http.get(f"/gradio_api/call/synthesize/{event}").text
        if "event: complete" not in said:
            self.failed += 1
        return time.monotonic() - began

    def run(self) -> None:
        while not self.over.is_set():
            try:
                self.waits.append(self.word())
            except httpx.HTTPError:
                self.failed += 1
            self.over.wait(0.2)


def together(number: int, call: Callable[[int], object]) -> Counter:
    """How often each answer came to so many calls at once."""
    deadline = time.monotonic() + LONGEST

    def one(i: int) -> object:
        try:
            return call(i)
        except httpx.HTTPError as error:
            return type(error).__name__

    pool = ThreadPoolExecutor(min(number, 60))
    found = [pool.submit(one, i) for i in range(number)]
    answers: Counter = Counter()
    for future in found:
        try:
            answers[future.result(max(0.1, deadline - time.monotonic()))] += 1
        except TimeoutError:
            answers["no answer yet"] += 1
    pool.shutdown(wait=False, cancel_futures=True)
    return answers


def events(http: httpx.Client) -> dict[str, dict]:
    """The page's events that have the named component as their target, by what they call."""
    config = http.get("/config").json()
    ids = {c["id"]: c["props"].get("elem_id") for c in config["components"]}
    found = {"form": next(i for i, name in ids.items() if name == "form")}
    for d in config["dependencies"]:
        for target, kind in d["targets"]:
            if d["backend_fn"]:
                found.setdefault(f"{ids.get(target) or ''} {kind}".strip(), d)
    return found


# -- the attacks: each returns how it was answered --------------------------------------------------------------


def recordings(server: Server) -> Counter:
    """Five FLACs of some hundred kB that hold 299 s of 192 kHz stereo, prepared at once."""
    path = server.folder / "long.flac"
    with soundfile.SoundFile(path, "w", 192_000, 2, format="FLAC") as file:
        wave = np.zeros((192_000, 2), np.float32)
        for second in range(299):
            wave[: 192_000 // 10 : 1000] = 0.5 if second == 0 else 0.0  # not silent, and yet nothing to store
            file.write(wave)
    with server.client() as http:
        form = events(http)["form"]

        def prepare(i: int) -> str:
            sent = http.post("/gradio_api/upload", files={"files": (f"{i}.flac", path.read_bytes())})
            if sent.status_code != 200:
                return f"upload {sent.status_code}"
            body = {"data": sent.json()[0], "component_id": form, "fn_name": "take_voice", "session_hash": "a"}
            answer = http.post("/gradio_api/component_server", json=body)
            return f"{answer.status_code} {str(answer.json().get('error', 'taken'))[:50]}"

        return together(5, prepare)


def huge_json(server: Server) -> Counter:
    """600 MB of JSON to queue/join, and to each other route that takes JSON."""
    piece = b'"' + b"x" * 999_997 + b'",'

    def body() -> Iterator[bytes]:
        yield b'{"session_hash": "a", "fn_index": 0, "data": ['
        for _ in range(600):
            yield piece

    def send(path: str) -> str:
        with server.client() as http:
            return str(http.post(path, content=body()).status_code)

    paths = ["/gradio_api/queue/join", "/gradio_api/run/predict", "/gradio_api/component_server", "/v1/audio/speech"]
    return together(4, lambda i: send(paths[i]))


def half_bodies(server: Server) -> Counter:
    """60 bodies of 31 MB for /v1, whose last byte never comes."""
    head = (
        f"POST /v1/audio/speech HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {ATTACKER}\r\nContent-Length: 31000000\r\n\r\n"
    )
    return held(server, 60, head.encode(), 31_000_000 - 1)


def half_headers(server: Server) -> Counter:
    """300 connections whose headers never end."""
    return held(server, 300, b"POST /gradio_api/queue/join HTTP/1.1\r\nHost: a\r\nX-Half: ", 1000)


def endless_uploads(server: Server) -> Counter:
    """200 uploads that never end."""
    head = (
        f"POST /gradio_api/upload HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {ATTACKER}\r\nContent-Length: 19000000\r\n"
        'Content-Type: multipart/form-data; boundary=b\r\n\r\n--b\r\nContent-Disposition: form-data; name="files"; '
        'filename="a.wav"\r\n\r\n'
    )
    return held(server, 200, head.encode(), 2_000_000)


def held(server: Server, number: int, head: bytes, more: int) -> Counter:
    """So many connections that send ``head`` and ``more`` bytes, and then wait to be closed."""
    answers: Counter = Counter()

    def one(_: int) -> str:
        with socket.create_connection(("127.0.0.1", server.port), timeout=LONGEST) as s:
            try:
                s.sendall(head)
                for start in range(0, more, 65_536):
                    s.sendall(b"x" * min(65_536, more - start))
                return s.recv(64).split(b"\r\n")[0].decode() or "closed"
            except TimeoutError:
                return "still open"
            except OSError:
                return "closed"

    with ThreadPoolExecutor(number) as pool:
        answers.update(pool.map(one, range(number)))
    return answers


def addresses(server: Server) -> Counter:
    """Voices and files that are addresses, of a server here that counts who comes, and of a public one."""
    with socket.socket() as bait, server.client() as http:
        bait.bind(("127.0.0.1", 0))
        bait.listen()
        bait.settimeout(0.5)
        answers: Counter = Counter()
        for url in (f"http://127.0.0.1:{bait.getsockname()[1]}/a.wav", "http://speed.hetzner.de/1GB.bin"):
            data = ["Hello.", {"path": url, "meta": META}, True, "baseline", {}, "", 1, 0.7, 1.0]
            event = http.post("/gradio_api/call/synthesize", json={"data": data}).json()["event_id"]
            said = http.get(f"/gradio_api/call/synthesize/{event}").text
            answers["refused" if "uploaded here" in said else said[:60]] += 1
            answers[f"file= {http.get(f'/gradio_api/file={url}').status_code}"] += 1
        with contextlib.suppress(TimeoutError):
            bait.accept()
            answers["FETCHED"] += 1
        return answers


def recorded_ids(server: Server) -> list[str]:
    return [f"{p.stem}.{i}" for p in sorted((ROOT / "assets" / "runs").glob("*.json")) for i in range(3)][:6]


def check_words(server: Server) -> Counter:
    """ "Check words" with 400 ids, and with six true ones, 20 times, of clients that have gone at once."""
    with server.client() as http:
        listen = events(http)["listen click"]
        ids = recorded_ids(server)

        def ask(i: int) -> str:
            data = [None, (ids * 70)[:400] + [f"x{n}" for n in range(400)] if i % 2 else ids, {}][
                : len(listen["inputs"])
            ]
            body = {"data": data, "fn_index": listen["id"], "session_hash": f"gone-{i}"}
            answer = http.post("/gradio_api/queue/join", json=body)
            with (
                contextlib.suppress(httpx.HTTPError),
                http.stream("GET", f"/gradio_api/queue/data?session_hash=gone-{i}", timeout=0.2) as stream,
            ):
                next(stream.iter_lines(), None)
            return str(answer.status_code)

        found = together(20, ask)
        time.sleep(5)
        return found


def archives(server: Server) -> Counter:
    """60 ZIP calls of 300,000 ids, and 60 of six true ones."""
    with server.client() as http:
        press = events(http)["zip click"]
        ids = recorded_ids(server)

        def ask(i: int) -> str:
            wanted = [f"{ids[0]}"] * 300_000 if i % 2 else ids
            data = [None, wanted]
            body = {"data": data, "fn_index": press["id"], "session_hash": f"zip-{i}"}
            answer = http.post("/gradio_api/run/predict", json=body)
            why = "" if answer.status_code == 200 else answer.text[:70]
            return f"{'300,000 ids' if i % 2 else 'six ids'}: {answer.status_code} {why}"

        return together(120, ask)


def the_line(server: Server) -> Counter:
    """60 calls of one client at once."""
    with server.client() as http:
        voice = ROOT / "assets" / "prompts" / "theo.wav"
        path = http.post("/gradio_api/upload", files={"files": voice.read_bytes()}).json()[0]
        data = ["Nobody else. " * 4, {"path": path, "meta": META}, True, "baseline", {}, "", 1, 0.7, 4.0]

        def ask(_: int) -> str:
            answer = http.post("/gradio_api/call/synthesize", json={"data": data})
            if answer.status_code != 200:
                return f"{answer.status_code} {answer.json()['detail'][:60]}"
            said = http.get(f"/gradio_api/call/synthesize/{answer.json()['event_id']}").text
            return "spoke" if "event: complete" in said else json.loads(said.split("data: ")[-1])["error"][:60]

        return together(60, ask)


def many_files(server: Server) -> Counter:
    """60 files of 19 MB in one upload, and 60 uploads of one."""
    data = b"x" * 19_000_000
    with server.client() as http:
        files = [("files", (f"{i}.wav", io.BytesIO(data))) for i in range(60)]
        answers = together(1, lambda _: f"all in one: {http.post('/gradio_api/upload', files=files).status_code}")
        for _ in range(60):
            with contextlib.suppress(httpx.HTTPError):
                answers[http.post("/gradio_api/upload", files={"files": ("a.wav", data)}).status_code] += 1
        return answers


def arrivals(server: Server) -> Counter:
    """300 visitors at 30 addresses who open the page, and 300 sessions of the attacker's."""
    with server.client() as http:
        load = next(d for name, d in events(http).items() if isinstance(d, dict) and name.endswith("load"))

        def ask(i: int) -> str:
            body = {"data": [], "fn_index": load["id"], "session_hash": f"arrives-{i}"}
            address = f"203.0.113.{100 + i % 30}" if i < 300 else ATTACKER
            answer = http.post("/gradio_api/run/predict", json=body, headers={"X-Forwarded-For": address})
            return f"{'30 addresses' if i < 300 else 'one address'}: {answer.status_code}"

        return together(600, ask)


ATTACKS: tuple[Callable[[Server], Counter], ...] = (
    recordings,
    huge_json,
    half_bodies,
    half_headers,
    endless_uploads,
    addresses,
    check_words,
    archives,
    the_line,
    many_files,
    arrivals,
)


def attack(server: Server, what: Callable[[Server], Counter]) -> None:
    visitor, over, peak = Visitor(server), threading.Event(), [0.0, 0]

    def watch() -> None:
        while not over.wait(0.05):
            peak[:] = max(peak[0], server.memory()), max(peak[1], server.handles())

    before, handles, files = server.memory(), server.handles(), server.left()
    threading.Thread(target=watch, daemon=True).start()
    visitor.start()
    began = time.monotonic()
    answers = what(server)
    took = time.monotonic() - began
    visitor.over.set()
    visitor.join(60)
    over.set()
    time.sleep(1)
    after, waits = server.left(), visitor.waits or [float("nan")]
    print(
        f"{what.__name__:16} {took:4.0f} s  memory {before:5.0f} -> {peak[0]:5.0f} -> {server.memory():5.0f} MB  "
        f"handles {handles} -> {peak[1]} -> {server.handles()}  "
        f"files {files[0]} -> {after[0]} ({after[1]:.0f} MB)  one word {np.median(waits):.1f} s, "
        f"at most {max(waits):.1f} s ({len(waits)} times, {visitor.failed} failed)",
        flush=True,
    )
    for answer, count in answers.most_common(8):
        print(f"{'':18}{count:4} x {answer}", flush=True)


def nothing(_: Server) -> Counter:
    """The ordinary visitor alone."""
    time.sleep(10)
    return Counter()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=[a.__name__ for a in ATTACKS])
    parser.add_argument("--port", type=int, default=7877)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(args.port, Path(folder))
        try:
            for what in (nothing, *(a for a in ATTACKS if not args.only or a.__name__ in args.only)):
                attack(server, what)
        finally:
            server.process.terminate()
            server.process.wait(60)
        traces = server.log.read_text().count("Traceback")
        print(f"tracebacks in the server's log: {traces}")


if __name__ == "__main__":
    main()
