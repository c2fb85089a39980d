"""DCAR, dynamic chunk-wise prediction: heads, policy, decoding and analyses, one file each."""

from .method import Dcar

__all__ = ["Dcar"]
