"""The embedded prefix of a run: made by the language model, read by the methods."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Prefix:
    """[speaker, SOS, text, TASK], and the prompt's speech that follows it.

    x: [T, H] embeddings of everything before the prompt's speech. ``text`` spans the text tokens inside it.
    prompt_codes: [F, K] codec codes of the prompt's speech, empty when the LM gets none (a method embeds them in
    its own way: token by token, patchified, or over several codebooks). ``labels``: one readable label a text token.
    ``shortest``: the least number of frames this text can take; speech does not end before. ``longest``: the most it
    can take; it is cut there (None: no cap). ``transcript``: number of columns
    right before the text that hold the prompt's transcript.
    """

    x: Tensor
    text: slice
    labels: tuple[str, ...]
    prompt_codes: Tensor
    shortest: int = 0
    longest: int | None = None
    speaker: Tensor | None = None  # [speaker width], for methods that condition their own modules on it
    transcript: int = 0

    def room(self, max_frames: int, forced: bool = False) -> int:
        """The most frames that this text may take, at most ``max_frames``; ``max_frames`` itself when the length is
        forced."""
        return max_frames if forced or self.longest is None else min(max_frames, self.longest)

    def without_prompt(self) -> "Prefix":
        """The same text without the prompt's speech and its transcript in front of it."""
        start, stop = self.text.start - self.transcript, self.text.stop - self.transcript
        x = torch.cat([self.x[:start], self.x[self.text.start :]])
        return replace(self, x=x, text=slice(start, stop), prompt_codes=self.prompt_codes[:0], transcript=0)

    def followed_by(self, speech: Tensor) -> Tensor:
        """Backbone inputs [T + N, H] for embedded speech [N, H], in its dtype."""
        return torch.cat([self.x.to(speech.dtype), speech])
