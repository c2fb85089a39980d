"""Every command and every Python example of the documents, from their own text. Run for real where that takes seconds;
what takes hours gets ``--plan`` or ``--collect-only``, and training takes one step on a few seconds of speech."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import httpx
import pytest
import soundfile

from tests.conftest import real_voice
from tests.taught import teach
from tts_demo.cli.main import build_parser, main

ROOT = Path(__file__).parents[1]
DOCUMENTS = ("README.md", "tts_demo/GPU.md", "tts_demo/ui/README.md", "tts_demo/train/README.md")
RELEASED = ("FunAudioLLM/", "MODEL")  # downloads


def blocks(document: str) -> Iterator[tuple[str, str]]:
    """Language and text of every fenced block."""
    pieces = re.split(r"^```(.*)\n", (ROOT / document).read_text("utf-8"), flags=re.M)
    yield from zip(pieces[1::4], pieces[2::4])


def commands(document: str) -> Iterator[str]:
    """Those of the blocks without a language: comments and line ends within one taken out."""
    for language, text in blocks(document):
        if language or "tts_demo/\n" in text:  # or the layout
            continue
        for line in text.replace("\\\n", " ").splitlines():
            written = re.split(r"\s{2,}#", line)[0].strip()
            yield from filter(None, (part.strip() for part in written.split("&&")))


def examples(document: str) -> list[str]:
    return [text for language, text in blocks(document) if language == "python"]


COMMANDS = [(document, command) for document in DOCUMENTS for command in commands(document)]


def words_of(command: str) -> list[str]:
    """As bash hands them over: '$5' in double quotes is lost there."""
    shown = subprocess.run(
        ["bash", "-c", f"set -- {command}\nprintf '%s\\0' \"$@\""], capture_output=True, text=True, check=True
    )
    return shown.stdout.split("\0")[:-1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the documents speak of."""
    place = tmp_path_factory.mktemp("documents")
    for name in ("me.wav", "voice.wav"):
        soundfile.write(place / name, real_voice(), 16000)
    (place / "sentences.txt").write_text("Hello there.\n")
    (place / ".measured").mkdir()
    shutil.copy(ROOT / "checkpoints/nano/records.jsonl", place / ".measured")
    (place / "SPEECH").mkdir()
    teach(place / "SPEECH" / "teacher", {f"{n:03}": n % 4 for n in range(16)}, times=4)
    (place / "checkpoints" / "mine").mkdir(parents=True)
    return place


def test_the_documents_hold_commands() -> None:
    assert len(COMMANDS) >= 45


@pytest.mark.parametrize(("document", "command"), COMMANDS, ids=[c for _, c in COMMANDS])
def test_a_documented_command_works(
    document: str, command: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    command, environment = without_environment(command)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    words = words_of(re.sub(r"\[[^\]]*\]", "", command).replace("RECIPE", "lm"))
    program = words[0]
    if "-m" in words and "tts_demo" in words:  # whatever starts the processes
        words, program = words[words.index("tts_demo") + 1 :], "tts_demo"
    RUN[program](words, folder, monkeypatch)
    capsys.readouterr()


def without_environment(command: str) -> tuple[str, dict[str, str]]:
    """The command behind ``NAME=value ...``, and these."""
    environment = {}
    while found := re.match(r"([A-Z_]+)=(\S+)\s+(.*)", command):
        environment[found[1]], command = found[2], found[3]
    return command, environment


def tts_demo(words: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command, released = words[0], any(word.startswith(RELEASED) for word in words)
    build_parser().parse_args(words)
    if command == "record":  # makes what ships with the page, for minutes
        return
    if command == "train" and not released:
        train(words, folder)
    elif command in ("evaluate", "bench") and "--gpu" not in words:
        assert main([*words, "--plan"]) == 0
    else:  # without the network, or a GPU, one sentence
        absent = released or command == "teach" or "--gpu" in words
        assert main(words) == (2 if absent else 0)


def train(words: list[str], folder: Path) -> None:
    """One step, or one more than the command before it has taken."""
    if "--packed" in words and not (folder / words[words.index("--packed") + 1]).exists():  # run without the one before
        train(next(words_of(c)[3:] for _, c in COMMANDS if "--pack " in c), folder)
    steps, out = "2" if "--resume" in words else "1", folder / f"out-{time.monotonic_ns()}"
    words = [word.replace("DIR", str(ROOT / "checkpoints/nano")) for word in words]
    brief = ["--steps", steps, "--batch", "2", "--out", str(out), "--work", str(folder / "work")]
    assert main([*words, *brief]) == 0
    made = [card for card in out.rglob("*.md") if f"--steps {steps}" in card.read_text("utf-8")]
    assert made or "--pack" in words


def pip(words: list[str], *_: object) -> None:
    from packaging.requirements import Requirement

    files = [ROOT / after for before, after in zip(words, words[1:]) if before == "-r"]
    assert files and words[:2] == ["pip", "install"]
    for file in files:
        for line in filter(None, (line.partition("#")[0].strip() for line in file.read_text("utf-8").splitlines())):
            Requirement(line)


def python(words: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``python app.py ...`` serves until it is told to end; what runs for minutes shows its help."""
    if words[1] == "-m":
        shown = subprocess.run([sys.executable, *words[1:], "--help"], cwd=ROOT, capture_output=True)
        assert shown.returncode == 0
        return
    assert words[1] == "app.py"
    port = words[words.index("--port") + 1] if "--port" in words else "7860"
    free = str(free_port())
    words = [free if word == port else word for word in words]
    own = {"GRADIO_SERVER_PORT": free, "GRADIO_TEMP_DIR": str(folder / "uploads"), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen([sys.executable, *words[1:]], cwd=ROOT, env=os.environ | own) as server:
        health = wait_for(f"http://127.0.0.1:{free}", server)
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
    released = any(word.startswith(RELEASED) for word in words)
    assert health["status"] == ("failed" if released else "ok"), health


def wait_for(address: str, server: subprocess.Popen) -> dict:
    end = time.monotonic() + 300
    while time.monotonic() < end and server.poll() is None:
        try:
            health = httpx.get(f"{address}{os.environ.get('GRADIO_ROOT_PATH', '')}/health", timeout=10).json()
            if health["status"] != "loading":
                return health
        except (httpx.HTTPError, ValueError):
            pass
        time.sleep(0.3)
    server.kill()
    raise AssertionError("the server did not come up")


def free_port() -> int:
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def pytest_(words: list[str], *_: object) -> None:
    files = [word for word in words[1:] if word.endswith(".py")]
    assert all((ROOT / file).is_file() and f"{file}::" in collected() for file in files)


@cache
def collected() -> str:
    """What pytest finds by the options, files and variables of all its commands together: one start, not one each."""
    told = [without_environment(command) for _, command in COMMANDS]
    told = [(words_of(command)[1:], variables) for command, variables in told if command.startswith("pytest ")]
    words = dict.fromkeys(word for some, _ in told for word in some)
    variables = {name: value for _, some in told for name, value in some.items()}
    shown = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", *words],
        cwd=ROOT,
        env=os.environ | variables,
        capture_output=True,
        text=True,
    )
    assert shown.returncode == 0, shown.stdout
    return shown.stdout


def hf(words: list[str], *_: object) -> None:
    """The options exist: a Space is not made."""
    tool = Path(sys.executable).with_name("hf")
    shown = subprocess.run(
        [tool, *[w for w in words[1:3] if w.isalpha() and w.islower()], "--help"], capture_output=True, text=True
    )
    assert shown.returncode == 0 and all(word in shown.stdout for word in words if word.startswith("--"))


def curl(words: list[str], *_: object) -> None:
    """The address is one of the endpoints': ``test_health_and_curl`` makes the same two requests."""
    (address,) = [word for word in words if word.startswith("http")]
    assert address.removesuffix("/EVENT_ID") == "http://127.0.0.1:7860/gradio_api/call/methods"


RUN: dict[str, Callable[..., None]] = {
    "tts_demo": tts_demo,
    "pip": pip,
    "python": python,
    "pytest": pytest_,
    "hf": hf,
    "curl": curl,
}


def test_the_example_in_python_runs_as_written(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    (code,) = examples("README.md")
    assert len(code.splitlines()) <= 13
    exec(code, {})
    *pieces, figures = capsys.readouterr().out.splitlines()
    assert pieces and all(piece.endswith("s of sound") for piece in pieces) and len(figures.split()) == 4
    assert soundfile.info(folder / "hello.wav").duration > 0.3


def test_examples_for_programs_are_tested_beside_the_page() -> None:
    """``tests/ui`` runs these two."""
    openai, client = examples("tts_demo/ui/README.md")
    assert "openai" in openai and "gradio_client" in client
