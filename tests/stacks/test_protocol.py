"""Every stack offers what the engine's Protocol asks, under the same names of arguments."""

from __future__ import annotations

import inspect

import pytest
import torch

from conftest import TinyStack, make_lm
from tts_demo.config import LMConfig
from tts_demo.engine import Stack, Vocoder
from tts_demo.stacks.cosyvoice import CosyVoiceStack
from tts_demo.stacks.cosyvoice.vocoder import CosyVocoder
from tts_demo.stacks.nano import NanoStack, NanoVocoder
from tts_demo.stacks.random import RandomCosyVoice, ShapeStack, Silence

SET_IN_INIT = {"name", "frame_rate", "device", "dtype", "checkpoint_hash", "lm", "decoder"}


def methods_of(protocol: type) -> dict[str, list[str]]:
    """Name -> arguments of every method that the Protocol lists."""
    own = {name: value for name, value in vars(protocol).items() if inspect.isfunction(value) and name[0] != "_"}
    return {name: list(inspect.signature(value).parameters) for name, value in own.items()}


@pytest.mark.parametrize("kind", [NanoStack, CosyVoiceStack, ShapeStack, RandomCosyVoice, TinyStack])
def test_a_stack_has_what_the_engine_asks_for(kind):
    asked = methods_of(Stack)
    assert {"prefix", "method", "vocoder"} <= set(asked)
    for name, arguments in asked.items():
        has = list(inspect.signature(getattr(kind, name)).parameters)
        assert has[: len(arguments)] == arguments, name
    for name in {*Stack.__annotations__, "decoder", "parts"} - SET_IN_INIT:
        assert hasattr(kind, name), name


def test_what_is_set_in_init_is_there():
    small = LMConfig(text_vocab=4, speech_codes=8, hidden=64, layers=1, heads=2, kv_heads=1, ffn=64, speaker=4)
    for stack in (TinyStack(make_lm()), ShapeStack("small", small, 50, torch.device("cpu"), torch.float32)):
        assert all(hasattr(stack, name) for name in SET_IN_INIT)


@pytest.mark.parametrize("kind", [NanoVocoder, CosyVocoder, Silence])
def test_a_vocoder_has_what_the_engine_asks_for(kind):
    for name, arguments in methods_of(Vocoder).items():
        assert list(inspect.signature(getattr(kind, name)).parameters) == arguments, name
