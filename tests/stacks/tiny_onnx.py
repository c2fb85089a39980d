"""Two ONNX files small enough to write by hand, in place of the released speech tokenizer and speaker encoder.

Only the few messages of the format that are needed, so that the tests need no package to write it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

FLOAT, INT32, INT64 = 1, 6, 7


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes(out + bytes([number]))


def _field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _attribute(name: str, value: int | list[int]) -> bytes:
    if isinstance(value, int):
        return _field(1, name) + _field(3, value) + _field(20, 2)
    return _field(1, name) + b"".join(_field(8, v) for v in value) + _field(20, 7)


def _node(kind: str, inputs: list[str], output: str, **attributes: int | list[int]) -> bytes:
    made = b"".join(_field(1, name) for name in inputs) + _field(2, output) + _field(4, kind)
    return made + b"".join(_field(5, _attribute(name, value)) for name, value in attributes.items())


def _value(name: str, kind: int, shape: list[int | str]) -> bytes:
    dims = b"".join(_field(1, _field(1 if isinstance(d, int) else 2, d)) for d in shape)
    return _field(1, name) + _field(2, _field(1, _field(1, kind) + _field(2, dims)))


def _tensor(name: str, data: np.ndarray) -> bytes:
    dims = b"".join(_field(1, d) for d in data.shape)
    return dims + _field(2, FLOAT) + _field(8, name) + _field(9, data.astype("<f4").tobytes())


def _write(path: Path, nodes: list[bytes], inputs: list[bytes], output: bytes, weights: tuple[bytes, ...] = ()) -> None:
    graph = b"".join(_field(1, node) for node in nodes) + _field(2, "tiny") + b"".join(_field(5, w) for w in weights)
    graph += b"".join(_field(11, value) for value in inputs) + _field(12, output)
    path.write_bytes(_field(1, 8) + _field(8, _field(2, 13)) + _field(7, graph))


def write_speech_tokenizer(path: Path) -> None:
    """feats [1, 128, T], length [1] -> the loudest of 128 bands over every four frames, [1, T // 4]."""
    _write(
        path,
        [
            _node("AveragePool", ["feats"], "pooled", kernel_shape=[4], strides=[4]),
            _node("ArgMax", ["pooled"], "tokens", axis=1, keepdims=0),
        ],
        [_value("feats", FLOAT, [1, 128, "T"]), _value("feats_length", INT32, [1])],
        _value("tokens", INT64, [1, "F"]),
    )


def write_speaker_encoder(path: Path, seed: int = 0) -> None:
    """[1, T, 80] -> the maxima over time through a fixed matrix, [1, 192]."""
    matrix = np.random.default_rng(seed).normal(size=(80, 192))
    _write(
        path,
        [_node("ReduceMax", ["bank"], "peaks", axes=[1], keepdims=0), _node("MatMul", ["peaks", "matrix"], "speaker")],
        [_value("bank", FLOAT, [1, "T", 80])],
        _value("speaker", FLOAT, [1, 192]),
        [_tensor("matrix", matrix)],
    )
