"""TLDR, patch-level decoding: modules.py is what is trained, local.py decodes inside a patch, method.py is the
method."""

from .method import TLDR, MeanPooled, MultiToken, Parallel, Short, WithoutLora, WithoutSpeaker
