"""Bidirectional decoding: each pass reads the prompt and all masks of the answer, and every token sees all of it.

The blocks of the answer are filled in turn; with one block, its places are written in any order. The model's config
says whether a mask is predicted by its own row or by the one before. In a model with the latter (Dream, RND1),
confidence is that of the distribution which is drawn from, else (LLaDA, MDLM) that before temperature and cuts.

Sources: LLaDA, arXiv 2502.09992; Dream, 2508.15487; MDLM of ZHZisZZ/dllm; RND1, without its options of an end token at
the text's last place and of a bound on entropy; Fast-dLLM, 2505.22618, for "low_confidence_dynamic".
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.config import GenerationConfig
from engine.decoding.masked_run import MaskedRun, counts, dream_times, sure
from engine.decoding.names import require_rule
from engine.decoding.protocols import Decode, Decoding, Passes
from engine.decoding.run import Run
from engine.decoding.sampling import SDAR, cut
from engine.decoding.token_sampler import pieces
from engine.models.causal.config import CausalConfig


@torch.inference_mode()  # as a decorator it is off while the generator is suspended
def bidirectional(run: Run) -> Decoding[None]:
    """Generates text after the prompt. A cancelled run ends within one pass. At the end the cache is empty.

    Raises:
        SafelightError: as ``MaskedRun``; a rule that this decoder does not have; the model gives numbers that are not
            finite.
    """
    require_rule(run.config, "bidirectional")
    state = MaskedRun(run, order=SDAR)
    yield from state.begin(unread=len(run.prompt))
    start = 0
    while state.goes_on():
        filling = Filling(state, range(start, min(start + state.size, state.limit)))
        yield from state.fill(filling.places, filling.passes, filling.choose, filling.look)
        start += state.size
    yield from state.finish()


class Filling:
    """The passes of one block: what they read, and which masks they write.

    Args:
        places: of the block.
    """

    def __init__(self, state: MaskedRun, places: range) -> None:
        shape = state.run.model.config
        self.state, self.places = state, places
        assert isinstance(shape, CausalConfig), "a model that writes over masks"
        self.shifts, self.schedule = shape.shifts_masks, shape.mask_schedule
        self._counts = self._count()
        self.passes = len(self._counts)

    @property
    def config(self) -> GenerationConfig:
        return self.state.config

    def _count(self) -> list[int]:
        """Returns how many masks each pass writes; where that depends on the logits, the fewest."""
        masks, steps = sum(place not in self.state.text for place in self.places), self.config.max_denoising_steps
        if self.config.remasking == "low_confidence_dynamic":
            return [1] * min(steps, masks)
        if self.config.remasking != "origin":
            return counts(masks, steps, self.schedule)
        # Each mask is written by the step in whose span of time it falls. As places are drawn, too, the numbers do.
        times = dream_times(steps)[1:-1].to(self.state.sampler.generator.device)
        spans = (self._uniform(masks)[:, None] < times).sum(dim=1).bincount().tolist()
        return [count for count in spans if count]

    def _uniform(self, count: int) -> Tensor:
        generator = self.state.sampler.generator
        return torch.rand(count, generator=generator, device=generator.device)

    def look(self, _places: range, masked: Sequence[int]) -> Passes[Tensor]:
        """Reads all of the text; the arguments are those of ``Look``.

        As every row sees all others, those whose logits are wanted come last.
        """
        state, rows = self.state, [place - self.shifts for place in masked]
        others = sorted({*range(-len(state.prompt), state.limit)}.difference(rows))
        order = [*others, *rows]
        ids, positions = torch.tensor(state.tokens(order)), torch.tensor(order) + len(state.prompt)
        wanted = Decode(ids, state.cache, 0, len(others), positions, is_causal=False)
        yield wanted
        return state.sampler.allowed(wanted.take())

    def choose(self, logits: Tensor, step: int) -> tuple[Tensor, list[int]]:
        """Draws tokens and chooses masks; the arguments and results are those of ``Choose``."""
        config = self.config
        drawn, scores = map(torch.cat, zip(*map(self._drawn, pieces(logits)), strict=True))
        if config.remasking == "low_confidence_dynamic":
            return drawn, sure(scores, config.accept_probability).nonzero()[:, 0].tolist()
        return drawn, scores.sort(descending=True, stable=True).indices[: self._counts[step]].tolist()

    def _drawn(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Draws a token for each row of (M, V), and says how sure it is: two of (M,)."""
        sampler = self.state.sampler
        if self.shifts:
            temperature = self.config.sampling_temperature or 1.0
            shares = cut(logits / temperature, self.config, sampler.order).softmax(dim=-1)
            drawn = sampler.draw(logits, shares)
        else:
            shares, drawn = logits.softmax(dim=-1), sampler.draw(logits)
        return drawn, self._scores(shares, drawn)

    def _scores(self, shares: Tensor, drawn: Tensor) -> Tensor:
        """Returns how sure each mask is (M,), of shares (M, V) and drawn tokens (M,)."""
        scores: Tensor
        match self.config.remasking:
            case "topk_margin":
                scores = shares.topk(2, dim=-1).values.diff(dim=-1)[:, 0].neg()
            case "entropy":
                scores = torch.special.entr(shares).sum(dim=-1).neg()
            case "random" | "origin":  # without regard to the logits
                scores = self._uniform(len(drawn))
            case _:
                scores = shares.gather(1, drawn[:, None])[:, 0]
        return scores
