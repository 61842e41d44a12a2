"""Runs of tiny networks for the gallery: each was taught a small task by the training objective of a published family.

Their weights are those of the tests, ``tests/fixtures``; their tokens are letters here.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from engine import GenerationConfig, Trace, TraceHeader
from engine.decoding import sub_blocks
from engine.decoding.generate import FUNCTIONS
from engine.decoding.performing import perform_all
from engine.decoding.run import Run
from engine.service.recorder import reporting_candidates
from engine.text.reply import Reply
from engine.trace.header import ModelIdentity
from tests.engine import bd3lm, bidirectional, fast_dllm, rewriting, sdar
from tests.engine.taught import taught

ALPHABETS = "ABCDEFGHIJKLMNOPQRSTabcdefghijklmnopqrstUVWXYZuvwx"
SIGNS = {  # by the size of the vocabulary
    24: [*"0123456789ABCDEFGHIJ", " ", "?", "⏎", "▢"],
    64: [*"0123456789", *ALPHABETS, " ", "?", "⏎", "▢"],
}


@dataclass(frozen=True)
class FamilyRun:
    """A run of a tiny network, what to say of it, and the test of its answer."""

    name: str
    network: str  # its fixture
    family: str
    title: str
    note: str
    decoder: str
    question: Callable[[random.Random], list[int]]
    is_right: Callable[[list[int], list[int]], bool]
    settings: GenerationConfig


def _letters(spaces: int) -> Callable[[random.Random], list[int]]:
    return lambda rng: sdar.question(rng, spaces)


def _answers(answer: Callable[[list[int]], Sequence[int]]) -> Callable[[list[int], list[int]], bool]:
    return lambda asked, found: [*found] == [token for token in answer(asked) if token != sdar.END]


SIX = "Six digits, and a letter for each. "
LAST = "For each of six digits, the letter of the last digit in its block. "
STATIC = GenerationConfig(
    max_new_tokens=8, canvas_length=8, max_denoising_steps=8, remasking="low_confidence_static", pad_token_id=62,
    eos_token_ids=(bidirectional.END,),
)  # fmt: skip
BLOCKS = GenerationConfig(max_new_tokens=10, max_denoising_steps=8, eos_token_ids=(sdar.END,), pad_token_id=sdar.END)
RUNS = (
    FamilyRun(
        "family-llada",
        "llada",
        "LLaDA",
        "LLaDA: letters in any order",
        SIX + "Any of five alphabets would do, but only one for all: see how the first letter decides the others.",
        "bidirectional",
        bidirectional.question,
        bidirectional.is_right,
        STATIC,
    ),
    FamilyRun(
        "family-dream",
        "dream",
        "Dream",
        "Dream: the lowest entropy first",
        SIX + "The row before a mask predicts it, and the surest places by entropy are written first.",
        "bidirectional",
        bidirectional.question,
        bidirectional.is_right,
        STATIC.replace(remasking="entropy"),
    ),
    FamilyRun(
        "family-rnd1",
        "dream",
        "RND1",
        "RND1: its own schedule",
        SIX + "The network is Dream's. RND1 keeps the masks of the highest entropy, and writes the rest at each step.",
        "bidirectional",
        bidirectional.question,
        bidirectional.is_right,
        STATIC.replace(remasking="entropy", max_denoising_steps=5),
    ),
    FamilyRun(
        "family-llada2",
        "rewriting",
        "LLaDA2.1",
        "LLaDA2.1: written at once, then rewritten",
        SIX + "All of the block is written in one step, in several alphabets; the next steps rewrite until all agree.",
        "block_causal",
        rewriting.question,
        bidirectional.is_right,
        BLOCKS.replace(
            canvas_length=rewriting.BLOCK,
            max_new_tokens=8,
            eos_token_ids=(bidirectional.END,),
            pad_token_id=bidirectional.END,
            max_denoising_steps=1,
            edit_probability=0.0,
        ),
    ),
    FamilyRun(
        "family-sdar",
        "sdar",
        "SDAR",
        "SDAR: blocks that see all of themselves",
        LAST + "Each block of five begins as masks; the blocks before it stay as they are.",
        "block_causal",
        _letters(3),
        _answers(lambda asked: sdar.answer(asked, 0)),
        BLOCKS.replace(canvas_length=sdar.BLOCK, accept_probability=0.85),
    ),
    FamilyRun(
        "family-bd3lm",
        "bd3lm",
        "dLLM's BD3-LM",
        "BD3-LM: blocks behind the prompt",
        LAST + "Blocks of four begin behind the question, and each step writes one token.",
        "block_causal",
        _letters(1),
        _answers(bd3lm.answer),
        BLOCKS.replace(canvas_length=bd3lm.BLOCK, remasking="low_confidence_static", max_denoising_steps=4),
    ),
    FamilyRun(
        "family-fast-dllm",
        "fast_dllm",
        "Fast-dLLM v2",
        "Fast-dLLM v2: a block in parts",
        LAST + "A block of six is filled in two parts, one after the other.",
        "sub_blocks",
        _letters(2),
        _answers(lambda asked: sdar.answer(asked, 0, fast_dllm.BLOCK)),
        BLOCKS.replace(canvas_length=fast_dllm.BLOCK, accept_probability=0.9),
    ),
)


def make(run: FamilyRun) -> Trace:
    """Runs the first of some questions that is answered right and, with rewriting, not at once.

    Raises:
        SystemExit: none is.
    """
    network = taught(run.network)
    sub_blocks.PART = fast_dllm.PART
    if run.family == "RND1":
        network.config = replace(network.config, mask_schedule="ceil")
    signs, config = SIGNS[network.config.vocab_size], reporting_candidates(run.settings.replace(decoder=run.decoder))
    for seed in range(20):
        asked = run.question(random.Random(seed))
        trace = _trace(run, asked, signs, config.replace(top_k=min(config.top_k, 8)), seed)
        for event in perform_all(
            network,
            FUNCTIONS[run.decoder](
                Run(network, torch.tensor(asked), config, seed, None, network.new_cache())  # type: ignore[arg-type]
            ),
        ):
            trace.append(event)
        found = [token for event in trace.committed for token in event.tokens[: event.text_length].tolist()]
        if run.is_right(asked, found) and (config.edit_probability == 1 or len(trace.steps) > 3):
            return trace
    raise SystemExit(f"{run.name}: no question is answered right")


def _trace(run: FamilyRun, asked: list[int], signs: list[str], config: GenerationConfig, seed: int) -> Trace:
    prompt = "".join(signs[token] for token in asked)
    model = ModelIdentity(
        run.network, f"{run.family}, tiny", canvas_length=config.canvas_length or 0, vocab_size=len(signs),
        eos_token_ids=config.eos_token_ids,
    )  # fmt: skip
    id = uuid.uuid5(uuid.NAMESPACE_OID, f"safelight gallery {run.name}").hex
    messages = ({"role": "user", "content": prompt},)
    header = TraceHeader(model, prompt, config, seed, messages, tuple(asked), id=id)
    return Trace(
        header=header,
        piece=signs.__getitem__,
        is_special=lambda token: token >= len(signs) - 2,
        decode=lambda ids: Reply("".join(signs[token] for token in ids)),
    )
