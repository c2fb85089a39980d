"""What a recipe is, and what a training run is asked for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import Tensor, nn

from .data.packed import Packed
from .progress import Progress
from .settings import Settings

Loss = tuple[Tensor, dict[str, float]]  # loss [], and its parts, which people see


@dataclass(frozen=True)
class TrainOptions:
    """What ``python -m tts_demo train`` was asked for. 0 or None = the recipe's own default."""

    data: Path
    out: Path = Path("checkpoints/nano")  # where the finished modules go, one folder each
    work: Path = Path(".train")  # resumable state, decoded speech and other caches
    checkpoint: Path = Path("checkpoints/nano")  # where modules the recipe builds on are read
    steps: int = 0
    batch: int = 0
    lr: float = 0.0
    seed: int = 0
    # stop (and publish) after this long, runs that it resumes included; the schedule ends with it, or at ``steps`` if
    # that is sooner
    minutes: float = 0.0
    resume: bool = False
    device: str = "cpu"
    settings: Mapping[str, str] = field(default_factory=dict)  # --set key=value as given, for the card
    packed: Path | None = None  # train from this file instead of ``data`` and ``checkpoint``
    stack: str = ""  # a released model to train a method for (folder or Hub name); "" = the bundled checkpoint


class Task:
    """What a recipe is: it sets these and overrides the three methods."""

    Settings: ClassVar[type[Settings]] = Settings  # what ``--set`` may change
    settings: Settings = Settings()
    name: str
    modules: dict[str, nn.Module]  # published, by folder name
    helpers: dict[str, nn.Module]  # trained along but not published (probes, discriminators)
    steps: int
    lr: float
    data_summary: str  # corpora, hours, licences: for the model card
    process = 0  # which of several processes this is: ``fit`` says so
    flat = 0.0  # share of the steps before the learning rate falls: a run that several sessions go on with has most
    averaged = 0.0  # > 0: scores and publishes the moving average of the weights, this much of it kept a step
    scored_every = 0  # steps between held-out scores on the way; 0 = at the end alone
    quicker: dict[str, float] = {}  # helpers that learn at so many times the rate of the rest
    any_length = False  # convolutions over batches of which no two are equally long
    ahead = True  # on a device, batches are made while it works: not those that the weights of the moment make
    goes_on = False  # begins with published weights whether asked to or not
    loads_published = False  # sees to ``--set start=published`` itself
    packed: Packed | None = None  # what it trains from instead of a corpus and its caches
    packable = False  # trains from a packed file too, and has ``pack``
    # a module, or a helper by its folder -> which it begins with while it has not been published, or left, itself
    follows: dict[str, str] = {}

    def __init__(self, options: TrainOptions) -> None:
        self.settings = self.Settings.parse(options.settings)

    def matrices(self) -> list[nn.Parameter]:
        """Those that Muon trains if it is asked to: of blocks and adapters, never embeddings or heads."""
        return []

    def batch(self, rng: np.random.Generator, step: int) -> Any:
        raise NotImplementedError

    def loss(self, batch: Any, progress: Progress) -> Loss:
        """What changes while a run lasts follows ``progress``."""
        raise NotImplementedError

    def evaluate(self) -> dict[str, float]:
        raise NotImplementedError

    def pack(self, file: Path, limit: int, sound: str) -> int:
        """Write what the recipe trains from into one file of at most ``limit`` bytes. Returns how many utterances."""
        raise NotImplementedError
