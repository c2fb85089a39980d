"""DCAR, dynamic chunk-wise prediction: heads, policy and decoding, one file each."""

from .method import Dcar, EqualHeads, ShortHeads, WithoutChase, WithoutPenalty
