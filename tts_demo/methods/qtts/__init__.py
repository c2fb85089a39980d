"""QTTS: all codebooks of a frame from the language model, in one of two ways, or only the first one."""

from .method import QTTS
