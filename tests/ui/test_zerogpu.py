"""The page where device work runs in a forked process: what goes there, what comes back, and how it is told to stop."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import subprocess
import sys
import threading
import time
import types

import httpx
import numpy as np
import pytest
from ui.toy import ToyStack, tone

from tts_demo import audio, engine
from tts_demo.config import Request, UserError
from tts_demo.ui.limits import Limits
from tts_demo.ui.line import Gate
from tts_demo.ui.runs import Runner
from tts_demo.ui.service import Handle
from tts_demo.ui.zerogpu import Ticket, forks, gpu, service

VOICE = audio.read((16_000, tone()))
TEXT = "One two three four five six seven eight nine ten."


def test_one_zero_gpu_acquisition_where_spaces_is_installed(monkeypatch):
    calls = []
    fake = types.SimpleNamespace(GPU=lambda duration: lambda f: calls.append(duration) or f)
    monkeypatch.setitem(sys.modules, "spaces", fake)
    work = lambda requests, visitor: None
    assert gpu(work, lambda requests, visitor: 30 * len(requests)) is work
    assert calls[0](["a", "b"], "ann") == 60
    monkeypatch.setitem(sys.modules, "spaces", None)
    assert gpu(work, len) is work and len(calls) == 1


def test_without_zero_gpu_behind_it_one_sentence_says_so(monkeypatch, capsys):
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    monkeypatch.setitem(sys.modules, "spaces", None)
    with service():
        assert not forks()
    (line,) = capsys.readouterr().err.splitlines()
    assert "spaces is not installed" in line
    monkeypatch.setitem(sys.modules, "spaces", types.SimpleNamespace())
    for error in (httpx.ConnectError("Name or service not known"), RuntimeError("Error while initializing ZeroGPU")):
        with pytest.raises(UserError, match="no ZeroGPU answers here"), service():
            raise error
    monkeypatch.delenv("SPACES_ZERO_GPU")
    with pytest.raises(RuntimeError), service():
        raise RuntimeError("something else")


def forking(duration):
    """``spaces.GPU`` as far as it matters: one process forked at the first call and used again, in which the task runs;
    arguments and what is yielded are pickled; whoever closes the generator is not heard before the next yield."""

    def decorate(task):
        context, found = multiprocessing.get_context("fork"), []

        def run(pipe, args):
            for item in task(*pickle.loads(args)):
                pipe.send(pickle.dumps(item))
            pipe.send(None)

        def serve(pipe):
            while True:  # in a thread each, as there: what the parent's threads held is not theirs
                thread = threading.Thread(target=run, args=(pipe, pipe.recv()))
                thread.start()
                thread.join()

        def call(*args):
            if not found:
                ours, theirs = context.Pipe()
                process = context.Process(target=serve, args=(theirs,), daemon=True)
                process.start()
                found.extend((ours, process))
            found[0].send(pickle.dumps(args))
            while (item := found[0].recv()) is not None:
                yield pickle.loads(item)

        call.workers = found
        return call

    return decorate


@pytest.fixture
def act(monkeypatch):
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    monkeypatch.setitem(sys.modules, "spaces", types.SimpleNamespace(GPU=lambda duration: forking(duration)))
    gate = Gate(Limits())
    act = Runner(Handle(lambda: ToyStack()), gate, gate.limits)
    yield act
    for process in act._on_device.workers[1:]:
        process.terminate()
        process.join(10)
        assert process.exitcode is not None, "the forked process does not end when it is told to"


def speak(act, visitor, **more):
    job = act.gate.join(visitor)
    request = Request(TEXT, None, "baseline", seed=3, **more)
    try:
        for side, event in act.events(VOICE, "", [request], visitor):
            yield job, event
    finally:
        job.leave()


def test_it_forks_only_where_the_environment_and_the_package_say_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "spaces", types.SimpleNamespace())
    assert forks({"SPACES_ZERO_GPU": "true"}) and not forks({}) and not forks({"SPACES_ZERO_GPU": "false"})
    monkeypatch.setitem(sys.modules, "spaces", None)
    assert not forks({"SPACES_ZERO_GPU": "true"})


def test_the_stack_is_loaded_at_once_in_the_thread_that_asks(monkeypatch):
    """Elsewhere in the background."""
    where = []
    load = lambda: where.append(threading.current_thread()) or object()
    monkeypatch.setitem(sys.modules, "spaces", types.SimpleNamespace())
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    assert Handle(load).now is not None and where == [threading.main_thread()]
    monkeypatch.delenv("SPACES_ZERO_GPU")
    assert Handle(load).get(5) and where[1] is not threading.main_thread()


def test_a_fork_speaks_what_the_page_would(act, monkeypatch):
    """Also the second time, for a visitor whom the process has never heard of."""
    done = [[event for _, event in speak(act, who, forced_frames=60)][-1] for who in ("ann", "bob")]
    assert all(isinstance(event, engine.Done) and not event.stopped for event in done)
    stack = act.handle.get()
    alone = engine.run(stack, Request(TEXT, stack.encode_prompt(VOICE.samples, VOICE.rate), seed=3, forced_frames=60))
    for event in done:
        assert np.array_equal(event.codes, alone.codes) and len(event.audio)


def test_stop_reaches_the_fork(act):
    """Pressed while it speaks: the run ends long before its length, and says that it was stopped."""
    for _, event in speak(act, "ann", forced_frames=20):
        pass
    started = time.monotonic()
    for job, event in speak(act, "bob", forced_frames=4000):
        if isinstance(event, engine.Audio):
            assert act.gate.stop("bob") == 1
    assert isinstance(event, engine.Done) and event.stopped and 0 < len(event.codes) < 4000
    assert time.monotonic() - started < 60


def test_who_closes_the_page_stops_the_fork(act):
    """The generator is closed, and the process is free for the next visitor."""
    events = speak(act, "ann", forced_frames=4000)
    while not isinstance(next(events)[1], engine.Audio):
        pass
    events.close()
    pipe = act._on_device.workers[0]
    while (item := pipe.recv()) is not None:  # what was under way
        last = pickle.loads(item)
    assert last[1].stopped and len(last[1].codes) < 4000


def test_what_a_server_forks_dies_when_it_is_told_to():
    """A server hears SIGTERM as "let the running one end"; its forked workers must not have inherited that."""
    program = (
        "import multiprocessing, os, signal, threading, time\n"
        "from types import SimpleNamespace\n"
        "from tts_demo.ui import serve\n"
        "def fork():\n"
        "    time.sleep(1)\n"
        "    worker = multiprocessing.get_context('fork').Process(target=time.sleep, args=(60,))\n"
        "    worker.start(); worker.terminate(); worker.join(20)\n"
        "    print(worker.exitcode, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "threading.Thread(target=fork).start()\n"
        "gate = SimpleNamespace(jobs=lambda: 0, drain=lambda: None)\n"
        "serve._stay(SimpleNamespace(close=lambda: print('closed')), gate)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.split() == [str(-signal.SIGTERM), "closed"], done.stderr


def test_a_ticket_is_gone_after_its_run():
    flag = threading.Event()
    with Ticket(flag.is_set) as ticket:
        elsewhere = pickle.loads(pickle.dumps(ticket))
        assert not ticket() and not elsewhere()
        flag.set()
        for _ in range(100):
            if elsewhere():
                break
            time.sleep(0.05)
        assert elsewhere()
    assert elsewhere()
