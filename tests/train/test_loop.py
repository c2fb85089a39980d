"""The training loop: an interrupted and resumed run is the unbroken run; frozen parts stand still; cards are
written."""

from __future__ import annotations

import copy
import json
import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from accelerate.state import AcceleratorState
from torch import nn

from conftest import make_lm
from tts_demo import checkpoints, runtime
from tts_demo.codec.speaker import SpeakerEncoder
from tts_demo.config import SpeakerConfig, UserError
from tts_demo.lm.block import training_forward
from tts_demo.train.loop import fit
from tts_demo.train.optimiser import Muon, Optimisers, optimiser_of
from tts_demo.train.progress import Progress, learning_rate
from tts_demo.train.published import command_line
from tts_demo.train.settings import Settings
from tts_demo.train.state import Average, Batches
from tts_demo.train.task import Task, TrainOptions
from tts_demo.train.updates import SKIPPED


class LineTask(Task):
    """Fits a speaker encoder's projection to a constant; small enough to run in a moment."""

    name, steps, lr, data_summary = "speaker", 12, 1e-2, "made here"

    def __init__(self, **settings: object) -> None:
        self.settings = Settings(**settings)
        torch.manual_seed(0)
        self.model = SpeakerEncoder(SpeakerConfig(width=8, layers=1, embedding=4))
        self.modules, self.helpers = {"speaker": self.model}, {"norm": nn.BatchNorm1d(3).requires_grad_(False)}
        self.seen: list[float] = []

    def batch(self, rng: np.random.Generator, step: int) -> torch.Tensor:
        made = torch.from_numpy(rng.standard_normal((2, 3200)).astype(np.float32))
        self.seen.append(float(made[0, 0]))
        return made

    def loss(self, batch: torch.Tensor, progress: Progress):
        out = self.model(batch)
        loss = (out[:, 0] - 1).square().mean() + self.helpers["norm"](torch.randn(5, 3)).square().mean()
        return loss, {"loss": loss.item()}

    def evaluate(self) -> dict[str, float]:
        return {"first weight": float(self.model.project.weight[0, 0].detach())}


@pytest.mark.parametrize("averaged", (0.0, 0.8))
def test_resumed_equals_unbroken(averaged: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LineTask, "averaged", averaged)
    whole = fit(LineTask(), TrainOptions(data=tmp_path, out=tmp_path / "a", work=tmp_path / "wa"))
    options = TrainOptions(data=tmp_path, out=tmp_path / "b", work=tmp_path / "wb")
    first = LineTask()
    stop_after(first, 5)
    fit(first, options)
    second = LineTask()
    resumed = fit(second, TrainOptions(data=tmp_path, out=tmp_path / "b", work=tmp_path / "wb", resume=True))
    assert len(first.seen) == 5 and len(second.seen) == 7
    assert resumed == whole


def test_muon_for_matrices_resumes_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = lambda task: [w for w in task.model.blocks.parameters() if w.dim() == 2]
    monkeypatch.setattr(LineTask, "matrices", chosen)
    task = lambda: LineTask(optimiser="muon")
    whole = fit(task(), TrainOptions(data=tmp_path, out=tmp_path / "a", work=tmp_path / "wa"))
    options = TrainOptions(data=tmp_path, out=tmp_path / "b", work=tmp_path / "wb")
    first = task()
    assert chosen(first)
    stop_after(first, 5)
    fit(first, options)
    assert whole == fit(task(), TrainOptions(data=tmp_path, out=tmp_path / "b", work=tmp_path / "wb", resume=True))


@pytest.mark.parametrize("shape", ((3, 24, 60), (2, 60, 24), (24, 60)))
def test_muon_moves_all_directions_alike(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    weight = nn.Parameter(torch.zeros(shape))
    weight.grad = torch.randn(shape) * torch.logspace(0, -1, shape[-1])
    Muon([weight], lr=1.0).step()
    singular = torch.linalg.svdvals(weight.detach()) / (0.2 * max(shape[-2:]) ** 0.5)
    assert singular.min() > 0.5 and singular.max() < 1.3


def written_out(weight: torch.Tensor, grads: list[torch.Tensor], lr: float) -> torch.Tensor:
    """Muon as this project had it, one matrix, float32: momentum, Newton and Schulz, scale, decay."""
    moving, weight = torch.zeros_like(weight), weight.clone()
    for grad in grads:
        moving.lerp_(grad, 0.05)
        x = grad.lerp(moving, 0.95)
        y = x / x.norm()
        y = y.mT if y.shape[0] > y.shape[1] else y
        for _ in range(5):
            square = y @ y.mT
            y = 3.4445 * y + (-4.7750 * square + 2.0315 * square @ square) @ y
        update = y.mT if x.shape[0] > x.shape[1] else y
        weight = weight * (1 - lr * 0.01) - 0.2 * max(x.shape) ** 0.5 * lr * update
    return weight


@pytest.mark.parametrize(("bfloat16", "apart"), ((True, 0.02), (False, 1e-5)))
def test_muon_is_what_it_was_before_it_was_torchs(
    bfloat16: bool, apart: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for what bfloat16 rounds, 1 % of the way and a little more on some CPUs; nothing where the CPU has none."""
    monkeypatch.setattr("tts_demo.train.optimiser.cpu_has_bf16", lambda: bfloat16)
    torch.manual_seed(0)
    start, grads = torch.randn(48, 96), [torch.randn(48, 96) for _ in range(4)]
    weight, optimiser = nn.Parameter(start.clone()), None
    optimiser = Muon([weight], lr=0.01)
    for grad in grads:
        weight.grad = grad.clone()
        optimiser.step()
    expected = written_out(start, grads, 0.01)
    assert (weight - expected).norm() < apart * (expected - start).norm()


def test_the_state_of_an_older_muon_is_read() -> None:
    """Runs that stood still while Muon became torch's go on: a stack had one momentum."""
    torch.manual_seed(0)
    new = lambda: [nn.Parameter(torch.ones(4, 6)), nn.Parameter(torch.ones(3, 5, 4)), nn.Parameter(torch.ones(2, 2))]
    weights, momenta = new(), [torch.randn(4, 6), torch.randn(3, 5, 4)]
    group = {"lr": 0.1, "weight_decay": 0.01, "momentum": 0.95, "params": [0, 1, 2]}
    old = {"state": {n: {"moving": m} for n, m in enumerate(momenta)}, "param_groups": [group]}
    optimiser = Optimisers(torch.optim.AdamW([nn.Parameter(torch.ones(1))]), Muon(weights, 0.1))
    optimiser.load_state_dict({"0": optimiser.parts[0].state_dict(), "1": old})
    muon = optimiser.parts[1]
    found = [muon.state[view].get("momentum_buffer") for views in muon.views for view in views]
    assert torch.equal(found[0], momenta[0]) and torch.equal(torch.stack(found[1:4]), momenta[1]) and found[4] is None
    again = Muon(new(), 0.1)
    again.load_state_dict(copy.deepcopy(muon.state_dict()))
    for view, twin in zip(muon.param_groups[0]["params"], again.param_groups[0]["params"]):
        view.grad = twin.grad = torch.ones_like(view)
    torch.optim.Muon.step(muon)
    torch.optim.Muon.step(again)
    assert all(map(torch.equal, weights, again.weights))


def test_muon_moves_a_stack_as_its_matrices() -> None:
    torch.manual_seed(0)
    stack = nn.Parameter(torch.randn(2, 3, 6, 4))
    single = [nn.Parameter(matrix.clone()) for matrix in stack.detach().flatten(0, 1)]
    for weights in ([stack], single):
        optimiser = Muon(weights, lr=0.1)
        for _ in range(3):
            optimiser.zero_grad()
            sum((weight.sin() * torch.arange(4.0)).sum() for weight in weights).backward()
            optimiser.step()
    torch.testing.assert_close(stack.detach().flatten(0, 1), torch.stack([w.detach() for w in single]))


def test_signals_do_afterwards_what_they_did_before(tmp_path: Path) -> None:
    """Else whoever trains in a process of their own, and all that it forks, would be deaf to whoever ends it."""
    before = [signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)]
    task = LineTask()
    stop_after(task, 2)
    fit(task, TrainOptions(data=tmp_path, out=tmp_path / "a", work=tmp_path / "wa"))
    assert len(task.seen) == 2 and [signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)] == before


def stop_after(task: LineTask, steps: int) -> None:
    """Make the task ask for an end as a person would: with SIGTERM, in the middle of a run."""
    original = task.loss

    def loss(batch, progress):
        if progress.step == steps - 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return original(batch, progress)

    task.loss = loss


def test_the_average_is_scored_and_published_and_training_goes_on_with_the_weights(tmp_path: Path) -> None:
    def run(averaged: float, scored_every: int) -> tuple[LineTask, list[float], dict[str, float]]:
        task, losses = LineTask(), []
        task.averaged, task.scored_every = averaged, scored_every
        watched = task.loss
        task.loss = lambda batch, step: (losses.append(watched(batch, step)), losses[-1])[1]
        scores = fit(task, TrainOptions(data=tmp_path, out=tmp_path / "out", work=tmp_path / "work"))
        return task, [loss.item() for loss, _ in losses], scores

    plain, averaged = run(0.0, 0), run(0.9, 5)
    assert plain[1] == averaged[1]  # scoring on the way changed nothing
    assert torch.equal(plain[0].model.project.weight, averaged[0].model.project.weight)
    assert plain[2] != averaged[2]
    kept = checkpoints.load_module(tmp_path / "out", "speaker").project.weight[0, 0]
    assert float(kept) == pytest.approx(averaged[2]["first weight"], abs=1e-3)
    log = json.loads(torch.load(tmp_path / "work/speaker/state.pt", weights_only=True)["log"])
    assert [entry["step"] for entry in log if "held_out" in entry] == [5, 10, 12]


def test_the_average_is_the_one_written_out(tmp_path: Path) -> None:
    """Kept ``keep`` of it a step, less while it is young; a stored one goes on."""
    weight = nn.Parameter(torch.tensor([1.0, -2.0]))
    average, expected = Average([weight], 0.9), weight.detach().clone()
    for step in range(120):
        with torch.no_grad():
            weight.add_(torch.randn(2))
        average.add(step)
        expected.lerp_(weight.detach(), 1 - min(0.9, (1 + step) / (10 + step)))
    torch.testing.assert_close(average.weights[0], expected)
    now = weight.detach().clone()
    with average.instead():
        torch.testing.assert_close(weight.detach(), expected)
    assert torch.equal(weight.detach(), now)
    assert not Average([weight], 0.0).weights


def test_what_is_published_loads_and_its_card_tells_how_it_was_made(tmp_path: Path) -> None:
    fit(LineTask(), TrainOptions(data=tmp_path, out=tmp_path / "out", work=tmp_path / "work", seed=3))
    loaded = checkpoints.load_module(tmp_path / "out", "speaker")
    assert loaded(torch.randn(1, 3200)).shape == (1, 4)
    card = (tmp_path / "out" / "speaker" / "README.md").read_text()
    assert "python -m tts_demo train speaker" in card and "seed" in card.lower() and "12 of 12" in card
    assert str(tmp_path) not in card
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["files"]


def test_a_run_that_begins_with_published_weights_says_what_made_them(tmp_path: Path) -> None:
    told = dict(data=tmp_path, out=tmp_path / "out", checkpoint=tmp_path / "out", work=tmp_path / "work")
    fit(LineTask(), TrainOptions(**told))
    made = checkpoints.load_module(tmp_path / "out", "speaker").state_dict()
    task, seen = LineTask(start="published"), []
    watched = task.loss
    task.loss = lambda batch, step: (
        seen.append({k: v.clone() for k, v in task.model.state_dict().items()}),
        watched(batch, step),
    )[1]
    fit(task, TrainOptions(**told, steps=2))
    assert all(torch.equal(seen[0][key], made[key]) for key in made)
    assert all(p.requires_grad for p in task.model.parameters())
    fit(LineTask(start="published"), TrainOptions(**told, steps=3))
    fit(LineTask(start="published"), TrainOptions(**told, steps=3, resume=True))
    history = checkpoints.how_it_was_made(tmp_path / "out", "speaker")
    assert [part.split("(")[1].split(",")[0] for part in history.split("; ")] == [
        "12 of 12 steps",
        "2 of 2 steps",
        "3 of 3 steps",
    ]


def test_a_module_may_begin_with_another_until_it_has_been_published_itself(tmp_path: Path) -> None:
    told = dict(data=tmp_path, out=tmp_path / "out", checkpoint=tmp_path / "out", work=tmp_path / "work")
    fit(LineTask(), TrainOptions(**told))
    for steps in (2, 3):
        task = LineTask(start="published")
        task.name, task.modules, task.follows = "second", {"second": task.model}, {"second": "speaker"}
        fit(task, TrainOptions(**told, steps=steps))
    history = checkpoints.how_it_was_made(tmp_path / "out", "second")
    assert [part.split("(")[1].split(",")[0] for part in history.split("; ")] == [
        "12 of 12 steps",
        "2 of 2 steps",
        "3 of 3 steps",
    ]


class JudgedTask(LineTask):
    """With a helper that learns."""

    def __init__(self, **settings: object) -> None:
        super().__init__(**settings)
        self.helpers = {"judge": nn.Linear(3, 1)}

    def loss(self, batch: torch.Tensor, progress: Progress):
        return (self.helpers["judge"](torch.ones(3)) - 5).square().sum() + self.model(batch).square().mean(), {}


def test_helpers_go_on_where_an_earlier_run_left_them(tmp_path: Path) -> None:
    """And learn on; unasked they are neither kept nor looked for."""
    left = tmp_path / "helpers"
    run = lambda task, **more: fit(task, TrainOptions(data=tmp_path, out=tmp_path / "a", work=tmp_path / "w", **more))
    run(JudgedTask())
    assert not left.exists()
    first, second = JudgedTask(helpers=left), JudgedTask(helpers=left)
    run(first)
    weight = second.helpers["judge"].weight
    torch.testing.assert_close(weight, JudgedTask().helpers["judge"].weight)
    run(second, steps=1, lr=1e-9)
    torch.testing.assert_close(weight, first.helpers["judge"].weight, atol=2e-3, rtol=0)  # kept in float16
    assert weight.requires_grad and not torch.allclose(weight, JudgedTask().helpers["judge"].weight, atol=0.02)
    other = JudgedTask(helpers=left)  # of another recipe, which begins with those of the first
    other.name, other.follows = "other", {"other-judge": f"{first.name}-judge"}
    run(other, steps=1, lr=1e-9)
    torch.testing.assert_close(other.helpers["judge"].weight, weight, atol=2e-3, rtol=0)
    assert (left / "other-judge").is_dir()


@pytest.mark.parametrize("optimiser", ["adamw", "muon"])
def test_quicker_helpers_learn_at_their_own_rate_and_are_clipped_apart(tmp_path: Path, optimiser: str) -> None:
    """AdamW's first step is as long as its rate, and a huge gradient of one side leaves the other's as it was."""
    moved = {}
    for times in (1.0, 8.0):
        task = JudgedTask(optimiser=optimiser)
        task.quicker = {"judge": times}
        before = task.helpers["judge"].weight.detach().clone()
        work = tmp_path / f"{optimiser}{times}"
        fit(task, TrainOptions(data=tmp_path, out=tmp_path / "a", work=work, steps=1, lr=1e-4))
        moved[times] = (task.helpers["judge"].weight - before).abs().mean().item()
    assert moved[8.0] == pytest.approx(8 * moved[1.0], rel=0.02)
    loud, quiet = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    adam = optimiser_of([loud, quiet], [], 0.1, [([quiet], 3.0)])
    assert [(len(g["params"]), g.get("times", 1.0)) for g in adam.param_groups] == [(1, 1.0), (1, 3.0)]


def test_a_batch_without_a_finite_gradient_is_left_out(tmp_path: Path) -> None:
    """The square root of nothing: a loss that is finite, and a gradient that is not."""
    task, spoilt = LineTask(), 5
    original = task.loss

    def loss(batch, progress):
        value, parts = original(batch, progress)
        return value + ((task.model.project.weight.sum() * 0).sqrt() if progress.step == spoilt else 0), parts

    task.loss = loss
    scores = fit(task, TrainOptions(data=tmp_path, out=tmp_path / "out", work=tmp_path / "work"))
    assert np.isfinite(scores["first weight"]) and all(torch.isfinite(p).all() for p in task.model.parameters())


def test_gradients_that_stay_infinite_end_the_run(tmp_path: Path) -> None:
    task = LineTask()
    original = task.loss
    task.loss = lambda batch, step: (original(batch, step)[0] + (task.model.project.weight.sum() * 0).sqrt(), {})
    with pytest.raises(RuntimeError, match="no finite gradient"):
        fit(task, TrainOptions(data=tmp_path, out=tmp_path / "out", work=tmp_path / "work", steps=SKIPPED + 5))
    assert len(task.seen) == SKIPPED and not (tmp_path / "out").exists()


def test_a_run_that_leaves_out_every_other_batch_ends(tmp_path: Path) -> None:
    """It would go on for hours on what is left, and nobody would know."""
    task = LineTask()
    original = task.loss
    task.loss = lambda batch, step: (
        original(batch, step)[0] + ((task.model.project.weight.sum() * 0).sqrt() if step.step % 2 else 0),
        {},
    )
    with pytest.raises(RuntimeError, match=rf"no finite gradient in {SKIPPED + 1} of {2 * SKIPPED + 2} steps"):
        fit(task, TrainOptions(data=tmp_path, out=tmp_path / "out", work=tmp_path / "work", steps=5 * SKIPPED))
    assert not (tmp_path / "out").exists()


def test_the_command_on_a_card_tells_the_time_limit() -> None:
    told = TrainOptions(data=Path("d"), minutes=2.5, batch=240, settings={"start": "published"})
    assert (
        command_line("lm", told)
        == "python -m tts_demo train lm --data SPEECH --seed 0 --minutes 2.5 --batch 240 --set start=published"
    )
    folders = TrainOptions(data=Path("d"), settings={"teacher": "/home/me/a:b", "guide": "1"})
    assert command_line("lm", folders).endswith(
        "--seed 0 --set teacher=TEACHER --set guide=1"
    )  # whose they are is no use


def test_frozen_statistics_stand_still(tmp_path: Path) -> None:
    task = LineTask()
    before = task.helpers["norm"].running_mean.clone()
    fit(task, TrainOptions(data=tmp_path, out=tmp_path / "o", work=tmp_path / "w"))
    assert torch.equal(task.helpers["norm"].running_mean, before)


@pytest.mark.parametrize("native", (True, False))
def test_bfloat16_is_for_machines_that_multiply_it(
    native: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """A CPU that cannot trains in float32, and the card says which it was."""
    monkeypatch.setattr(runtime, "cpu_has_bf16", lambda: native)
    AcceleratorState._reset_state(reset_partial_state=True)  # one precision a process, as accelerate has it
    request.addfinalizer(lambda: AcceleratorState._reset_state(reset_partial_state=True))
    task, seen = LineTask(), set()
    original = task.loss
    task.loss = lambda batch, step: (seen.add(torch.is_autocast_enabled("cpu")), original(batch, step))[1]
    fit(task, TrainOptions(data=tmp_path, out=tmp_path / "out", work=tmp_path / "work", steps=2))
    assert seen == {native}
    assert ("bfloat16 autocast" if native else "float32") in (tmp_path / "out/speaker/README.md").read_text()


def test_nothing_to_resume_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--resume"):
        fit(LineTask(), TrainOptions(data=tmp_path, out=tmp_path, work=tmp_path, resume=True))


def test_learning_rate_rises_then_falls() -> None:
    rates = [learning_rate(Progress.of(s, 1000), 1000, 1.0) for s in range(1000)]
    assert rates[0] < rates[50] < rates[99] == pytest.approx(1.0, abs=0.02)
    assert all(a >= b for a, b in zip(rates[100:], rates[101:])) and rates[-1] < 0.03
    flat = [learning_rate(Progress.of(s, 1000), 1000, 1.0, flat=0.7) for s in range(1000)]
    assert flat[100:700] == [1.0] * 600 and flat[-1] < 0.03


def test_the_learning_rate_of_a_run_that_the_clock_ends_rises_and_falls_too() -> None:
    """80 of 60,000 steps: a tenth of the minutes to rise, the rest to fall."""
    rates = [learning_rate(Progress.of(s, 60_000, clock=s / 80), 60_000, 1.0) for s in range(80)]
    assert rates[0] < 0.02 and all(a < b for a, b in zip(rates[:7], rates[1:8]))
    assert max(rates) > 0.95 and all(a >= b for a, b in zip(rates[8:], rates[9:])) and rates[-1] < 0.03


def test_progress_is_the_further_of_steps_and_minutes() -> None:
    assert Progress.of(30, 100) == Progress(30, 0.3) and Progress.of(30, 100, clock=0.8) == Progress(30, 0.8)
    assert Progress.of(30, 100, clock=1.7).share == 1.0
    long, short = Progress.of(150, 9000), Progress.of(4, 60_000, clock=0.05)
    assert long.ramp(300) == short.ramp(300) == 0.5 and long.begins(300) and not Progress.of(300, 9000).begins(300)
    assert not Progress().begins(0)  # a beginning that was set to nothing


def test_what_the_loop_tells_a_task_follows_the_minutes(tmp_path: Path) -> None:
    """And so does the curve on the card: a run that the clock ends has one too."""
    task, seen = LineTask(), []
    original = task.loss
    task.loss = lambda batch, progress: (seen.append(progress), time.sleep(0.03), original(batch, progress))[2]
    fit(task, TrainOptions(data=tmp_path, out=tmp_path / "o", work=tmp_path / "w", steps=100_000, minutes=0.02))
    assert [p.step for p in seen] == list(range(len(seen))) and 5 < len(seen) < 45
    assert all(a.share < b.share for a, b in zip(seen, seen[1:])) and seen[-1].share > 0.7
    log = json.loads(torch.load(tmp_path / "w/speaker/state.pt", weights_only=True)["log"])
    assert len([entry for entry in log if "loss" in entry]) > 5


@pytest.mark.parametrize("minutes", (0.2, 0.1))
def test_a_resumed_run_goes_on_with_the_share_of_its_minutes(
    minutes: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Learning rate, weights in the loss and the curve are those of the unbroken run of 13 updates of a second each. A
    run whose minutes are over says so and trains no more."""
    monkeypatch.setattr("tts_demo.train.loop.time", SimpleNamespace(monotonic=lambda: now[0]))
    now, seen = [0.0], []

    def train(folder: str, stop: int = 0, **more: object) -> dict[str, float]:
        task = LineTask()
        original = task.loss
        tick = lambda: now.__setitem__(0, now[0] + 1)
        task.loss = lambda batch, progress: (seen.append(progress), tick(), original(batch, progress))[2]
        if stop:
            stop_after(task, stop)
        folders = {"out": tmp_path / folder, "work": tmp_path / f"w{folder}"}
        return fit(task, TrainOptions(data=tmp_path, **folders, steps=90_000, **more))

    log = lambda folder: torch.load(tmp_path / f"w{folder}/speaker/state.pt", weights_only=True)["log"]
    whole = train("a", minutes=0.2)
    unbroken, seen = list(seen), []
    first = train("b", stop=7, minutes=0.2)
    now[0] += 500  # between two sessions
    resumed = train("b", minutes=minutes, resume=True)
    if minutes == 0.1:
        assert resumed == first and seen == unbroken[:7] and "0.1 minutes already" in capsys.readouterr().out
        return
    assert seen == unbroken and len(unbroken) == 13 and resumed == whole
    curve = lambda folder: [entry["step"] for entry in json.loads(log(folder)) if "held_out" not in entry]
    assert curve("b") == curve("a") and len(curve("a")) > 5


def test_training_forward_equals_the_models_own() -> None:
    lm = make_lm()
    torch.manual_seed(0)
    x, positions = torch.randn(2, 14, lm.config.hidden), torch.stack([torch.arange(14), torch.arange(14) + 3])
    mask = torch.ones(2, 14, 14, dtype=torch.bool).tril()
    with torch.no_grad():
        mine, weights = training_forward(lm, x, positions, mask, (1,), slice(6, 14), slice(2, 6))
        assert torch.allclose(mine, lm(x, positions, mask), atol=1e-4)
    assert weights[0].shape == (2, 8, 4) and bool((weights[0].exp().sum(-1) <= 1 + 1e-5).all())


def test_batches_made_ahead_are_those_made_in_turn() -> None:
    made: list[int] = []
    batches = Batches(lambda step: made.append(step) or step * step, ahead=True)
    assert [batches.take(step) for step in (4, 5, 6)] == [16, 25, 36]
    batches.close()
    assert sorted(made)[:3] == [4, 5, 6] and len(made) == len(set(made))


def test_what_fails_while_made_ahead_is_raised_where_it_is_needed() -> None:
    batches = Batches(lambda step: 1 // step, ahead=True)
    with pytest.raises(ZeroDivisionError):
        batches.take(0)
    batches.close()


def test_dropout_leaves_out_what_blocks_add() -> None:
    lm = make_lm()
    x, positions = torch.randn(1, 6, lm.config.hidden), torch.arange(6)[None]
    mask = torch.ones(1, 6, 6, dtype=torch.bool).tril()
    plain, all_out = (training_forward(lm, x, positions, mask, dropout=share)[0] for share in (0.0, 1.0))
    norm = lm.backbone.norm
    assert torch.allclose(
        all_out, torch.nn.functional.rms_norm(x, x.shape[-1:], norm.weight, lm.config.rms_eps), atol=1e-6
    )
    assert not torch.allclose(plain, all_out, atol=1e-2)
