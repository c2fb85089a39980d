"""Strangers on a public address: what they may send, hold and leave behind. Small here; the same attacks at full size:
``python -m tests.attacks``."""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import httpx
import numpy as np
import pytest
import soundfile
from toy import ToyStack, served, voice_file

from tts_demo.methods.baseline import Baseline
from tts_demo.ui.page.views import recorded

META = {"_type": "gradio.FileData"}
MAX_SECONDS = 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("uploads")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADIO_TEMP_DIR", str(place))
        yield place


@pytest.fixture(scope="module")
def place(folder, tmp_path_factory):
    limits = {"max_seconds": MAX_SECONDS, "per_address": 2, "body_seconds": 1.0, "max_upload_mb": 1}
    with served(ToyStack(), **limits) as (url, app), httpx.Client(base_url=url, timeout=60) as http:
        voice = voice_file(tmp_path_factory.mktemp("voice"))
        yield SimpleNamespace(
            url=url, app=app, http=http, voice=voice, gate=app.tts.gate, folder=folder, port=httpx.URL(url).port
        )


@pytest.fixture(autouse=True)
def no_traceback(capfd):
    """Whatever a stranger sends, the log stays free of tracebacks."""
    yield
    said = capfd.readouterr()
    assert "Traceback" not in said.err + said.out


def upload(place, data: bytes | None = None, name: str = "voice.wav") -> str:
    answer = place.http.post("gradio_api/upload", files={"files": (name, data or place.voice.read_bytes())})
    assert answer.status_code == 200, answer.text
    return answer.json()[0]


def index(place, name: str) -> dict:
    """The event of the page whose handler has this name."""
    (found,) = [fn for fn in place.app.fns.values() if fn.name == name]
    return found


def server_call(place, function: str, argument, **changes) -> httpx.Response:
    form = next(i for i, b in place.app.blocks.items() if getattr(b, "elem_id", "") == "form")
    body = {"data": argument, "component_id": form, "fn_name": function, "session_hash": "someone"} | changes
    return place.http.post("gradio_api/component_server", json=body)


def synthesize(place, voice, seconds: float = 0.3, text: str = "Hello there") -> tuple[int, str]:
    """Status of the call and the last thing it says."""
    data = [text, voice, True, "baseline", {}, "", 1, 0.7, seconds]
    began = place.http.post("gradio_api/call/synthesize", json={"data": data})
    if began.status_code != 200:
        return began.status_code, began.text
    return 200, place.http.get(f"gradio_api/call/synthesize/{began.json()['event_id']}").text


def flac(seconds: float, rate: int = 192_000) -> bytes:
    """Noise-free stereo that packs into next to nothing."""
    wave = 0.3 * np.sin(2 * np.pi * 200 * np.arange(int(seconds * rate)) / rate)
    out = io.BytesIO()
    soundfile.write(out, np.stack([wave, wave], 1), rate, format="FLAC")
    return out.getvalue()


def raw(place, head: str, body: bytes = b"") -> socket.socket:
    s = socket.create_connection(("127.0.0.1", place.port), timeout=20)
    s.sendall(head.encode() + body)
    return s


def closed_within(s: socket.socket, seconds: float) -> bool:
    s.settimeout(seconds)
    with contextlib.suppress(ConnectionError):
        try:
            while s.recv(65536):
                pass
        except TimeoutError:
            return False
    return True


# -- memory a request -------------------------------------------------------------------------------------------


def test_no_more_is_decoded_than_a_minute_whatever_the_file_holds(monkeypatch):
    from tts_demo.ui.limits import Limits
    from tts_demo.ui.voices import MOST_SAMPLES, Recordings

    read, taken = soundfile.SoundFile.read, []
    monkeypatch.setattr(
        soundfile.SoundFile, "read", lambda self, *a, **k: (taken.append(out := read(self, *a, **k)), out)[1]
    )
    with contextlib.suppress(Exception):  # nobody speaks in it
        Recordings(Limits()).prompt(flac(20))
    assert sum(a.size for a in taken) <= 2 * MOST_SAMPLES


def test_recordings_are_decoded_one_at_a_time(place, monkeypatch):
    from tts_demo import audio

    inside, most, read = [], [], audio.read

    def slow(*args, **named):
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.2)
        try:
            return read(*args, **named)
        finally:
            inside.pop()

    path = upload(place)
    monkeypatch.setattr(audio, "read", slow)
    calls = [
        threading.Thread(target=server_call, args=(place, name, path))
        for name in ("take_voice", "transcribe", "take_voice", "transcribe", "take_voice")
    ]
    for call in calls:
        call.start()
    for call in calls:
        call.join()
    assert max(most) == 1


@pytest.mark.parametrize(
    "path",
    ["queue/join", "run/predict", "component_server", "cancel", "call/synthesize", "call/v2/synthesize", "reset"],
)
def test_a_body_of_more_than_a_megabyte_is_refused_unread(place, path):
    body = json.dumps({"data": ["x" * 1_100_000], "session_hash": "a", "fn_index": 0, "event_id": "a"}).encode()
    assert place.http.post(f"gradio_api/{path}", content=body).status_code == 413
    pieces = (body[i : i + 65536] for i in range(0, len(body), 65536))  # of no told length
    assert place.http.post(f"gradio_api/{path}", content=pieces).status_code == 413


def test_an_upload_and_an_order_have_their_own_limit(place):
    big = b"x" * 1_300_000
    assert place.http.post("gradio_api/upload", files={"files": ("a.wav", big)}).status_code == 413
    order = {"model": "toy", "voice": "", "input": "Hello.", "ref_audio": "A" * 2_000_000, "consent": True}
    answer = place.http.post("v1/audio/speech", json=order)
    assert answer.status_code in (400, 413) and "too big" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "head",
    [
        "",
        "POST /gradio_api/queue/join HTTP/1.1\r\nHost: a\r\nX-Half: ",
        "POST /gradio_api/queue/join HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\n{",
        "POST /v1/audio/speech HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n{",
        "POST /gradio_api/upload HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n"
        "Content-Type: multipart/form-data; boundary=b\r\n\r\n--b\r\n",
        "GET /gradio_api/heartbeat/a HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\n",
        "GET /health HTTP/1.1\r\nHost: a\r\n\r\nGET /hea",
    ],
    ids=["nothing", "headers", "join", "v1", "upload", "stream", "second"],
)
def test_what_stays_half_sent_is_closed(place, head):
    assert closed_within(raw(place, head), 8)


def test_a_slow_upload_is_taken(place):
    """Not the whole of it has the deadline, but each megabyte."""
    parts, boundary = place.voice.read_bytes(), "b"
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="files"; filename="a.wav"\r\n\r\n'.encode()
    body = head + parts + f"\r\n--{boundary}--\r\n".encode()
    s = raw(
        place,
        f"POST /gradio_api/upload HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n"
        f"Content-Type: multipart/form-data; boundary={boundary}\r\n\r\n",
    )
    for i in range(0, len(body), 20_000):
        s.sendall(body[i : i + 20_000])
        time.sleep(0.05)
    assert b"200 OK" in s.recv(65536)


def test_uploads_that_never_end_leave_room_for_others(place):
    boundary = (
        'Content-Type: multipart/form-data; boundary=b\r\n\r\n--b\r\nContent-Disposition: form-data; name="files"; '
    )
    head = "POST /gradio_api/upload HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 203.0.113.7\r\nContent-Length: 90000\r\n"
    head += boundary
    fds = len(os.listdir("/proc/self/fd"))
    held = [raw(place, head) for _ in range(30)]
    try:
        assert upload(place)
        assert synthesize(place, {"path": upload(place), "meta": META})[1].startswith("event: ")
    finally:
        for s in held:
            s.close()
    end = time.monotonic() + 10
    while len(os.listdir("/proc/self/fd")) > fds + 5 and time.monotonic() < end:
        time.sleep(0.1)
    assert len(os.listdir("/proc/self/fd")) <= fds + 5


# -- addresses --------------------------------------------------------------------------------------------------


@pytest.fixture
def outside():
    """A server elsewhere that counts who asks."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        s.settimeout(1.0)
        yield SimpleNamespace(url=f"http://127.0.0.1:{s.getsockname()[1]}/a.wav", socket=s)
        with pytest.raises(TimeoutError):
            s.accept()


def test_nothing_is_fetched(place, outside, monkeypatch):
    fetched = []
    for name in ("async_ssrf_protected_download", "ssrf_protected_download", "save_url_to_cache"):
        monkeypatch.setattr(f"gradio.processing_utils.{name}", lambda *a, **k: fetched.append(a), raising=False)
    voice = {"path": outside.url, "meta": META}
    for one in (voice, voice | {"url": outside.url}, {"path": "http://example.com/a.wav", "meta": META}):
        status, said = synthesize(place, one)
        assert status == 200 and "voice must be a recording that was uploaded here" in said
    speak = index(place, "speak")
    body = {"data": [None, {"own": voice, "lanes": []}], "fn_index": speak._id, "session_hash": "fetcher"}
    place.http.post("gradio_api/queue/join", json=body).raise_for_status()
    assert "uploaded here" in place.http.get("gradio_api/queue/data?session_hash=fetcher").text
    for path in (
        f"file={outside.url}",
        "file=http://example.com/x",
        "file=ftp://example.com/x",
        f"proxy={outside.url}",
    ):
        assert place.http.get(f"gradio_api/{path}").status_code in (403, 404)
    assert not fetched


# -- work a request ---------------------------------------------------------------------------------------------


def test_ids_are_counted_once_and_no_more_than_a_board_holds(place, monkeypatch):
    from tts_demo.config import UserError
    from tts_demo.ui.run import session

    views, loads, load = place.app.tts.act.views, [], session.load
    monkeypatch.setattr("tts_demo.ui.page.views.load", lambda stem: (loads.append(stem), load(stem))[1])
    stem = next(iter(recorded().values())).name
    assert len(views.kept([], [f"{stem}.0"] * 300)) == 1 and len(loads) <= 1
    assert len(views.kept([], [f"{stem}.{i}" for i in range(3)] + [5, None, {}])) == 3 and len(loads) <= 1
    with pytest.raises(UserError, match="At most 6"):
        views.kept([], [f"gone.{i}" for i in range(300)])
    for odd in (None, "x", {"a": 1}, 5):
        with pytest.raises(UserError, match="no longer has"):
            views.kept([], odd)


def test_checking_words_ends_when_nobody_waits(place, monkeypatch):
    from tts_demo.ui.run.transcriber import Transcriber

    scored = []
    monkeypatch.setattr(Transcriber, "score", lambda *a: (scored.append(1), time.sleep(0.3), {})[2])
    stem = next(iter(recorded().values())).name
    listen = index(place, "listen")
    body = {"data": [None, [f"{stem}.{i}" for i in range(4)], {}], "fn_index": listen._id, "session_hash": "leaver"}
    place.http.post("gradio_api/queue/join", json=body).raise_for_status()
    s = raw(place, "GET /gradio_api/queue/data?session_hash=leaver HTTP/1.1\r\nHost: a\r\n\r\n")
    end = time.monotonic() + 20
    while not scored and time.monotonic() < end:
        time.sleep(0.01)
    s.close()
    time.sleep(2)
    assert 0 < len(scored) < 4


def test_a_session_holds_no_arrays_of_recorded_runs(place):
    act = place.app.tts.act
    stem = next(iter(recorded().values())).name
    first, second = act.views.open_recorded(stem), act.views.open_recorded(stem)
    assert act.ui.takes not in first and act.ui.takes not in second
    a, b = (json.loads(u[act.ui.board])["messages"][0]["lanes"] for u in (first, second))
    assert a == b and len(a) > 1


# -- the line ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_one_address_has_two_places(place, monkeypatch):
    step = Baseline.step
    monkeypatch.setattr(Baseline, "step", lambda self, state: (time.sleep(0.02), step(self, state))[1])
    voice, answers = {"path": upload(place), "meta": META}, []

    def call(address):
        data = ["Hello there", voice, True, "baseline", {}, "", 1, 0.7, 4]
        began = place.http.post(
            "gradio_api/call/synthesize", json={"data": data}, headers={"X-Forwarded-For": address}
        ).json()
        answers.append((address, place.http.get(f"gradio_api/call/synthesize/{began['event_id']}").text))

    callers = [threading.Thread(target=call, args=(a,)) for a in ["203.0.113.5"] * 6 + ["2001:db8::1"]]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    refused = [text for address, text in answers if "2 runs from your address are running or waiting" in text]
    assert len(refused) == 4
    assert all("complete" in text for address, text in answers if address != "203.0.113.5")


def test_addresses_of_one_household_are_one():
    from tts_demo.ui.presence import address

    assert address("2001:db8:1:2::5") == address("2001:db8:1:2:ffff::9") != address("2001:db8:1:3::5")
    assert address("::ffff:203.0.113.5") == address("203.0.113.5") != address("203.0.113.6")
    assert address("testclient") == "testclient" and address(None) == ""


# -- the upload folder ------------------------------------------------------------------------------------------


def test_old_files_are_swept_whoever_wrote_them(tmp_path):
    from tts_demo.ui.uploads import Uploads

    old, new = tmp_path / "a" / "old.wav", tmp_path / "b" / "new.wav"
    for path in (old, new, tmp_path / "tmpcut"):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"x")
    uploads = Uploads(tmp_path)
    assert uploads.sweep() == 0
    time.sleep(0.05)
    new.write_bytes(b"y")
    assert uploads.sweep(age=0.04) == 2
    assert new.exists() and not old.parent.exists() and not (tmp_path / "tmpcut").exists()


def test_the_server_sweeps_as_it_starts(tmp_path, monkeypatch):
    from tts_demo.ui import uploads

    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    monkeypatch.setattr(uploads, "KEPT_SECONDS", 0.0)
    monkeypatch.setattr(uploads.Uploads.sweep, "__defaults__", (0.0,))
    (tmp_path / "left.wav").write_bytes(b"x")
    time.sleep(0.05)
    with served(ToyStack()):
        end = time.monotonic() + 10
        while (tmp_path / "left.wav").exists() and time.monotonic() < end:
            time.sleep(0.05)
    assert not (tmp_path / "left.wav").exists()


def test_one_file_a_request_and_nothing_of_one_cut_off(place):
    before = place.app.tts.uploads.size()
    many = [("files", (f"{i}.wav", b"x" * 1000)) for i in range(5)]
    assert place.http.post("gradio_api/upload", files=many).status_code == 400
    s = raw(
        place,
        "POST /gradio_api/upload HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n"
        "Content-Type: multipart/form-data; boundary=b\r\n\r\n",
        b'--b\r\nContent-Disposition: form-data; name="files"; filename="a.wav"\r\n\r\n' + b"x" * 300_000,
    )
    time.sleep(0.5)
    s.close()
    time.sleep(0.5)
    assert place.app.tts.uploads.size() == before


def test_uploads_have_a_quota_for_each_address_and_for_all(tmp_path):
    from tts_demo.config import UserError
    from tts_demo.ui.limits import Limits
    from tts_demo.ui.uploads import Uploads

    uploads = Uploads(tmp_path, Limits(visitor_uploads_mb=1, uploads_mb=2))
    keep = lambda who: uploads.keep(io.BytesIO(b"x" * 600_000), "a.wav", 600_000, who)
    keep("ann")
    with pytest.raises(UserError, match="You have uploaded 1 MB"):
        keep("ann")
    keep("bob")
    keep("cid")
    with pytest.raises(UserError, match="no room"):
        keep("dan")
    assert uploads.size() == 1_800_000


# -- smaller ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["", "a\0b.wav", "../../etc/passwd", "x" * 5000 + ".wav", ".", "..", "a\r\nX: y.wav", ".gitignore"]
)
def test_any_file_name_is_taken_inside_the_folder_or_refused(place, name):
    boundary = (
        b'--b\r\nContent-Disposition: form-data; name="files"; filename="'
        + name.encode()
        + b'"\r\n\r\nxyz\r\n--b--\r\n'
    )
    answer = place.http.post(
        "gradio_api/upload", content=boundary, headers={"Content-Type": "multipart/form-data; boundary=b"}
    )
    assert answer.status_code in (200, 400)
    if answer.status_code == 200:
        (path,) = answer.json()
        assert Path(path).resolve().is_relative_to(place.folder) and Path(path).is_file()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("queue/join", {"data": [], "fn_index": 10**6, "session_hash": "a"}),
        ("queue/join", {"data": [], "fn_index": "one", "session_hash": "a"}),
        ("queue/join", {"data": [None], "fn_index": None, "session_hash": "a"}),
        ("queue/join", {"data": {}, "fn_index": 0, "session_hash": "a"}),
        ("queue/join", {"data": [], "fn_index": 0, "session_hash": "\0"}),
        ("queue/join", {"data": [], "fn_index": 0, "session_hash": ["a"]}),
        ("queue/join", [1]),
        ("run/predict", {"data": [], "fn_index": -1}),
        ("run/nothing", {"data": []}),
        ("call/nothing", {"data": []}),
        ("call/synthesize", {"data": []}),
        ("call/synthesize", {"data": ["Hello"]}),
        ("call/speak", {"data": [None, None]}),
        ("call/v2/nothing", {}),
        ("call/v2/synthesize", {}),
        ("call/v2/synthesize", {"nonsense": 1}),
        ("call/v2/synthesize", []),
        ("component_server", {}),
        ("component_server", {"data": 1, "component_id": "x", "fn_name": "preview", "session_hash": "a"}),
        ("component_server", {"data": 1, "component_id": 10**6, "fn_name": "preview", "session_hash": "a"}),
        ("component_server", {"data": 1, "component_id": 1, "fn_name": "__init__", "session_hash": "a"}),
        ("component_server", {"data": 1, "component_id": 1, "fn_name": 5, "session_hash": "a"}),
        ("cancel", {"session_hash": "a", "fn_index": "x", "event_id": 5}),
        ("cancel", {}),
        ("stream/x", {"data": []}),
        ("process_recording", {}),
        ("vibe-edit", {"prompt": "x"}),
    ],
)
def test_a_wrong_request_is_4xx(place, path, body):
    assert 400 <= place.http.post(f"gradio_api/{path}", json=body).status_code < 500


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[" * 50_000, b'{"a":' * 20_000])
@pytest.mark.parametrize("path", ["queue/join", "component_server", "call/synthesize", "cancel"])
def test_what_is_no_json_is_4xx(place, path, body):
    assert 400 <= place.http.post(f"gradio_api/{path}", content=body).status_code < 500


@pytest.mark.parametrize("argument", [None, 5, "", "a\0b", ["x"], {"path": "x"}, "/etc/hostname", "x" * 5000, "."])
@pytest.mark.parametrize("function", ["take_voice", "transcribe", "preview"])
def test_any_argument_of_the_pages_functions_is_answered(place, function, argument):
    answer = server_call(place, function, argument)
    assert answer.status_code == 200 and isinstance(answer.json(), dict)
    if function != "preview":
        assert "no longer here" in answer.json()["error"]


@pytest.mark.parametrize(
    "handler", ["speak", "listen", "export", "open_recorded", "attention_view", "arrive", "loaded"]
)
@pytest.mark.parametrize("value", [None, 5, "\0", [[]], {"own": "\0", "voice": ["x"], "lanes": {}, "seed": []}])
def test_any_value_of_the_pages_events_is_answered(place, handler, value):
    fn = index(place, handler)
    session = f"odd-{handler}"
    data = [None if block.stateful else value for block in fn.inputs]
    body = {"data": data, "fn_index": fn._id, "session_hash": session, "event_data": {"ids": value, "layer": "x"}}
    if fn.queue:
        place.http.post("gradio_api/queue/join", json=body).raise_for_status()
        assert "process_completed" in place.http.get(f"gradio_api/queue/data?session_hash={session}").text
    else:
        assert place.http.post("gradio_api/run/predict", json=body).status_code in (200, 500)


@pytest.mark.parametrize(
    "bad",
    [
        {"lanes": [{"method": []}]},
        {"lanes": [{"method": "tldr", "options": {"patch_size": [4]}}]},
        {"lanes": [{"method": "tldr", "options": {"patch_size": "four"}}]},
        {"lanes": "tldr"},
        {"lanes": [None]},
        {"text": ["x"]},
        {"voice": {}},
        {"own": 5},
        {"consent": "true"},
        {"prompt_text": []},
        {"attention": 1},
        {"seed": 10**400},
        {"temperature": 10**400},
        {"top_k": 10**400},
        {"max_seconds": [1]},
    ],
)
def test_any_type_in_the_pages_form_is_a_sentence(bad):
    from tts_demo.config import UserError
    from tts_demo.ui.page import controls

    with pytest.raises(UserError) as found:
        controls.Form.parse({"text": "Hi.", "voice": "Maya", "lanes": [], "seed": 3, "max_seconds": 9} | bad, 5.0)
    assert "\n" not in str(found.value) and len(str(found.value)) < 600


def test_another_visitors_lanes_are_not_to_be_had(place):
    listen = index(place, "listen")
    body = {"data": [None, ["0123456789ab.0"], {}], "fn_index": listen._id, "session_hash": "thief"}
    place.http.post("gradio_api/queue/join", json=body).raise_for_status()
    assert "no longer has these results" in place.http.get("gradio_api/queue/data?session_hash=thief").text


@pytest.mark.parametrize("path", ["gradio_api/file=%00", "%00", "gradio_api/file=a%00.wav", "health?x=%00"])
def test_a_nul_byte_in_an_address_is_4xx(place, path):
    assert place.http.get(path).status_code in (400, 404)


@pytest.mark.parametrize("path", ["", "health", "gradio_api/info"])
def test_answers_say_what_they_are_and_who_may_frame_them(place, path):
    headers = place.http.get(path).headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "frame-ancestors 'self' https://huggingface.co" in headers["Content-Security-Policy"]


def test_another_sites_page_orders_as_json_alone(place):
    order = json.dumps(
        {"model": "toy", "voice": "Maya", "input": "Hello.", "max_seconds": 0.2, "response_format": "wav"}
    )
    post = lambda **headers: place.http.post("v1/audio/speech", content=order, headers=headers).status_code
    assert post(**{"Origin": "https://evil.example", "Content-Type": "text/plain"}) == 415
    assert post(**{"Sec-Fetch-Site": "cross-site", "Content-Type": "text/plain"}) == 415
    assert post(**{"Content-Type": "text/plain"}) == 200  # curl
    assert post(**{"Origin": "https://other.example", "Content-Type": "application/json"}) == 200
    assert post(**{"Origin": place.url.rstrip("/"), "Content-Type": "text/plain"}) == 200


def test_a_range_that_is_none_is_4xx(place):
    path = upload(place)
    for odd in ("bytes=1-2-3", "bytes=x-y", "rows=1-2"):
        assert place.http.get(f"gradio_api/file={path}", headers={"Range": odd}).status_code == 416
    assert place.http.get(f"gradio_api/file={path}", headers={"Range": "bytes=0-3"}).content == b"RIFF"


@pytest.mark.parametrize("text", ["=1+2", "+cmd", "-2+3", "@SUM(A1)", "\t=1", "\r=1"])
def test_no_text_in_the_csv_is_a_formula(text):
    import csv

    from tts_demo.ui.run.session import csv_of

    (row,) = csv.DictReader(io.StringIO(csv_of([{"text": text, "seconds": -1.5}]), newline=""))
    assert row["text"] == f"'{text}" and row["seconds"] == "-1.5"


@pytest.mark.parametrize("seed", [2**53, 2**60, -1, 10**400, 1.5])
def test_a_seed_that_browsers_cannot_hold_is_refused(seed):
    from tts_demo.config import UserError
    from tts_demo.ui.page import controls

    with pytest.raises(UserError, match="whole number"):
        controls.from_address([("seed", str(seed))])
    assert controls.from_address([("seed", str(2**53 - 1))]) == {"seed": 2**53 - 1}


# -- behind a proxy ---------------------------------------------------------------------------------------------


def test_the_page_is_served_behind_a_prefix(monkeypatch, folder, tmp_path):
    import re

    monkeypatch.setenv("GRADIO_ROOT_PATH", "/speech")
    with served(ToyStack(), max_seconds=1) as (url, _), httpx.Client(base_url=url, timeout=60) as http:
        page = http.get("/").text
        script = re.search(r"page-[0-9a-f]{12}/main\.js", page)[0]
        assert "/speech" in page and http.get("/config").json()["root"].endswith("/speech")
        assert http.get(f"/{script}").status_code == http.get("/health").status_code == 200
        path = http.post("/gradio_api/upload", files={"files": voice_file(tmp_path).read_bytes()}).json()[0]
        data = ["Hello there", {"path": path, "meta": META}, True, "baseline", {}, "", 1, 0.7, 0.3]
        event = http.post("/gradio_api/call/synthesize", json={"data": data}).json()["event_id"]
        with http.stream("GET", f"/gradio_api/call/synthesize/{event}") as answer:
            assert answer.headers["X-Accel-Buffering"] == "no" and answer.headers["Cache-Control"] == "no-store"
            said = "".join(answer.iter_text())
        assert "event: complete" in said and "/speech/gradio_api/file=" in said
        order = {"model": "toy", "voice": "Maya", "input": "Hello.", "max_seconds": 0.2, "response_format": "pcm"}
        for slash in ("", "/"):
            answer = http.post(f"/v1/audio/speech{slash}", json=order | {"stream": True})
            assert answer.status_code == 200 and answer.headers["X-Accel-Buffering"] == "no", answer.text
