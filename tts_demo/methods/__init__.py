"""The one registry of decoding methods, by name, in the order people see them."""

from .base import Method
from .baseline import Baseline
from .qtts import QTTS
from .ssd import SSD

METHODS: dict[str, type[Method]] = {
    method.name: method
    for method in (
        Baseline,
        QTTS,
        SSD,
    )
}
