"""The peer that ``bench --peer`` measures: transformers' own ``generate`` on the very same weights."""

import torch

from ..config import Sampling
from ..lm.model import LanguageModel, Prefix, backbone_config
from ..runtime import synchronize, work_clock


class Peer:
    """Shares every weight with ``lm``. It attends causally throughout, which costs the same as our prefix mask."""

    def __init__(self, lm: LanguageModel) -> None:
        from transformers import Qwen2ForCausalLM  # seconds to import: the page, which measures none, opens sooner

        config = backbone_config(lm.config)
        config.vocab_size = lm.config.vocab
        with torch.device("meta"):
            model = Qwen2ForCausalLM(config)
        model.model = lm.backbone
        model.lm_head = lm.head
        self.lm, self.model = lm, model.eval()

    @torch.inference_mode()
    def seconds_per_token(self, prefix: Prefix, frames: int, sampling: Sampling, seed: int) -> float:
        """Generate exactly ``frames`` tokens and take the prefill (a one-token run) off."""
        lm = self.lm
        x = torch.cat([prefix.x.to(lm.dtype), lm.embed_speech(prefix.prompt_codes[:, 0])])[None]
        fed = lm.backbone.embed_tokens
        lm.backbone.embed_tokens = lm.speech_embedding  # ``generate`` looks the tokens it drew up here
        try:
            torch.manual_seed(seed)
            first, whole = (self._timed(x, n, sampling) for n in (1, frames))
        finally:
            lm.backbone.embed_tokens = fed
        return (whole - first) / (frames - 1)

    def _timed(self, x: torch.Tensor, frames: int, sampling: Sampling) -> float:
        greedy = sampling.temperature == 0
        sampling_options = (
            {} if greedy else {name: getattr(sampling, name) for name in ("temperature", "top_k", "top_p")}
        )
        clock = work_clock(x.device)
        start = clock()
        ids = self.model.generate(
            inputs_embeds=x,
            max_new_tokens=frames,
            min_new_tokens=frames,
            do_sample=not greedy,
            attention_mask=torch.ones(x.shape[:2], dtype=torch.long, device=x.device),
            eos_token_id=None,
            pad_token_id=0,
            use_cache=True,
            **sampling_options,
        )
        synchronize(x.device)
        assert ids.shape[1] == frames, ids.shape
        return clock() - start
