"""Block-causal decoding: text is read in blocks that see all of themselves, and the masks of a block are filled so.

Blocks lie at multiples of their length from the prompt's first token. The prompt's last tokens begin the first block
that is filled. A mask predicts the token of its own place. A full block is read once more, for the cache. A predicted
mask stays a mask, except in a block's last pass, which writes all masks.

Source: SDAR, arXiv 2510.06303, and its authors' ``generate.py``. "entropy_bounded" is that of JetEngine, their server;
in ``generate.py`` it raises an error. ``generate.py`` overwrites written tokens; this decoder writes masks only.
"""

from __future__ import annotations

import time

import torch
from torch import Tensor

from engine.config import GenerationConfig
from engine.decoding.masked_run import MaskedRun
from engine.decoding.names import require_rule
from engine.decoding.prefill import commit
from engine.decoding.protocols import Decoding
from engine.decoding.run import Run
from engine.decoding.shares import SDAR


@torch.inference_mode()  # as a decorator it is off while the generator is suspended
def block_causal(run: Run) -> Decoding[None]:
    """Generates text after the prompt. A cancelled run ends within one pass.

    At the end the cache holds the blocks before the last one, with their tokens of the prompt.

    Raises:
        SafelightError: as ``MaskedRun``; a rule that this decoder does not have; the model gives numbers that are not
            finite.
    """
    require_rule(run.config, "block_causal")
    state, config = MaskedRun(run, order=SDAR), run.config
    steps = min(config.max_denoising_steps, state.size)

    def choose(logits: Tensor, step: int) -> tuple[Tensor, list[int]]:
        greedy = config.sampling_temperature == 0.0
        shares = logits.softmax(dim=-1) if greedy else state.drawing.shares(logits)
        drawn = state.drawing.draw(logits, shares)
        return drawn, _chosen(shares, drawn, state.size // steps + (step < state.size % steps), config)

    begun = len(run.prompt) % state.size  # tokens of the prompt in the first block that is filled
    yield from state.begin(unread=begun, block=state.size)
    start, end = -begun, run.model.config.max_position_embeddings - len(run.prompt)
    while state.goes_on():
        places = range(start, min(start + state.size, end))  # below 0: of the prompt
        yield from state.fill(places, steps, choose)
        if state.goes_on():
            clock = time.perf_counter()
            yield from commit(torch.tensor(state.tokens(places)), run.cache)
            yield from state.write({}, {}, time.perf_counter() - clock)
        start += state.size
    yield from state.finish()


def _chosen(shares: Tensor, drawn: Tensor, count: int, config: GenerationConfig) -> list[int]:
    """Returns the rows of the masks to write, of M masks whose tokens (M,) were drawn from shares (M, V).

    Of equally good masks the first ones are chosen.

    Args:
        count: of masks that the schedule writes in this pass.
    """
    count = min(count, len(drawn))
    if config.remasking == "sequential":
        return list(range(count))
    if config.remasking == "entropy_bounded":
        entropy, order = torch.special.entr(shares).sum(dim=-1).sort(stable=True)
        within = int((entropy.cumsum(dim=0) < config.entropy_bound).sum())
        found = order[: max(1, within)]
    else:
        likely = shares.gather(1, drawn[:, None])[:, 0]
        found = (likely > config.accept_probability).nonzero()[:, 0]
        if config.remasking == "low_confidence_static" or len(found) < count:
            found = likely.sort(descending=True, stable=True).indices[:count]
    chosen: list[int] = found.tolist()
    return chosen
