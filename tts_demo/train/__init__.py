"""Training recipes, one file each. ``RECIPES`` names the task class behind ``python -m tts_demo train NAME``."""

import importlib
from typing import Any

from ..config import UserError, nearest

RECIPES = {
    "ears": "recogniser.RecogniserTask",
    "speaker": "speaker.SpeakerTask",
    "first-book": "first_codebook.FirstCodebookTask",
    "codec": "codec.CodecTask",
    "decoder": "decoder.DecoderTask",
    "refiner": "refiner.RefinerTask",
    "refiner-books": "refiner_codebooks.CodebookRefinerTask",
    "lm": "lm.LMTask",
    "tldr": "tldr.TLDRTask",
    "tldr-short": "tldr.ShortTask",
    "tldr-no-lora": "tldr.WithoutLora",
    "tldr-no-speaker": "tldr.WithoutSpeaker",
    "tldr-mean-pool": "tldr.MeanPooled",
    "tldr-parallel": "tldr.Parallel",
    "tldr-mtp": "tldr.MultiToken",
    "dcar-heads": "dcar_heads.HeadsTask",
    "dcar-short-heads": "dcar_heads.ShortHeadsTask",
    "dcar-equal-heads": "dcar_heads.EqualHeadsTask",
    "dcar-policy": "dcar_policy.PolicyTask",
    "dcar-no-chase": "dcar_policy.NoChaseTask",
    "dcar-no-penalty": "dcar_policy.NoPenaltyTask",
    "qtts-delay": "qtts.QTTSDelayTask",
    "qtts-hierarchical": "qtts.QTTSHierarchicalTask",
    "compressed": "compressed.CompressedTask",
    "compressed-text": "compressed.TextWindowTask",
    "ssd-draft": "ssd_draft.DraftTask",
}
CPU_ONLY = ("dcar-policy", "dcar-no-chase", "dcar-no-penalty")  # rollouts and their judge are written for the CPU
# Those that need a language model, text and codes and nothing else: they also train on a released model.
METHODS = (
    "tldr tldr-short tldr-no-lora tldr-no-speaker tldr-mean-pool tldr-parallel tldr-mtp "
    "dcar-heads dcar-short-heads dcar-equal-heads compressed ssd-draft"
).split()


def recipe(name: str) -> Any:
    """The task class of a recipe. Raises UserError for an unknown name."""
    if name not in RECIPES:
        raise UserError(f"There is no recipe {name!r}.{nearest(name, RECIPES)} The recipes are: {', '.join(RECIPES)}.")
    module, task = RECIPES[name].split(".")
    return getattr(importlib.import_module(f"{__name__}.recipes.{module}"), task)


def check(name: str, options: Any) -> None:
    """Raises UserError for an unknown recipe or setting, or where the recipe cannot train as it is asked to."""
    recipe(name).Settings.parse(options.settings)
    if options.packed and not recipe(name).packable:
        raise UserError(f"The recipe {name!r} does not train from a packed file: give --data.")
    if name not in METHODS and options.stack:
        raise UserError(f"The recipe {name!r} is for the bundled stack alone; with --stack use {', '.join(METHODS)}.")
    if name in CPU_ONLY and not options.device.startswith("cpu"):  # of several processes each has a cpu:N
        raise UserError(f"The recipe {name!r} trains on the CPU: give --device cpu.")


def load_task(name: str, options: Any) -> Any:
    """The recipe's task, built, once its request is in order (``check``)."""
    check(name, options)
    return recipe(name)(options)
