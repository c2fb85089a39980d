"""The one training loop: seeded, resumable at any second, with progress, held-out scores and a model card.

A recipe is a ``Task``: its settings, what it trains, how it makes batch number ``step`` (a pure function of seed and
step, so that a resumed run sees what an unbroken one would, but for what is generated with the weights of the moment),
its loss and its held-out scores. ``fit`` does the rest. ``--set start=published`` begins with the published weights of
what the recipe trains, and the card says what made them.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from tqdm import tqdm

from ..runtime import autocast, precision, processor
from .progress import Progress, learning_rate
from .ranks import Ranks
from .settings import Settings
from .state import Average, Batches, Run, StopFlag
from .updates import Updates

SAVED_EVERY = 120  # seconds between saved states
LOGGED_EVERY, LOGGED_SHARE = 100, 1 / 40  # steps, or the share of a shorter run, between entries of the log


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
    # stop (and publish) after this long; the schedule ends with it, or at ``steps`` if that is sooner
    minutes: float = 0.0
    resume: bool = False
    device: str = "cpu"
    settings: Mapping[str, str] = field(
        default_factory=dict
    )  # --set key=value as given; ``Task.settings`` has them typed
    stack: str = ""  # a released model to train a method for (folder or Hub name); "" = the bundled checkpoint


class Task:
    """What a recipe is: it sets these and overrides the three methods."""

    Settings: ClassVar[type[Settings]] = Settings
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
    follows: dict[str, str] = {}  # a module -> the published one it begins with while it has not been published itself

    def __init__(self, options: TrainOptions) -> None:
        self.settings = self.Settings.parse(options.settings)

    def matrices(self) -> list[nn.Parameter]:
        """Those that Muon trains if it is asked to: of blocks and adapters, never embeddings or heads."""
        return []

    def batch(self, rng: np.random.Generator, step: int) -> Any:
        raise NotImplementedError

    def loss(self, batch: Any, progress: Progress) -> tuple[Tensor, dict[str, float]]:
        """-> loss [], the parts of it that people see. What changes while a run lasts follows ``progress``."""
        raise NotImplementedError

    def evaluate(self) -> dict[str, float]:
        raise NotImplementedError


def fit(task: Task, options: TrainOptions, ranks: Ranks = Ranks()) -> dict[str, float]:
    """Train to ``steps`` (or for ``minutes``), keep state under work/<name>, publish modules and cards. Returns scores.
    Of several processes each takes batches of its own; the first sees those of a run alone, and writes all files."""
    task.process = ranks.index
    # cuDNN plans every operation anew for each length it has not seen: half a second a step where all batches differ.
    with (
        torch.backends.cudnn.flags(enabled=not task.any_length),
        sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]),
        StopFlag() as stop,
    ):
        return _fit(task, options, ranks, stop)


def _fit(task: Task, options: TrainOptions, ranks: Ranks, stop: StopFlag) -> dict[str, float]:
    torch.manual_seed(options.seed)
    steps, peak = options.steps or task.steps, options.lr or task.lr
    began = _begin(task, options) if task.goes_on or task.settings.start != "new" else {}
    _begin_helpers(task)
    everything = nn.ModuleDict(
        {**{f"m_{k}": v for k, v in task.modules.items()}, **{f"h_{k}": v for k, v in task.helpers.items()}}
    ).to(options.device)
    parameters = [p for p in everything.parameters() if p.requires_grad]
    updates, average_of = Updates(task, parameters, peak, ranks), Average(everything, task.averaged)
    run = Run(options.work / task.name, everything, updates.optimiser, average_of, ranks.first)
    step, log, spent = run.load() if options.resume else (0, [], 0.0)
    began = run.began = run.began or began
    ranks.share(everything)
    started = saved = time.monotonic()
    _train_mode(everything)
    bar = tqdm(
        total=steps, initial=step, desc=task.name, unit="step", smoothing=0.02, mininterval=2.0, disable=not ranks.first
    )
    average: dict[str, float] = {}
    kind, own = torch.device(options.device).type, (ranks.index,) if ranks.index else ()
    batches = Batches(
        lambda step: task.batch(np.random.default_rng((options.seed, step, *own)), step),
        ahead=kind != "cpu" and task.ahead,
    )
    logged = Progress.of(step, steps)
    while step < steps:
        used = (time.monotonic() - started) / (60 * options.minutes) if options.minutes else 0.0
        used = ranks.most(2.0 if stop.requested else used)  # one clock for all, or their weights would part
        if used > 1:
            break
        progress = Progress.of(step, steps, used)
        updates.set_rate(learning_rate(progress, steps, peak, task.flat))
        batch = batches.take(step)
        torch.manual_seed((ranks.index << 40) + options.seed * 1_000_003 + step)
        with autocast(kind):
            loss, parts = task.loss(batch, progress)
        if not torch.isfinite(loss):
            raise RuntimeError(
                f"{task.name}: loss is {loss.item()} at step {step}; resume from an earlier state or lower --lr."
            )
        if updates.apply(loss):
            average_of.add(step)
        step += 1
        for key, value in parts.items():
            average[key] = 0.95 * average.get(key, value) + 0.05 * value
        bar.update()
        bar.set_postfix({k: f"{v:.3f}" for k, v in average.items()}, refresh=False)
        now = time.monotonic()
        if (
            step - logged.step >= LOGGED_EVERY
            or Progress.of(step, steps, used).share - logged.share > LOGGED_SHARE - 1e-9
        ):
            logged = Progress.of(step, steps, used)
            log.append({"step": step, **{k: round(v, 4) for k, v in average.items()}})
        if task.scored_every and step % task.scored_every == 0:
            with average_of.instead():
                log.append({"step": step, "held_out": _scores(task, everything)})
            tqdm.write(json.dumps(log[-1]))
            _train_mode(everything)
        if now - saved > SAVED_EVERY:
            run.save(step, log, spent + now - started)
            saved = now
    bar.close()
    batches.close()
    spent += time.monotonic() - started
    run.save(step, log, spent)
    with average_of.instead():
        scores = _scores(task, everything)
        log.append({"step": step, "held_out": scores})
        facts = {
            "steps": f"{step} of {steps}",
            "wall-clock hours": f"{spent / 3600:.2f}",
            "device": _device_name(options.device) + (f", {ranks.count} processes" if ranks.count > 1 else ""),
            "seed": options.seed,
        }
        if ranks.first:
            publish(task, options, facts, scores, log, began)
    run.save(step, log, spent)
    return scores


def _scores(task: Task, everything: nn.Module) -> dict[str, float]:
    everything.eval()
    return task.evaluate()


def _begin(task: Task, options: TrainOptions) -> dict[str, str]:
    """Give the modules of the task their published weights, if it has not done so itself. Returns what made those, by
    module."""
    from .. import checkpoints

    here = {name: checkpoints.available(options.checkpoint, name) for name in task.modules}
    sources = {name: name if here[name] else task.follows.get(name, name) for name in task.modules}
    for name, module in task.modules.items():
        if not task.loads_published:
            _load(options.checkpoint, sources[name], module)
    return {name: checkpoints.how_it_was_made(options.checkpoint, source) for name, source in sources.items()}


def _begin_helpers(task: Task) -> None:
    """Give the helpers of the task the weights that an earlier run left, where there are any."""
    from .. import checkpoints

    folder = task.settings.helpers
    for name, module in task.helpers.items() if folder else ():
        if checkpoints.available(folder, f"{task.name}-{name}"):
            _load(folder, f"{task.name}-{name}", module)


def _load(root: Path, name: str, module: nn.Module) -> None:
    """The weights of ``name`` into a module, of which what learns goes on learning."""
    from .. import checkpoints

    learns = [p.requires_grad for p in module.parameters()]
    checkpoints.load_module(root, name, module)
    for parameter, wanted in zip(module.parameters(), learns):
        parameter.requires_grad_(wanted)


def _train_mode(module: nn.Module) -> None:
    """Training mode, except for what is frozen: its normalisation statistics must not move either."""
    module.train()
    for part in module.modules():
        weights = list(part.parameters())
        if weights and not any(w.requires_grad for w in weights):
            part.eval()


def publish(
    task: Task, options: TrainOptions, facts: dict[str, Any], scores: dict[str, float], log: list, began: dict[str, str]
) -> None:
    """Write every module of the task with its card, and bring the manifest up to date."""
    from .. import checkpoints, lineage

    facts = {"recipe": task.name} | facts | {"data": task.data_summary, "command": command_line(task.name, options)}
    for folder, module in task.modules.items():
        before = {"begun with": began[folder]} if began.get(folder) else {}
        checkpoints.save_module(options.out, folder, module, facts=facts | before, scores=scores, log=log)
    if not options.stack:
        lineage.record(options.out, list(task.modules), options.checkpoint)
    for name, module in task.helpers.items() if task.settings.helpers else ():
        checkpoints.save_module(task.settings.helpers, f"{task.name}-{name}", module, facts=facts)


def command_line(name: str, options: TrainOptions) -> str:
    """The command of a run, folders of this machine left out."""
    words = [f"python -m tts_demo train {name} --data SPEECH --seed {options.seed}"]
    if options.stack:
        words.append(f"--stack {Path(options.stack).name if Path(options.stack).is_dir() else options.stack}")
    words += [f"--{k} {getattr(options, k):g}" for k in ("steps", "minutes", "batch", "lr") if getattr(options, k)]
    words += [f"--set {k}={k.upper() if os.sep in v else v}" for k, v in options.settings.items()]
    return " ".join(words)


def _device_name(device: str) -> str:
    if device.startswith("cuda"):
        return processor(torch.device(device))
    return f"{processor(torch.device(device))}, {torch.get_num_threads()} threads, " + (
        "bfloat16 autocast" if precision(device) == torch.bfloat16 else "float32"
    )
