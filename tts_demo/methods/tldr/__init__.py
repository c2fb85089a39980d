"""TLDR, patch-level decoding: what is trained (modules.py), decoding inside a patch (local.py), the method."""

from .method import TLDR, MeanPooled, MultiToken, Parallel, Short, WithoutLora, WithoutSpeaker
