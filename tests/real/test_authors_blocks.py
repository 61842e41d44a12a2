"""Decoding in blocks against its authors' own code, run on the same weights: greedy, token for token.

On request: ``pytest -m real``. The mask itself is never predicted here: their code leaves it in the text, or writes it
again without end.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from engine import GenerationConfig
from engine.decoding import masked_run, sub_blocks
from engine.decoding.generate import FUNCTIONS
from engine.decoding.performing import perform_all
from engine.decoding.run import Run
from engine.layers.attention import Extend
from engine.models.causal.network import CausalNetwork
from tests.engine import bd3lm, fast_dllm, rewriting, sdar
from tests.engine.bidirectional import is_right
from tests.engine.causal import masked_network
from tests.engine.taught import taught
from tests.real import authors

pytestmark = pytest.mark.real

MASK, END, PAD, RUNS = 8, 7, 1_000, 100  # padding is no token of the networks
PAST = list[tuple[Tensor, Tensor]]


class Kept:
    """Keys and values of a pass, each (1, heads, T, D), behind those of the text before."""

    def __init__(self, past: PAST | None) -> None:
        self.past, self.layers = past, PAST()

    def writer(self, index: int) -> Extend:
        def extend(keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
            self.layers.append((keys, values))
            if self.past is not None:
                before = self.past[index]
                keys, values = torch.cat((before[0], keys), dim=2), torch.cat((before[1], values), dim=2)
            return keys, values

        return extend

    @property
    def joined(self) -> PAST:
        """All of them, as the past of later rows."""
        if self.past is None:
            return self.layers
        both = zip(self.past, self.layers, strict=True)
        return [(torch.cat((keys, more), 2), torch.cat((values, new), 2)) for (keys, values), (more, new) in both]


def logits_of(network: CausalNetwork, ids: Tensor, positions: Tensor, visible: Tensor | None, kept: Kept) -> Tensor:
    """Logits (1, T, V) of rows (1, T), never a mask's."""
    logits = network.head(network.run(ids, positions, visible, kept))
    logits[..., network.config.mask_token_id] = -torch.inf
    return logits


class Wrapped:
    """Our network as dllm's samplers call their model: a mask of bools, or one that is added."""

    device = torch.device("cpu")

    def __init__(self, network: CausalNetwork) -> None:
        self.network = network

    def __call__(
        self, ids: Tensor, attention_mask: Tensor, position_ids: Tensor, past_key_values: Any = None, **_: Any
    ) -> SimpleNamespace:
        visible = attention_mask[0, 0] if attention_mask.dtype == torch.bool else attention_mask[0, 0] == 0
        if past_key_values is None:  # padding sees itself, so that its numbers are finite; nothing else sees it
            visible = visible | torch.eye(len(visible), dtype=torch.bool)
        kept = Kept(past_key_values)
        logits = logits_of(self.network, ids.masked_fill(ids == PAD, 0), position_ids[0], visible, kept)
        return SimpleNamespace(logits=logits, past_key_values=kept.joined)


def sampler(name: str) -> ModuleType:
    """A module of dllm, without what its packages would load besides."""
    for package in ("dllm", "dllm.core", "dllm.core.samplers", "dllm.pipelines", name.rpartition(".")[0]):
        authors.package(authors.DLLM, package.replace(".", "/"), package)
    return importlib.import_module(name)


def tokens(mask: int, end: int) -> SimpleNamespace:
    """A tokenizer, as far as their samplers look at it."""
    return SimpleNamespace(mask_token_id=mask, eos_token_id=end, pad_token_id=PAD, bos_token_id=0)


TOKENS = tokens(MASK, END)


def ours(decoder: str, network: CausalNetwork, prompt: list[int], length: int, **changes: Any) -> list[int]:
    """Our text, with the end if it ends."""
    config = GenerationConfig(max_new_tokens=length, eos_token_ids=(END,), banned_tokens=(MASK,)).replace(**changes)
    run = Run(network, torch.tensor(prompt), config, 0, None, network.new_cache())  # type: ignore[arg-type]
    *_, last = perform_all(network, FUNCTIONS[decoder](run))  # type: ignore[arg-type]
    return [*last.tokens.tolist(), *(config.eos_token_ids if last.reason == "eos" else [])]  # type: ignore[union-attr]


def ended(found: Sequence[int], length: int, end: int = END) -> list[int]:
    """The first ``length`` tokens, up to an end among them."""
    text = list(found[:length])
    return text[: text.index(end) + 1] if end in text else text


def case(seed: int, **changes: Any) -> tuple[random.Random, CausalNetwork, list[int], int, int]:
    """A network, a prompt, a length and a block's."""
    rng = random.Random(seed)
    network = masked_network(seed, rng.choice([0.5, 1.0, 2.0]), 1 + seed % 2, **changes)
    return (
        rng,
        network,
        [rng.randrange(7) for _ in range(rng.randint(1, 20))],
        rng.randint(1, 24),
        rng.choice([2, 4, 6]),
    )


@torch.inference_mode()
def test_llada2_of_dllm() -> None:
    theirs = sampler("dllm.pipelines.llada2.sampler")
    for seed in range(RUNS):
        rng, network, prompt, length, block = case(seed)
        sure, steps = rng.choice([0.3, 0.5, 0.9]), rng.randint(1, block + 2)
        options = {"block_size": block, "steps_per_block": steps, "max_new_tokens": length, "threshold": sure}
        found = theirs.LLaDA2Sampler(Wrapped(network), TOKENS).sample([prompt], **options)
        same = {"canvas_length": block, "max_denoising_steps": min(steps, length), "accept_probability": sure}
        text = ended(found[0, len(prompt) :].tolist(), length)
        assert text == ours("block_causal", network, prompt, length, **same), seed


@torch.inference_mode()
def test_llada21_of_dllm(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, edited = sampler("dllm.pipelines.llada21.sampler"), 0
    for seed in range(RUNS):
        rng, network, prompt, length, block = case(seed)
        sure, edits, late = rng.choice([0.2, 0.5, 0.9]), rng.choice([0.0, 0.2, 0.4]), rng.choice([0, 1, 2, 16])
        few, stops = rng.choice([1, 2]), rng.random() < 0.5
        options = {"block_size": block, "max_new_tokens": length, "threshold": sure, "editing_threshold": edits}
        options |= {"max_post_steps": late, "num_to_transfer": few, "eos_early_stop": stops}
        found = theirs.LLaDA21Sampler(Wrapped(network), TOKENS).sample([prompt], **options)
        same = {"canvas_length": block, "max_denoising_steps": block // few, "accept_probability": sure}
        text = ended(found[0, len(prompt) :].tolist(), length)
        monkeypatch.setattr(masked_run, "EDIT_PASSES", late)
        mine = ours("block_causal", network, prompt, length, edit_probability=edits, **same)
        assert text == mine, seed
        edited += text != ours("block_causal", network, prompt, length, **same)
    assert edited > RUNS // 4


@torch.inference_mode()
def test_bd3lm_of_dllm() -> None:
    theirs, shorter = sampler("dllm.core.samplers.bd3lm"), 0
    for seed in range(RUNS):
        rng, network, prompt, length, block = case(seed, blocks_follow_prompt=True, mask_schedule="round")
        steps = rng.randint(1, block + 3)
        options = {"block_size": block, "steps_per_block": steps, "max_new_tokens": length}
        found = theirs.BD3LMSampler(Wrapped(network), TOKENS).sample([prompt], **options)
        text = found[0, -(-len(prompt) // block) * block :].tolist()
        same = {"canvas_length": block, "max_denoising_steps": steps}
        mine = ours("block_causal", network, prompt, length, remasking="low_confidence_static", **same)
        assert ended(text, length) == mine, seed
        shorter += len(prompt) % block > 0
    assert shorter > RUNS // 3


class Sampled:
    """Our network as the model of Fast-dLLM v2, whose sampler is a method of it."""

    device = torch.device("cpu")
    model = SimpleNamespace(layers=())

    def __init__(self, network: CausalNetwork) -> None:
        self.network = network

    def forward(
        self,
        input_ids: Tensor,
        past_key_values: PAST | None = None,
        update_past_key_values: bool = False,
        **_: Any,
    ) -> SimpleNamespace:
        before = 0 if past_key_values is None else past_key_values[0][0].shape[2]
        kept = Kept(past_key_values)
        places = torch.arange(input_ids.shape[1]) + before
        keys, block = torch.arange(before + input_ids.shape[1]), self.network.config.canvas_length
        visible = places[:, None] // block >= keys // block
        logits = logits_of(self.network, input_ids, places, visible, kept)
        past = kept.joined if update_past_key_values else past_key_values
        return SimpleNamespace(logits=logits, past_key_values=past)

    @staticmethod
    def sample_with_top_p(logits: Tensor, **_: Any) -> tuple[Tensor, Tensor]:
        return logits.argmax(dim=-1), logits.softmax(dim=-1)


@torch.inference_mode()
def test_fast_dllm_v2(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not with a prompt of exactly one block, which theirs does not read; theirs fills whole blocks behind an end."""
    theirs, seen = authors.module(authors.FAST_DLLM_V2, "v2/generation_functions.py", "fast_dllm_v2"), set()
    model = type("Model", (Sampled, theirs.Fast_dLLM_QwenForCausalLM), {})
    for seed in range(RUNS):
        rng = random.Random(seed)
        block = rng.choice([4, 6])
        rng, network, prompt, _, _ = case(seed, canvas_length=block)
        if len(prompt) == block:
            continue
        part, sure = rng.choice([1, 2, block]), rng.choice([0.2, 0.5, 0.9])
        options = {"block_size": block, "small_block_size": part, "max_new_tokens": block * 4, "threshold": sure}
        options |= {"min_len": len(prompt), "seq_len": torch.tensor([len(prompt)]), "reuse_k": 1}
        options |= {"mask_id": MASK, "stop_token": END}
        found = model(network).batch_sample(torch.tensor([prompt]), SimpleNamespace(pad_token_id=PAD), **options)
        text = found[0][len(prompt) :].tolist()
        monkeypatch.setattr(sub_blocks, "PART", part)
        assert ended(text, len(text)) == ours("sub_blocks", network, prompt, len(text), accept_probability=sure), seed
        seen |= {END in text, len(prompt) % block == 0, len(prompt) < block}
    assert seen == {False, True}


class Storing:
    """Our network as SDAR's sampler calls its model, and it says when to keep keys and values."""

    device = torch.device("cpu")

    def __init__(self, network: CausalNetwork) -> None:
        self.network, self.past = network, None

    def eval(self) -> None:
        """It is in that mode."""

    def __call__(
        self, ids: Tensor, attention_mask: Tensor, position_ids: Tensor, store_kv: bool, **_: Any
    ) -> SimpleNamespace:
        kept = Kept(self.past)
        logits = logits_of(self.network, ids, position_ids[0], attention_mask[0] == 1, kept)
        self.past: PAST | None = kept.joined if store_kv else self.past
        return SimpleNamespace(logits=logits)


def sdar_text(network: CausalNetwork, prompt: list[int], length: int, mask: int, end: int, **options: Any) -> list[int]:
    """The text that SDAR's sampler writes with the likeliest tokens in place of drawn ones."""
    theirs = authors.module(authors.SDAR, "generate.py", "sdar_generate")
    likeliest = SimpleNamespace(**vars(torch))
    likeliest.multinomial = lambda shares, **_: shares.argmax(dim=-1, keepdim=True)
    theirs.torch = likeliest
    given = {"input_ids": torch.tensor([prompt])}
    found = theirs.block_diffusion_generate(
        Storing(network), given, mask, length, stopping_criteria_idx=[end], **options
    )
    return ended(found[0, len(prompt) :].tolist(), length, end)


@torch.inference_mode()
@pytest.mark.parametrize("rule", ["low_confidence_dynamic", "low_confidence_static", "sequential"])
def test_sdar(rule: str) -> None:
    """In whole blocks, as theirs fills the last one; without its entropies, which its code takes of one probability.

    Where a block begins with prompt, theirs writes over that if a step has more tokens to write than there are masks.
    """
    for seed in range(RUNS):
        rng, network, prompt, length, block = case(seed)
        length += -(len(prompt) + length) % block
        steps, sure = block if len(prompt) % block else rng.randint(1, block), rng.choice([0.3, 0.5, 0.9])
        options = {"block_length": block, "denoising_steps": steps, "remasking_strategy": rule}
        text = sdar_text(network, prompt, length, MASK, END, confidence_threshold=sure, **options)
        same = {"canvas_length": block, "max_denoising_steps": steps, "accept_probability": sure, "remasking": rule}
        assert text == ours("block_causal", network, prompt, length, **same), seed


@torch.inference_mode()
def test_their_samplers_on_the_trained_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our tokens are theirs, and right."""
    monkeypatch.setattr(sub_blocks, "PART", fast_dllm.PART)
    edits, blocks = sampler("dllm.pipelines.llada21.sampler"), sampler("dllm.core.samplers.bd3lm")
    parts = authors.module(authors.FAST_DLLM_V2, "v2/generation_functions.py", "fast_dllm_v2")
    model = type("Model", (Sampled, parts.Fast_dLLM_QwenForCausalLM), {})
    right = dict.fromkeys(("rewriting", "bd3lm", "fast_dllm", "sdar"), 0)
    for seed in range(30):
        rng = random.Random(1000 + seed)
        network, asked = taught("rewriting"), rewriting.question(rng)
        options = {"block_size": rewriting.BLOCK, "max_new_tokens": 8, "threshold": 0.0, "editing_threshold": 0.0}
        own = tokens(rewriting.MASK, rewriting.END)
        found = edits.LLaDA21Sampler(Wrapped(network), own).sample([asked], eos_early_stop=True, **options)
        text = ended(found[0, len(asked) :].tolist(), 8, rewriting.END)
        same = {"accept_probability": 0.0, "edit_probability": 0.0, "eos_token_ids": (rewriting.END,)}
        assert text == ours("block_causal", network, asked, 8, banned_tokens=(rewriting.MASK,), **same)
        right["rewriting"] += is_right(asked, text[:-1])

        network, asked = taught("bd3lm"), sdar.question(rng, seed % 7)
        options = {"block_size": bd3lm.BLOCK, "steps_per_block": 4, "max_new_tokens": 16}
        found = blocks.BD3LMSampler(Wrapped(network), tokens(sdar.MASK, sdar.END)).sample([asked], **options)
        text = ended(found[0, -(-len(asked) // bd3lm.BLOCK) * bd3lm.BLOCK :].tolist(), 16, sdar.END)
        ends = {"eos_token_ids": (sdar.END,), "banned_tokens": (sdar.MASK,)}
        same = {"max_denoising_steps": 4, "remasking": "low_confidence_static"}
        assert text == ours("block_causal", network, asked, 16, **ends, **same)
        right["bd3lm"] += text == bd3lm.answer(asked)[:-1]

        network, asked = taught("fast_dllm"), sdar.question(rng, [0, 1, 2, 3, 4, 6][seed % 6])
        options = {"block_size": fast_dllm.BLOCK, "small_block_size": fast_dllm.PART, "max_new_tokens": 18}
        options |= {"threshold": 0.9, "min_len": len(asked), "seq_len": torch.tensor([len(asked)]), "reuse_k": 1}
        options |= {"mask_id": sdar.MASK, "stop_token": sdar.END}
        found = model(network).batch_sample(torch.tensor([asked]), SimpleNamespace(pad_token_id=PAD), **options)
        text = ended(found[0][len(asked) :].tolist(), 18, sdar.END)
        assert text == ours("sub_blocks", network, asked, 18, **ends)
        right["fast_dllm"] += text == sdar.answer(asked, 0, fast_dllm.BLOCK)

        network, asked = taught("sdar"), sdar.question(rng, seed % 7)
        options = {"block_length": sdar.BLOCK, "denoising_steps": sdar.BLOCK, "confidence_threshold": 0.85}
        text = sdar_text(network, asked, 16, sdar.MASK, sdar.END, **options)
        assert text == ours("block_causal", network, asked, 16, accept_probability=0.85, **ends)
        right["sdar"] += text == sdar.answer(asked, 0)
    assert min(right.values()) > 27
