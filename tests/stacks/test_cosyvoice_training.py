"""Recipes on a tiny random released model and a tiny LibriTTS: train, resume, speak; alone and as two processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from cosyvoice_tiny import speech_like, tiny, write_model

from tests.conftest import real_voice
from tts_demo import audio, checkpoints
from tts_demo.cli.main import main
from tts_demo.stacks import load_stack
from tts_demo.train import METHODS, load_task
from tts_demo.train.data.corpora import read_corpora
from tts_demo.train.data.load import sequences
from tts_demo.train.data.sequences import attention_mask, prefix_batch, speech_targets
from tts_demo.train.data.tokens import TokenCache
from tts_demo.train.progress import Progress
from tts_demo.train.settings import SequenceSettings
from tts_demo.train.task import TrainOptions

ROOT = Path(__file__).parents[2]
WORDS = ("The king sang.", "Then the thing began.", "Nothing else.", "The singing ended.", "A thing.")


@pytest.fixture(scope="module")
def libritts(tmp_path_factory) -> Path:
    """Two speakers to train on, one to test with."""
    root = tmp_path_factory.mktemp("LibriTTS")
    for n, text in enumerate(WORDS * 2):
        speaker, subset = (("19", "train-clean-100"), ("26", "train-clean-100"), ("84", "dev-clean"))[n % 3]
        name = f"{speaker}_198_000000_{n:06d}"
        folder = root / subset / speaker / "198"
        folder.mkdir(parents=True, exist_ok=True)
        audio.write_wav(folder / f"{name}.wav", speech_like(1.0 + 0.1 * n, 24_000, n), 24_000)
        (folder / f"{name}.normalized.txt").write_text(text + "\n")
    return root


@pytest.fixture(scope="module", params=[2, 3])
def model(request, tmp_path_factory) -> Path:
    return write_model(tmp_path_factory.mktemp(f"model{request.param}"), tiny(request.param))


@pytest.fixture(scope="module")
def third(tmp_path_factory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"), tiny(3))


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("work")


def say(model: Path, out: Path, method: str, *settings: str) -> int:
    voice = out.with_name("voice.wav")
    audio.write_wav(voice, real_voice(1.4, 24_000), 24_000)
    asked = f"--stack {model} --prompt {voice} --method {method} -o {out} --json {out.with_suffix('.json')}"
    how = "--device cpu --dtype float32 --max-seconds 1"
    return main(["say", "The thing sings.", *asked.split(), *how.split(), "--set", *settings])


def train(model: Path, libritts: Path, work: Path, recipe: str, steps: int, *more: str) -> None:
    asked = f"train {recipe} --stack {model} --data {libritts} --work {work} --steps {steps} --device cpu"
    assert main([*asked.split(), *"--batch 80 --lr 0.003".split(), *more]) == 0


@pytest.mark.parametrize(
    ("recipe", "method", "setting"), [("tldr", "tldr", "patch_size=4"), ("ssd-draft", "ssd", "tolerance=0.3")]
)
def test_twenty_steps_a_resumption_and_speech(recipe, method, setting, third, libritts, work, tmp_path, capsys) -> None:
    if method == "tldr":
        assert say(third, tmp_path / "none.wav", method, setting) == 2
        assert f"train {recipe} --stack" in capsys.readouterr().err
    train(third, libritts, work, recipe, 12)
    first = checkpoints.read_manifest(third / "adapters")[f"{recipe}/model.safetensors"]
    kept = lambda: {path: path.stat().st_mtime_ns for path in work.rglob("codes-*/*.safetensors")}
    made = kept()
    train(third, libritts, work, recipe, 20, "--resume")
    assert checkpoints.read_manifest(third / "adapters")[f"{recipe}/model.safetensors"] != first
    assert made and kept() == made
    state = torch.load(work / third.name / recipe / "state.pt", weights_only=True)
    log = json.loads(state["log"])
    assert state["step"] == 20 and [row["step"] for row in log if "ce" in row] == list(range(1, 21))
    card = (third / "adapters" / recipe / "README.md").read_text()
    assert "20 of 20" in card and "train-clean-100" in card and str(third.parent) not in card
    assert say(third, tmp_path / "out.wav", method, setting) == 0
    report = json.loads((tmp_path / "out.json").read_text())
    assert report["method"] == method and report["frames"] > 0 and audio.read(tmp_path / "out.wav").seconds <= 1.1


def test_how_long_chains_are_is_a_setting_of_every_recipe(third, libritts, work) -> None:
    told = dict(data=libritts, stack=str(third), work=work)
    plain, chained = (
        sequences(TrainOptions(**told), SequenceSettings.parse(settings), frames=100)
        for settings in ({}, {"chains": "1", "chained": "120"})
    )
    assert not plain.chains and (chained.chains, chained.chained) == (1.0, 120)
    longest = max(len(plain.codes.get(i)) for i in plain.train)
    assert longest < max(int(chained.batch(np.random.default_rng(seed)).frames.max()) for seed in range(8)) <= 120


def test_two_processes(third, libritts, tmp_path) -> None:
    """As people start it; the script also checks that gradients meet. gloo, one thread each."""
    script = tmp_path / "together.py"
    script.write_text("""
import sys, torch
from tts_demo.cli.main import main
from tts_demo.train.processes import accelerator_for, average_gradients, largest, share_weights

accelerator = accelerator_for("cpu")
index = accelerator.process_index
weights = [torch.nn.Parameter(torch.full((2, 2), float(index))), torch.nn.Parameter(torch.zeros(3))]
weights[0].grad = torch.full((2, 2), 1.0 + 2 * index)
if index:
    weights[1].grad = torch.ones(3)
average_gradients(accelerator, weights)
assert accelerator.num_processes == 2 and torch.distributed.get_backend() == "gloo"
assert weights[0].grad.unique().item() == 2 and weights[1].grad.unique().item() == 0.5
assert largest(accelerator, index + 0.5) == 1.5
share_weights(accelerator, torch.nn.ParameterList(weights))
assert not weights[0].any()
sys.exit(main(sys.argv[1:]))
""")
    out, work = tmp_path / "adapters", tmp_path / "work"
    launch = "-m accelerate.commands.launch --multi_gpu --num_processes 2 --main_process_port 0"
    asked = f"train tldr --stack {third} --data {libritts} --out {out} --work {work} --steps 20 --batch 60 --device cpu"
    command = [sys.executable, *launch.split(), str(script), *asked.split()]
    made = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert made.returncode == 0, made.stderr[-2000:]
    assert made.stdout.count("patch 4: top-1") == 1  # one speaks
    card = (out / "tldr" / "README.md").read_text()
    assert "20 of 20" in card and "2 processes" in card
    options = TrainOptions(data=libritts, work=work / third.name, stack=str(third))
    adapter = checkpoints.load_module(out, "tldr", load_task("tldr", options).modules["tldr"])
    assert any(weight.any() for name, weight in adapter.named_parameters() if name.startswith("lora.b"))


def test_training_reads_what_the_stack_speaks_from(model, libritts, work) -> None:
    """One utterance of a batch: the prefix of a run, causal, one position a token, and this version's end of speech."""
    stack = load_stack(str(model), "cpu", "float32")
    task = load_task("ssd-draft", TrainOptions(data=libritts, work=work / model.name, stack=str(model)))
    data, lm = task.data, task.lm
    index = data.train[0]
    batch = data.collate([data._item(np.random.default_rng(0), index)])
    prompt = stack.encode_prompt(speech_like(1.2, 24_000), 24_000)
    prefix, made = stack.prefix(prompt, read_corpora(libritts)[index].text), prefix_batch(lm, batch)
    torch.testing.assert_close(made.x[0], prefix.x)
    assert made.positions[0].tolist() == list(range(len(prefix.x))) and made.next.tolist() == [len(prefix.x)]
    mask = attention_mask(made, torch.ones(2, 2, dtype=torch.bool).tril(), lm.config.bidirectional_text)
    assert torch.equal(mask[0], torch.ones_like(mask[0]).tril())
    end = speech_targets(batch, lm.config.eos)[0, -1].item()
    assert end == {2: 6561, 3: 6562}[stack.config.version]
    assert torch.equal(prefix.speaker, prompt.extra["voice"].speaker[0]) and batch.speaker.shape == (1, 192)


def test_pairs_are_a_prompt_and_what_follows(third, libritts, work) -> None:
    tokens = TokenCache(TrainOptions(data=libritts, work=work / third.name, stack=str(third)))
    data = load_task("ssd-draft", TrainOptions(data=libritts, work=work / third.name, stack=str(third))).data
    index = data.train[0]
    text, codes, alignment, _ = data._item(
        np.random.default_rng(0), index, len(tokens.codes.get(index)) + 1, data.longest
    )
    assert text[: len(tokens.lead)].tolist() == tokens.lead and (alignment == -1).all()
    rest = text[len(tokens.lead) :].tolist()
    assert any(rest == tokens.texts[index] + tokens.texts[other] for other in data.train)
    assert len(codes) == len(alignment) > len(tokens.codes.get(index))


def test_dev_and_test_are_held_out(libritts) -> None:
    found = read_corpora(libritts)
    assert {u.speaker for u in found if u.held_out} == {"librispeech-84"}
    assert {u.speaker for u in found if not u.held_out} == {"librispeech-19", "librispeech-26"}
    assert all(u.text in WORDS for u in found)


@pytest.mark.parametrize("recipe", [name for name in METHODS if not name.startswith("tldr-")])
def test_nothing_of_a_recipe_is_tied_to_the_cpu(recipe, third, libritts, work) -> None:
    """With another default device, whatever is made without naming the batch's own device would not fit it."""
    task = load_task(recipe, TrainOptions(data=libritts, work=work / third.name, batch=60, stack=str(third)))
    batch = task.batch(np.random.default_rng(1), 0)
    with torch.device("meta"):
        loss, parts = task.loss(batch, Progress())
    loss.backward()
    assert torch.isfinite(loss) and all(np.isfinite(value) for value in parts.values())


def test_recipes_of_the_bundled_stack_refuse_a_released_model(third, libritts, capsys) -> None:
    assert main(["train", "codec", "--stack", str(third), "--data", str(libritts)]) == 2
    assert "bundled stack alone" in capsys.readouterr().err
