"""Devices and precisions: what is asked for, and what a person is told when it is not there."""

from __future__ import annotations

import pytest
import torch

from tts_demo.config import UserError
from tts_demo.runtime import candidate_dtypes, cpu_has_bf16, generator_for, pick_device, processor


def test_devices():
    assert pick_device("cpu").type == "cpu"
    assert pick_device(None).type == ("cuda" if torch.cuda.is_available() else "cpu")
    for name in ("gpu", "tpu", "cuda:99", "meta"):
        with pytest.raises(UserError, match="use cpu"):
            pick_device(name)


def test_a_processor_is_named_with_the_instructions_torch_uses_on_it():
    """Two machines that a cloud gives one name are told apart, because speeds on them are not to be mixed."""
    named = processor(torch.device("cpu"))
    assert (
        f"({torch.backends.cpu.get_cpu_capability()})" in named and named.endswith(" cores") and len(named.split()) > 3
    )


def test_precisions_of_the_cpu():
    kinds = candidate_dtypes(torch.device("cpu"))
    assert kinds[0] == torch.float32 and (torch.bfloat16 in kinds) == cpu_has_bf16()


def test_seeds():
    draws = [torch.rand(3, generator=generator_for("cpu", seed)) for seed in (1, 1, 2)]
    assert torch.equal(draws[0], draws[1]) and not torch.equal(draws[0], draws[2])
