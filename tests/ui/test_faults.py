"""What is wrong with the machine is one sentence: at the start with exit code 2, later on the page and in /health."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import gradio as gr
import httpx
import pytest
from test_runs_and_api import form, page, status, visitor
from toy import ToyStack, free_port, served, voice_file

from tts_demo.config import UserError
from tts_demo.ui import service, voices
from tts_demo.ui.serve import check_address
from tts_demo.ui.uploads import Uploads

ROOT = Path(__file__).parents[2]
FULL = OSError(errno.ENOSPC, "No space left on device")


def started(*arguments: str, **environment: str) -> tuple[int, list[str]]:
    """``python app.py``: exit code and what it says on stderr."""
    made = subprocess.run(
        [sys.executable, "app.py", *arguments],
        cwd=ROOT,
        env={**os.environ, "HF_HUB_OFFLINE": "1", **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return made.returncode, made.stderr.strip().splitlines()


def test_a_port_in_use_is_one_sentence_and_exit_code_2():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, said = started("--port", str(port))
    assert code == 2 and said[-1].startswith(f"Port {port} is in use: choose another") and len(said) == 1


def test_a_folder_that_cannot_be_written_is_one_sentence_and_exit_code_2(tmp_path):
    (tmp_path / "file").write_text("in the way")
    code, said = started("--port", "0", GRADIO_TEMP_DIR=str(tmp_path / "file"))
    assert code == 2 and "set GRADIO_TEMP_DIR to a folder of your own" in said[-1] and len(said) == 1


def test_a_port_that_is_no_number_is_told():
    code, said = started(GRADIO_SERVER_PORT="many")
    assert code == 2 and "--port" in said[-1] and len(said) == 1


@pytest.mark.parametrize("shown", [False, True])
def test_who_ends_it_before_the_model_is_there_gets_exit_code_0(tmp_path, shown):
    port, end = free_port(), time.monotonic() + 120
    command = [sys.executable, "app.py", "--port", str(port), "--device", "cpu"]
    with subprocess.Popen(command, cwd=ROOT, env={**os.environ, "GRADIO_TEMP_DIR": str(tmp_path)}) as app:
        time.sleep(2)
        while shown and time.monotonic() < end:
            with contextlib.suppress(httpx.HTTPError):
                httpx.get(f"http://127.0.0.1:{port}/health")
                break
            time.sleep(0.02)
        app.terminate()
        assert app.wait(60) == 0


@pytest.mark.parametrize(
    ("host", "port", "words"),
    [
        ("127.0.0.1", 70_000, "no port 70000"),
        ("no.such.host.invalid", 7860, "no address"),
        ("192.0.2.1", 0, "no address"),
    ],
)
def test_an_address_that_cannot_be_is_told(host, port, words):
    with pytest.raises(UserError, match=words):
        check_address(host, port)


@contextlib.contextmanager
def another_user():
    """Files of root are another user's to this one."""
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_folder_of_another_user_and_a_low_port(tmp_path):
    for parent in (tmp_path, *tmp_path.parents[:3]):
        parent.chmod(0o755)
    with another_user():
        (problem,) = Uploads(tmp_path).problems()
    assert "cannot be written" in problem and "Permission denied" in problem and str(tmp_path) in problem


def test_a_full_disk_is_in_health_on_the_page_and_in_the_log(tmp_path, monkeypatch, caplog):
    with served(ToyStack()) as (url, app):
        assert httpx.get(f"{url}health").json()["problems"] == []
        with monkeypatch.context() as nearly:
            nearly.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9 - 5, 5_000_000))
            app.tts.uploads._looked = float("-inf")
            answer = httpx.get(f"{url}health")
            assert answer.status_code == 503 and answer.json()["status"] == "ill"
            assert "nearly full, 5 MB are left" in answer.json()["problems"][0]
            ui, fill = app.tts.act.ui, app.tts.fill
            assert "nearly full" in fill.loaded()[ui.status]
            with open(voice_file(tmp_path), "rb") as file:
                answer = httpx.post(f"{url}gradio_api/upload", files={"files": file})
            assert answer.status_code == 507 and "no room" in answer.json()["detail"]

        def no_room(*_, **__):
            raise FULL

        monkeypatch.setattr("tts_demo.ui.uploads.shutil.copyfileobj", no_room)
        with open(voice_file(tmp_path), "rb") as file, caplog.at_level("ERROR", logger="tts_demo.ui"):
            answer = httpx.post(f"{url}gradio_api/upload", files={"files": file})
        assert answer.status_code == 507 and "disk is full" in answer.json()["detail"]
        assert "the machine refused" in caplog.text and "No space left" in caplog.text


def test_a_run_that_the_machine_refuses_is_told_and_logged(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    _, act = page(ToyStack())
    voice = voice_file(tmp_path)

    def no_room(*_):
        raise FULL

    monkeypatch.setattr(voices.Recordings, "read", no_room)
    with caplog.at_level("ERROR", logger="tts_demo.ui"):
        updates = list(act.speak(visitor("ann"), [], form(voice, "baseline")))
    assert "disk is full" in status(act, updates[-1])
    assert "No space left" in caplog.text and act.gate.jobs() == 0


def test_endpoints_turn_both_kinds_of_error_into_a_sentence(caplog):
    with pytest.raises(gr.Error, match="cannot keep the file"), service.gradio_errors():
        raise PermissionError(errno.EACCES, "Permission denied")
    assert "Permission denied" in caplog.text
    with pytest.raises(gr.Error, match="no text"), service.gradio_errors():
        raise UserError("There is no text.")
