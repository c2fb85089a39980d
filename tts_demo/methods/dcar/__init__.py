"""DCAR: dynamic chunk-wise prediction. Heads, policy, decoding and two analyses, one file each."""

from .method import Dcar

__all__ = ["Dcar"]
