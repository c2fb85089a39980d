"""The one training loop: seeded, resumable at any second, with progress, held-out scores and a model card.

A recipe is a ``Task`` (``task.py``): its settings, what it trains, how it makes batch number ``step`` (a pure function
of seed and step, so that a resumed run sees what an unbroken one would, but for what is generated with the weights of
the moment), its loss and its held-out scores. ``fit`` does the rest.
"""

import json
import time
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from tqdm import tqdm

from .processes import accelerator_for, largest, share_weights
from .progress import Progress, learning_rate
from .published import begin, device_name, publish
from .state import Average, Batches, Run, requests_to_stop
from .task import Task, TrainOptions
from .updates import Updates

SAVED_EVERY = 120  # seconds between saved states
LOGGED_EVERY, LOGGED_SHARE = 100, 1 / 40  # steps, or the share of a shorter run, between entries of the log


def fit(task: Task, options: TrainOptions, accelerator: Accelerator | None = None) -> dict[str, float]:
    """Train to ``steps`` (or for ``minutes``), keep state under work/<name>, publish modules and cards. Returns scores.
    Of several processes each takes batches of its own; the first sees those of a run alone, and writes all files."""
    accelerator = accelerator or accelerator_for(options.device)
    task.process = accelerator.process_index
    # cuDNN plans every operation anew for each length it has not seen: half a second a step where all batches differ.
    with (
        torch.backends.cudnn.flags(enabled=not task.any_length),
        sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]),
        requests_to_stop() as stop,
    ):
        return Loop(task, options, accelerator, stop).run()


class Loop:
    """One run of a task."""

    def __init__(self, task: Task, options: TrainOptions, accelerator: Accelerator, stop: list[int]) -> None:
        torch.manual_seed(options.seed)
        self.task, self.options, self.accelerator, self.stop = task, options, accelerator, stop
        self.steps, self.peak = options.steps or task.steps, options.lr or task.lr
        began = begin(task, options)
        parts = {f"m_{k}": v for k, v in task.modules.items()} | {f"h_{k}": v for k, v in task.helpers.items()}
        self.everything = nn.ModuleDict(parts).to(options.device)
        parameters = [p for p in self.everything.parameters() if p.requires_grad]
        self.updates = Updates(task, parameters, self.peak, accelerator)
        self.average, optimiser = Average(parameters, task.averaged), self.updates.optimiser
        writes = accelerator.is_main_process
        small = options.packed is not None  # such runs' files go through narrow doors
        self.state = Run(options.work / task.name, self.everything, optimiser, self.average, writes, small)
        self.step, self.log, self.spent = self.state.load() if options.resume else (0, [], 0.0)
        self.state.began = self.state.began or began
        share_weights(accelerator, self.everything)
        self.seen: dict[str, float] = {}  # moving average of the parts of the loss
        self.started = time.monotonic() - self.spent  # as if the runs that this one resumes had just ended
        self.logged = Progress.of(self.step, self.steps, self._clock())

    def run(self) -> dict[str, float]:
        task, options = self.task, self.options
        began = saved = time.monotonic()
        before = self.step
        if self._clock() > 1 and self.accelerator.is_main_process:
            tqdm.write(f"Trained for {self.spent / 60:.1f} minutes already, which --minutes counts; more would go on.")
        _train_mode(self.everything)
        look = {"unit": "step", "smoothing": 0.02, "mininterval": 2.0, "disable": not self.accelerator.is_main_process}
        bar = tqdm(total=self.steps, initial=self.step, desc=task.name, **look)
        batches = Batches(self._batch, ahead=torch.device(options.device).type != "cpu" and task.ahead)
        while (progress := self._progress()) is not None:
            parts = self._update(batches.take(self.step), progress)
            self._note(parts)
            bar.update()
            bar.set_postfix({k: f"{v:.3f}" for k, v in self.seen.items()}, refresh=False)
            if task.scored_every and self.step % task.scored_every == 0:
                self._score()
                tqdm.write(json.dumps(self.log[-1]))
                _train_mode(self.everything)
            now = time.monotonic()
            if now - saved > SAVED_EVERY:
                self.state.save(self.step, self.log, now - self.started)
                saved = now
        bar.close()
        batches.close()
        self.spent = time.monotonic() - self.started
        if self.accelerator.is_main_process and self.step > before:
            tqdm.write(f"{(self.step - before) / (time.monotonic() - began):.2f} steps a second")
        return self._finish()

    def _clock(self) -> float:
        """Share of the minutes that are over, those of the runs that this one resumes included."""
        minutes = self.options.minutes
        return (time.monotonic() - self.started) / (60 * minutes) if minutes else 0.0

    def _progress(self) -> Progress | None:
        """How far the run is; None where it ends."""
        if self.step >= self.steps:
            return None
        # One clock for all processes: with learning rates of their own their weights would part.
        clock = largest(self.accelerator, 2.0 if self.stop else self._clock())
        return Progress.of(self.step, self.steps, clock) if clock <= 1 else None

    def _batch(self, step: int) -> Any:
        process = self.accelerator.process_index
        seed = (self.options.seed, step, *((process,) if process else ()))
        return self.task.batch(np.random.default_rng(seed), step)

    def _update(self, batch: Any, progress: Progress) -> dict[str, float]:
        """One step. Returns the parts of the loss."""
        self.updates.set_rate(learning_rate(progress, self.steps, self.peak, self.task.flat))
        torch.manual_seed((self.accelerator.process_index << 40) + self.options.seed * 1_000_003 + self.step)
        with self.accelerator.autocast():
            loss, parts = self.task.loss(batch, progress)
        if not torch.isfinite(loss):
            raise RuntimeError(
                f"{self.task.name}: loss is {loss.item()} at step {self.step}; resume from an earlier state or lower "
                "--lr."
            )
        if self.updates.apply(loss):
            self.average.add(self.step)
        self.step += 1
        return parts

    def _note(self, parts: dict[str, float]) -> None:
        """Into the curve of the loss: now and then, and as often in a run that the clock ends."""
        for key, value in parts.items():
            self.seen[key] = 0.95 * self.seen.get(key, value) + 0.05 * value
        here = Progress.of(self.step, self.steps, self._clock())
        if here.step - self.logged.step >= LOGGED_EVERY or here.share - self.logged.share > LOGGED_SHARE - 1e-9:
            self.logged = here
            self.log.append({"step": self.step, **{k: round(v, 4) for k, v in self.seen.items()}})

    def _score(self) -> dict[str, float]:
        """Held-out scores of the average of the weights."""
        self.everything.eval()
        with self.average.instead():
            scores = self.task.evaluate()
        self.log.append({"step": self.step, "held_out": scores})
        return scores

    def _finish(self) -> dict[str, float]:
        """Save, score and publish."""
        self.state.save(self.step, self.log, self.spent)
        scores, count = self._score(), self.accelerator.num_processes
        facts = {
            "steps": f"{self.step} of {self.steps}",
            "wall-clock hours": f"{self.spent / 3600:.2f}",
            "device": device_name(self.options.device) + (f", {count} processes" if count > 1 else ""),
            "seed": self.options.seed,
        }
        if self.accelerator.is_main_process:
            with self.average.instead():
                publish(self.task, self.options, facts, scores, self.log, self.state.began)
        self.state.save(self.step, self.log, self.spent)
        return scores


def _train_mode(module: nn.Module) -> None:
    """Training mode, except for what is frozen: its normalisation statistics must not move either."""
    module.train()
    for part in module.modules():
        weights = list(part.parameters())
        if weights and not any(w.requires_grad for w in weights):
            part.eval()
