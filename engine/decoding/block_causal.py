"""Block-causal decoding: text is read in blocks that see all of themselves, and the masks of a block are filled so.

Blocks lie at multiples of their length from the prompt's first token, and the prompt's last tokens begin the first
block that is filled; or, if the model's config says so, the first block that is filled begins behind the prompt. A mask
predicts the token of its own place. A full block is read once more, for the cache. A predicted mask stays a mask,
except in a block's last pass, which writes all masks.

With ``edit_probability`` below 1 each pass also replaces tokens that it wrote in the block, where another one is
likelier than that. Behind the last mask passes go on until none is replaced. Only then may the text end in the block.

Sources: SDAR, arXiv 2510.06303, and its authors' ``generate.py``. "entropy_bounded" is that of JetEngine, their server;
in ``generate.py`` it raises an error. ``generate.py`` overwrites written tokens; without edits this decoder writes
masks only. LLaDA2.0, arXiv 2512.15745, is "low_confidence_dynamic"; LLaDA2.1, arXiv 2602.08676, the same with edits; in
``generate`` of its authors an edit may also write a mask. BD3-LM, arXiv 2503.09573, as in ``BD3LMSampler`` of dllm:
"low_confidence_static" or "random", the schedule "round", blocks behind the prompt.
"""

from __future__ import annotations

import time

import torch
from torch import Tensor

from engine.decoding.masked_run import MaskedRun, counts
from engine.decoding.names import require_rule
from engine.decoding.prefill import commit
from engine.decoding.protocols import Decoding
from engine.decoding.run import Run
from engine.decoding.sampling import SDAR
from engine.decoding.token_sampler import TokenSampler
from engine.errors import SafelightError
from engine.layers.masks import Blocks
from engine.models.causal.config import CausalConfig


@torch.inference_mode()  # as a decorator it is off while the generator is suspended
def block_causal(run: Run) -> Decoding[None]:
    """Generates text after the prompt. A cancelled run ends within one pass.

    At the end the cache holds the blocks before the last one, with their tokens of the prompt.

    Raises:
        SafelightError: as ``MaskedRun``; a rule that this decoder does not have; edits with a repetition penalty, which
            would change every token again; the model gives numbers that are not finite.
    """
    require_rule(run.config, "block_causal")
    state, config = MaskedRun(run, order=SDAR), run.config
    edits = config.edit_probability < 1.0 and run.answer is None
    if edits and config.repetition_penalty != 1.0:
        raise SafelightError("a repetition penalty cannot go with rewriting; set one of them to 1")

    def edit(logits: Tensor, held: Tensor) -> Tensor:
        drawn, shares = state.sampler.weighed(logits)
        return torch.where(_of(shares, drawn) > config.edit_probability, drawn, held)

    def choose(logits: Tensor, step: int) -> tuple[Tensor, list[int]]:
        drawn, shares = state.sampler.weighed(logits)
        return drawn, _chosen(shares, drawn, written[step], state.sampler)

    length, shape = len(run.prompt), run.model.config
    assert isinstance(shape, CausalConfig), "a model that writes over masks"
    if shape.blocks_follow_prompt:
        blocks, begun, end = Blocks.ending_at(length, state.size), 0, state.limit
    else:  # tokens of the prompt are in the first block that is filled
        blocks, begun, end = Blocks(state.size), length % state.size, shape.max_position_embeddings - length
    yield from state.begin(unread=begun, blocks=blocks)
    start = -begun
    while state.goes_on():
        places = range(start, min(start + state.size, end))  # below 0: of the prompt
        written = _counts(places, state.size, config.max_denoising_steps, shape.mask_schedule)
        yield from state.fill(places, len(written), choose, edit=edit if edits else None)
        if state.goes_on():
            clock = time.perf_counter()
            yield from commit(torch.tensor(state.tokens(places)), run.cache)
            yield from state.write({}, {}, time.perf_counter() - clock)
        start += state.size
    yield from state.finish()


def _counts(places: range, size: int, steps: int, schedule: str) -> list[int]:
    """Returns how many masks each pass over a block writes if its rule is a number of them."""
    if schedule == "even":  # of a whole block, whatever is written of it
        return counts(size, min(steps, size), schedule)
    return counts(places.stop - max(0, places.start), steps, schedule)


def _of(shares: Tensor, tokens: Tensor) -> Tensor:
    """Returns the probability (R,) of each row's token (R,)."""
    return shares.gather(1, tokens[:, None])[:, 0]


def _chosen(shares: Tensor, drawn: Tensor, count: int, sampler: TokenSampler) -> list[int]:
    """Returns the rows of the masks to write, of M masks whose tokens (M,) were drawn from shares (M, V).

    Of equally good masks the first ones are chosen.

    Args:
        count: of masks that the schedule writes in this pass.
    """
    config, count = sampler.config, min(count, len(drawn))
    if config.remasking == "sequential":
        return list(range(count))
    if config.remasking == "entropy_bounded":
        entropy, order = torch.special.entr(shares).sum(dim=-1).sort(stable=True)
        within = int((entropy.cumsum(dim=0) < config.entropy_bound).sum())
        chosen = order[: max(1, within)]
    elif config.remasking == "random":
        chosen = torch.rand(len(drawn), generator=sampler.generator, device=drawn.device).topk(count).indices
    else:
        likely = _of(shares, drawn)
        chosen = (likely > config.accept_probability).nonzero()[:, 0]
        if config.remasking == "low_confidence_static" or len(chosen) < count:
            chosen = likely.sort(descending=True, stable=True).indices[:count]
    rows: list[int] = chosen.tolist()
    return rows
