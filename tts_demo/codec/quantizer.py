"""Residual vector quantization with factorised, l2-normalised codebooks (DAC, appendix A)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SHARPNESS = 0.1  # of cosines, as a temperature


class Codebook(nn.Module):
    """One codebook: project to a narrow space, take the nearest entry by cosine, project back."""

    def __init__(self, width: int, entries: int, code_width: int, revive_below: float = 0.02) -> None:
        """revive_below: entries chosen less often than this per batch, on average, are moved to where the data is."""
        super().__init__()
        self.revive_below = revive_below
        self.project_in = nn.Linear(width, code_width)
        # Unit variance over frames, dimension by dimension: the commitment loss can then not pull all frames together.
        self.spread = nn.BatchNorm1d(code_width, affine=False)
        self.project_out = nn.Linear(code_width, width)
        self.entries = nn.Parameter(torch.randn(entries, code_width))
        self.register_buffer("usage", torch.ones(entries), persistent=False)  # moving count, training only

    def lookup(self, codes: Tensor) -> Tensor:
        """codes [...] -> [..., width]."""
        return self.project_out(F.embedding(codes, F.normalize(self.entries, dim=-1)))

    def unquantised(self, x: Tensor) -> Tensor:
        """Project in, normalise and project out without choosing an entry: [..., width] -> [..., width]."""
        return self.project_out(self._unit(x))

    def encode(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
        """[..., width] -> codes [...]. ``labels`` [...]: see ``PhonemeCodebook``."""
        return self._nearest(self._unit(x), labels)

    def _unit(self, x: Tensor) -> Tensor:
        """[..., width] -> unit vectors [..., code_width]."""
        narrow = self.project_in(x).float()
        return F.normalize(self.spread(narrow.flatten(0, -2)).view_as(narrow), dim=-1)

    def similarity(self, x: Tensor) -> Tensor:
        """[..., width] -> cosine to each entry [..., entries]."""
        return self._cosines(self._unit(x))

    def _cosines(self, unit: Tensor) -> Tensor:
        return unit.float() @ F.normalize(self.entries, dim=-1).float().t()

    def _nearest(self, unit: Tensor, labels: Tensor | None = None) -> Tensor:
        return self._cosines(unit).argmax(-1)

    def forward(self, x: Tensor, labels: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """[B, F, width] -> quantised [B, F, width] (straight-through), codes [B, F], loss [B] (codebook + 0.25
        commitment). ``labels`` [B, F]: see ``PhonemeCodebook``."""
        unit = self._unit(x)
        with torch.no_grad():
            codes = self._nearest(unit, labels)
        chosen = F.embedding(codes, F.normalize(self.entries, dim=-1))
        codebook = (chosen - unit.detach()).square().mean((1, 2))
        commitment = (chosen.detach() - unit).square().mean((1, 2))
        if self.training and self.entries.requires_grad:
            self._track(codes, unit)
        straight = unit + (chosen - unit).detach()
        return self.project_out(straight), codes, codebook + 0.25 * commitment

    @torch.no_grad()
    def _track(self, codes: Tensor, unit: Tensor) -> None:
        """Move entries nobody has used for a while onto vectors of this batch, so that all entries earn their bits."""
        counts = torch.bincount(codes.flatten(), minlength=len(self.usage)).float()
        self.usage.mul_(0.98).add_(counts, alpha=0.02)
        dead = (self.usage < self.revive_below).nonzero().flatten()
        if len(dead):
            pool = unit.flatten(0, 1)
            # .data: this step's gradients still belong to the old entries, and autograd need not know
            self.entries.data[dead] = pool[self._instead(dead, codes.flatten())].to(self.entries.dtype)
            self.usage[dead] = 1.0

    def _instead(self, dead: Tensor, codes: Tensor) -> Tensor:
        """dead [D] entries, codes [N] of vectors -> the vector that each of them moves to, [D]."""
        return torch.randint(len(codes), (len(dead),), device=codes.device)


class PhonemeCodebook(Codebook):
    """A first codebook whose entries belong to sounds: each phoneme, and the pause (0), has some of its own.

    So a code names a phoneme and a variant of it. Where the text is known, ``labels`` [...] give the phoneme of each
    frame (negative = unknown) and the entry is the nearest of that phoneme's: the codes are right even where the
    recogniser errs. Without labels the nearest of all entries is taken."""

    def __init__(self, width: int, entries: int, code_width: int, revive_below: float = 0.02) -> None:
        super().__init__(width, entries, code_width, revive_below)
        self.register_buffer("sounds", torch.zeros(entries, dtype=torch.long))

    def _nearest(self, unit: Tensor, labels: Tensor | None = None) -> Tensor:
        near = self._cosines(unit)
        if labels is not None:
            others = self.sounds != labels[..., None]
            near = near.masked_fill(others & ~others.all(-1, keepdim=True), -2.0)
        return near.argmax(-1)

    def _instead(self, dead: Tensor, codes: Tensor) -> Tensor:
        """A vector of the entry's own sound where this batch has one."""
        mine = (self.sounds[codes] == self.sounds[dead][:, None]).float()
        return torch.multinomial(mine + 1e-9, 1).flatten()

    def phoneme_log_probs(self, x: Tensor) -> Tensor:
        """[..., width] -> log probability of each sound [..., sounds]."""
        weights = (self.similarity(x) / SHARPNESS).exp()  # at most e ** 10
        mass = weights.new_zeros(*weights.shape[:-1], int(self.sounds.max()) + 1).index_add(-1, self.sounds, weights)
        return (mass.clamp(min=1e-9) / weights.sum(-1, keepdim=True)).log()


class ResidualQuantizer(nn.Module):
    """Codebook k quantises the residual of codebooks < k. The first reads ``semantic`` features, the rest the latent.

    The first codebook revives only entries that are as good as dead: splitting its dense clusters would spend entries
    on detail that later codebooks hold better and a language model would have to guess."""

    def __init__(
        self, width: int, codebooks: int, entries: int, code_width: int, first: int = 0, by_sound: bool = False
    ) -> None:
        """first: entries of the first codebook, 0 = as the others have; by_sound: it is a ``PhonemeCodebook``."""
        super().__init__()
        semantic = (PhonemeCodebook if by_sound else Codebook)(width, first or entries, code_width, 0.002)
        self.codebooks = nn.ModuleList([semantic, *(Codebook(width, entries, code_width) for _ in range(1, codebooks))])

    def forward(
        self, latent: Tensor, semantic: Tensor, keep: Tensor, audio_gradient: float = 1.0, labels: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """latent, semantic [B, F, width], keep [B] = codebooks in use per item, labels [B, F]: see ``PhonemeCodebook``.

        audio_gradient: how much of the reconstruction's gradient reaches the first codebook; the rest of what shapes it
        is the semantic loss. Returns the quantised latent [B, F, width], the first codebook's output [B, F, width],
        codes [B, F, K], loss []."""
        first, codes, loss = self.codebooks[0](semantic, labels)
        scaled = audio_gradient * first + (1 - audio_gradient) * first.detach()
        total, all_codes, losses = scaled, [codes], [loss]
        residual = latent - scaled
        for k, codebook in enumerate(self.codebooks[1:], start=1):
            quantised, codes, loss = codebook(residual)
            used = (keep > k).to(quantised.dtype)[:, None, None]
            total, residual = total + used * quantised, residual - quantised
            all_codes.append(codes)
            losses.append(loss * used[:, 0, 0])
        return total, first, torch.stack(all_codes, -1), torch.stack(losses).sum(0).mean()

    def encode(self, latent: Tensor, semantic: Tensor, labels: Tensor | None = None) -> Tensor:
        """-> codes [B, F, K]. ``labels`` [B, F]: see ``PhonemeCodebook``."""
        codes = [self.codebooks[0].encode(semantic, labels)]
        residual = latent - self.codebooks[0].lookup(codes[0])
        for codebook in self.codebooks[1:]:
            codes.append(codebook.encode(residual))
            residual = residual - codebook.lookup(codes[-1])
        return torch.stack(codes, -1)

    def decode(self, codes: Tensor) -> Tensor:
        """codes [B, F, k], k <= K: a prefix of the codebooks -> latent [B, F, width]."""
        return sum(codebook.lookup(codes[..., k]) for k, codebook in enumerate(self.codebooks[: codes.shape[-1]]))

    def finer(self, codes: Tensor) -> Tensor:
        """codes [B, F, k]: what the codebooks above the first add to the latent [B, F, width]."""
        return self.decode(codes) - self.codebooks[0].lookup(codes[..., 0])
