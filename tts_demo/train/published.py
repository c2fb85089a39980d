"""What a run takes from a checkpoint and what it leaves there: modules, discriminators and probes, model cards."""

import os
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .. import checkpoints, lineage
from ..runtime import precision, processor
from .task import Task, TrainOptions


def begin(task: Task, options: TrainOptions) -> dict[str, str]:
    """Give the modules of the task the weights that it begins with, if it has not done so itself. Returns what made the
    published ones, by module."""
    if task.settings.helpers:
        _begin_helpers(task, task.settings.helpers)
    if not task.goes_on and task.settings.start == "new":
        return {}
    root = task.packed.checkpoint if options.packed else options.checkpoint
    # Not asked to go on with itself, a module begins with what it follows.
    own = set(task.modules) if task.settings.start == "published" else set(task.modules) - set(task.follows)
    here = {name: checkpoints.available(root, name) for name in own}
    sources = {name: name if here.get(name) else task.follows.get(name, name) for name in task.modules}
    for name, module in task.modules.items():
        if not task.loads_published:
            _load(root, sources[name], module)
    return {name: checkpoints.how_it_was_made(root, source) for name, source in sources.items()}


def _begin_helpers(task: Task, folder: Path) -> None:
    """Give the helpers of the task the weights that an earlier run left, where there are any: its own, or one of the
    recipe that it follows."""
    for name, module in task.helpers.items():
        own = f"{task.name}-{name}"
        source = next((s for s in (own, task.follows.get(own, own)) if checkpoints.available(folder, s)), None)
        if source:
            _load(folder, source, module)


def _load(root: Path, name: str, module: nn.Module) -> None:
    """The weights of ``name`` into a module, of which what learns goes on learning, and which stays what the run is to
    make of it."""
    learns = [p.requires_grad for p in module.parameters()]
    checkpoints.load_module(root, name, module, keep_config=True)
    for parameter, wanted in zip(module.parameters(), learns):
        parameter.requires_grad_(wanted)


def publish(
    task: Task, options: TrainOptions, facts: dict[str, Any], scores: dict[str, float], log: list, began: dict[str, str]
) -> None:
    """Write every module of the task with its card, and bring the manifest up to date."""
    facts = {"recipe": task.name} | facts | {"data": task.data_summary, "command": command_line(task.name, options)}
    for folder, module in task.modules.items():
        before = {"begun with": began[folder]} if began.get(folder) else {}
        checkpoints.save_module(options.out, folder, module, facts=facts | before, scores=scores, log=log)
    if options.packed:
        lineage.note(options.out, {name: task.packed.meta["through"] for name in task.modules})
    elif not options.stack:
        lineage.record(options.out, list(task.modules), options.checkpoint)
    for name, module in task.helpers.items() if task.settings.helpers else ():
        checkpoints.save_module(task.settings.helpers, f"{task.name}-{name}", module, facts=facts)


def command_line(name: str, options: TrainOptions) -> str:
    """The command of a run, folders of this machine left out."""
    source = f"--packed {options.packed.name}" if options.packed else "--data SPEECH"
    command = [f"python -m tts_demo train {name} {source} --seed {options.seed}"]
    if options.stack:
        command.append(f"--stack {Path(options.stack).name if Path(options.stack).is_dir() else options.stack}")
    command += [f"--{k} {getattr(options, k):g}" for k in ("steps", "minutes", "batch", "lr") if getattr(options, k)]
    command += [f"--set {k}={k.upper() if os.sep in v else v}" for k, v in options.settings.items()]
    return " ".join(command)


def device_name(device: str) -> str:
    """The processor and, of a CPU, threads and precision."""
    where = torch.device(device)
    if where.type == "cuda":
        return processor(where)
    kind = "bfloat16 autocast" if precision(where) == torch.bfloat16 else "float32"
    return f"{processor(where)}, {torch.get_num_threads()} threads, {kind}"
