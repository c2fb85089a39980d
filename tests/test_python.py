"""The package from Python: what is exported, options as a dict, and mistakes as sentences."""

from __future__ import annotations

import inspect
from dataclasses import replace

import numpy as np
import pytest

import tts_demo
from tests.conftest import TinyStack, make_lm
from tts_demo import METHODS, Done, Request, Sampling, UserError, generate, load_stack
from tts_demo.checks import checked


@pytest.fixture(scope="module")
def stack() -> TinyStack:
    return TinyStack(make_lm())


@pytest.fixture
def request_(stack: TinyStack) -> Request:
    return Request("Hello", stack.encode_prompt(np.zeros(16000, np.float32), 16000), max_seconds=0.4)


def test_options_are_a_dict_or_the_methods_own(stack, request_):
    own = METHODS["ssd"].Options(tolerance=0.2)
    asked = [replace(request_, method="ssd", options=options) for options in ({"tolerance": 0.2}, own)]
    assert [checked(stack, one).options for one in asked] == [own, own]
    assert checked(stack, replace(request_, options={})).options == METHODS["baseline"].Options()
    *_, end = generate(stack, replace(request_, options={}))
    assert isinstance(end, Done) and len(end.audio)
    with pytest.raises(UserError, match="options must be those of baseline"):
        generate(stack, replace(request_, options=own))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"text": 5}, "text must be a text, not a int"),
        ({"text": None}, "text must be a text, not None"),
        ({"prompt": "me.wav"}, "prompt must be an encoded voice"),
        ({"prompt": None}, "prompt must be an encoded voice"),
        ({"method": "nonsense"}, "nonsense"),
        ({"method": METHODS["baseline"]}, "method must be the name of a method"),
        ({"options": {"patch_sise": 4}}, "Unknown option 'patch_sise'"),
        ({"options": ["patch_size", 4]}, "options must be those of baseline, or a dict, not a list"),
        ({"sampling": 0.7}, "sampling must be a Sampling, not a float"),
        ({"seed": "7"}, "seed must be a whole number, not a str"),
        ({"seed": True}, "seed must be a whole number, not a bool"),
        ({"seed": -1}, "seed must be 0 or more"),
        ({"max_seconds": "long"}, "max_seconds must be a number of seconds"),
        ({"max_seconds": 0}, "max_seconds must be above 0"),
        ({"max_seconds": float("nan")}, "max_seconds must be above 0"),
    ],
)
def test_a_wrong_field_is_a_sentence_before_anything_runs(stack, request_, change, words):
    with pytest.raises(UserError, match=words):
        generate(stack, replace(request_, **change))


def test_what_is_no_request_and_no_stack(stack, request_):
    with pytest.raises(UserError, match="must be a Request, not a str"):
        generate(stack, "Hello")
    with pytest.raises(UserError, match="what load_stack returns, not a str"):
        generate("nano", request_)


def test_everything_public_is_there_and_explained():
    for name in tts_demo.__all__:
        thing = getattr(tts_demo, name)
        assert name in dir(tts_demo)
        if callable(thing) and thing.__module__.startswith("tts_demo"):
            assert len(inspect.getdoc(thing) or "") > 30, name
    for thing, field in ((Request, Request.__dataclass_fields__), (generate, inspect.signature(generate).parameters)):
        assert all(name in inspect.getdoc(thing) for name in field if name not in ("forced_frames", "live")), thing
    assert "adapters" in inspect.getdoc(load_stack) and isinstance(Request("a", None).sampling, Sampling)
