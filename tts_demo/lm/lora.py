"""LoRA on the frozen backbone: one set of factors that training injects through peft and inference merges."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

ALL_TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
ADAPTER = "speech"


@dataclass(frozen=True)
class LoraSpec:
    rank: int = 16
    alpha: float = 16.0
    targets: tuple[str, ...] = ALL_TARGETS

    @property
    def scale(self) -> float:
        return self.alpha / self.rank


def _key(layer: int, target: str) -> str:
    return f"{layer}_{target}"  # no dots: a ParameterDict key


def _targets(backbone: nn.Module, spec: LoraSpec) -> dict[str, tuple[nn.Module, str]]:
    """Factor key -> (the module that holds the projection, the projection's name)."""
    found = {}
    for index, block in enumerate(backbone.layers):
        for target in spec.targets:
            found[_key(index, target)] = (block.self_attn if hasattr(block.self_attn, target) else block.mlp, target)
    return found


class LoraFactors(nn.Module):
    """The trainable A [rank, in] and B [out, rank] of every target projection; B starts at zero (no effect)."""

    def __init__(self, backbone: nn.Module, spec: LoraSpec) -> None:
        super().__init__()
        self.spec = spec
        self.a, self.b = nn.ParameterDict(), nn.ParameterDict()
        for key, (owner, name) in _targets(backbone, spec).items():
            linear = getattr(owner, name)
            a = torch.empty(spec.rank, linear.in_features)
            nn.init.kaiming_uniform_(a, a=5**0.5)
            self.a[key] = nn.Parameter(a)
            self.b[key] = nn.Parameter(torch.zeros(linear.out_features, spec.rank))

    def delta(self, layer: int, target: str) -> Tensor | None:
        """What this adapter adds to a projection's weight, float32 [out, in]; None where it adds nothing."""
        key = _key(layer, target)
        if key not in self.a:
            return None
        return self.b[key].detach().float() @ self.a[key].detach().float() * self.spec.scale


@dataclass(frozen=True)
class LoraSum:
    """Several adapters merged together: the sum of their deltas."""

    parts: tuple[LoraFactors, ...]

    def delta(self, layer: int, target: str) -> Tensor | None:
        found = [d for d in (part.delta(layer, target) for part in self.parts) if d is not None]
        return sum(found[1:], found[0]) if found else None


def attach(backbone: nn.Module, spec: LoraSpec, factors: LoraFactors | None = None) -> LoraFactors:
    """Inject peft layers into the backbone and tie their weights to ``factors`` (new ones when None), so that training
    the backbone trains the factors. The backbone's own weights stop requiring gradients. Undo with ``detach``."""
    from peft import LoraConfig, inject_adapter_in_model  # seconds to import, and only training needs it

    factors = factors or LoraFactors(backbone, spec)
    owners = _targets(backbone, spec)
    config = LoraConfig(r=spec.rank, lora_alpha=spec.alpha, target_modules=list(spec.targets), lora_dropout=0.0)
    inject_adapter_in_model(config, backbone, adapter_name=ADAPTER)
    for key, (owner, name) in owners.items():
        layer = getattr(owner, name)
        layer.lora_A[ADAPTER].weight = factors.a[key]
        layer.lora_B[ADAPTER].weight = factors.b[key]
    return factors


def detach(backbone: nn.Module) -> None:
    """Take the peft layers out again; the backbone is as it was."""
    from peft.tuners.lora import LoraLayer

    for block in backbone.layers:
        for owner in (block.self_attn, block.mlp):
            for name, module in list(owner.named_children()):
                if isinstance(module, LoraLayer):
                    setattr(owner, name, module.base_layer)
