"""Bidirectional decoding against its authors' own code, run on the same weights: greedy, token for token.

On request: ``pytest -m real``. The mask itself is never predicted here, as their code leaves it in the text then.
"""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from engine import GenerationConfig
from engine.decoding.generate import DECODERS
from engine.decoding.performing import perform_all
from engine.decoding.run import Run
from engine.layers.attention import Extend
from engine.models.causal.network import CausalNetwork
from tests.engine import bidirectional as texts
from tests.engine.causal import masked_network
from tests.engine.taught import taught
from tests.real import authors

pytestmark = pytest.mark.real

MASK, RUNS = 8, 60
PAST = list[tuple[Tensor, Tensor]]


class Kept:
    """Keys and values of a pass, joined to those of earlier rows, each (1, heads, T, D)."""

    def __init__(self, past: PAST | None, places: Tensor | None) -> None:
        self.past, self.places, self.layers = past, places, PAST()

    def writer(self, index: int) -> Extend:
        def extend(*new: Tensor) -> tuple[Tensor, Tensor]:
            if self.past is None:
                keys, values = new
            elif self.places is None:
                keys, values = (torch.cat(pair, dim=2) for pair in zip(self.past[index], new, strict=True))
            else:
                keys, values = (
                    old.index_copy(2, self.places, one) for old, one in zip(self.past[index], new, strict=True)
                )
            self.layers.append((keys, values))
            return keys, values

        return extend


class Wrapped:
    """Our network as the authors' samplers call their model."""

    device = torch.device("cpu")

    def __init__(self, network: CausalNetwork, time_first: bool = False) -> None:
        self.network, self.time_first = network, time_first

    def eval(self) -> None:
        """It is in that mode."""

    def __call__(
        self,
        input_ids: Tensor,
        *_masks: Any,
        past_key_values: Any = None,
        replace_position: Tensor | None = None,
        **_options: Any,
    ) -> SimpleNamespace:
        past = None if past_key_values is None else [self._turned(pair, back=True) for pair in past_key_values]
        places = None if replace_position is None else replace_position[0].nonzero()[:, 0]
        start = 0 if past is None else past[0][0].shape[2]
        kept = Kept(past, places)
        positions = torch.arange(start, start + input_ids.shape[1]) if places is None else places
        logits = self.network.head(self.network.run(input_ids, positions, None, kept))
        logits[..., self.network.config.mask_token_id] = -1e9
        return SimpleNamespace(logits=logits, past_key_values=[self._turned(pair) for pair in kept.layers])

    def _turned(self, pair: tuple[Tensor, Tensor], back: bool = False) -> tuple[Tensor, Tensor]:
        """Keys and values as (1, T, heads * D), as Dream has them, or back."""
        if not self.time_first:
            return pair
        heads = self.network.config.layers[0].num_key_value_heads
        first, second = (
            one.unflatten(2, (heads, -1)).transpose(1, 2) if back else one.transpose(1, 2).flatten(2) for one in pair
        )
        return first, second


def ours(network: CausalNetwork, prompt: list[int], length: int, **changes: Any) -> list[int]:
    mask = network.config.mask_token_id
    assert mask is not None
    config = GenerationConfig(max_new_tokens=length, eos_token_ids=(), banned_tokens=(mask,)).replace(**changes)
    run = Run(network, torch.tensor(prompt), config, 0, None, network.new_cache())  # type: ignore[arg-type]
    *_, last = perform_all(network, DECODERS["bidirectional"](run))  # type: ignore[arg-type]
    tokens: list[int] = last.tokens.tolist()  # type: ignore[union-attr]
    return tokens


def cases(shifts: bool = False) -> Iterator[tuple[random.Random, CausalNetwork, list[int], int, int, int]]:
    """Networks, prompts, a length, its blocks, and the steps of each."""
    for seed in range(RUNS):
        rng = random.Random(seed)
        network = masked_network(seed, rng.choice([1.0, 2.0]), 1 + seed % 2, shifts_masks=shifts)
        prompt = [rng.randrange(8) for _ in range(rng.randint(1, 12))]
        block, count = rng.randint(2, 9), rng.randint(1, 4)
        yield rng, network, prompt, block * count, block, rng.randint(2, block + 1)


@torch.inference_mode()
def test_llada() -> None:
    theirs = authors.module(authors.LLADA, "generate.py", "llada_generate")
    for _, network, prompt, length, block, steps in cases():
        x = torch.tensor([prompt])
        seen = torch.ones_like(x)
        count = steps * length // block
        found = theirs.generate(Wrapped(network), x, seen, count, length, block, 0.0, 0.0, mask_id=MASK)
        same = {"canvas_length": block, "max_denoising_steps": steps}
        assert found[0, len(prompt) :].tolist() == ours(
            network, prompt, length, remasking="low_confidence_static", **same
        )


@torch.inference_mode()
def test_fast_dllm_on_llada() -> None:
    sys.modules["model"] = ModuleType("model")
    sys.modules["model.modeling_llada"] = stub = ModuleType("model.modeling_llada")
    stub.LLaDAModelLM = None  # type: ignore[attr-defined]
    theirs = authors.module(authors.FAST_DLLM, "llada/generate.py", "fast_dllm_llada_generate")
    for name, cache in (("", ""), ("_with_prefix_cache", "prefix"), ("_with_dual_cache", "dual")):
        for rng, network, prompt, length, block, steps in cases():
            sure, x = rng.choice([None, 0.2, 0.5, 0.9]), torch.tensor([prompt])
            options = {"steps": steps * length // block, "gen_length": length, "block_length": block, "threshold": sure}
            found, _passes = getattr(theirs, f"generate{name}")(Wrapped(network), x, mask_id=MASK, **options)
            rule = {"remasking": "low_confidence_static", "max_denoising_steps": steps}
            if sure is not None:
                rule = {"remasking": "low_confidence_dynamic", "accept_probability": sure}
            assert found[0, len(prompt) :].tolist() == ours(
                network, prompt, length, canvas_length=block, block_cache=cache, **rule
            )


def dream_settings(length: int, steps: int, **changes: Any) -> SimpleNamespace:
    own = {"output_history": False, "return_dict": False, "return_dict_in_generate": False, "eps": 1e-3}
    own |= {"mask_token_id": MASK, "temperature": 0.0, "top_p": None, "top_k": None, "alg_temp": None}
    return SimpleNamespace(**own | {"max_length": length, "steps": steps} | changes)


def first_of_equals(scores: Tensor, count: int, **_: Any) -> tuple[Tensor, Tensor]:
    """``torch.topk``, which may take any of equal scores: here the first ones, as ours."""
    values, places = scores.sort(descending=True, stable=True, dim=-1)
    return values[..., :count], places[..., :count]


@torch.inference_mode()
def test_dream(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of the text in one block; its cuts act at temperature 0, too, so that several masks are wholly sure."""
    monkeypatch.setattr(torch, "topk", first_of_equals)
    theirs = authors.module(authors.DLLM, "dllm/pipelines/dream/models/generation_utils.py", "dream_generation_utils")
    model = type("Model", (Wrapped, theirs.DreamGenerationMixin), {})
    rules = {"maskgit_plus": "low_confidence_static", "topk_margin": "topk_margin", "entropy": "entropy"}
    for rng, network, prompt, length, _, _ in cases(shifts=True):
        rule, steps = rng.choice(list(rules)), rng.randint(1, length + 3)
        top_p, top_k = rng.choice([(None, None), (0.8, None), (None, 3)])
        settings = dream_settings(len(prompt) + length, steps, alg=rule, top_p=top_p, top_k=top_k)
        found = model(network)._sample(torch.tensor([prompt]), None, settings, lambda _, x, __: x, lambda _, __, y: y)
        assert found[0, len(prompt) :].tolist() == ours(
            network,
            prompt,
            length,
            remasking=rules[rule],
            schedule="floor",
            canvas_length=length,
            max_denoising_steps=steps,
            sampling_top_p=top_p or 1.0,
            sampling_top_k=top_k or 0,
        )


@torch.inference_mode()
def test_fast_dllm_on_dream() -> None:
    path = "dream/model/generation_utils_block.py"
    theirs = authors.module(authors.FAST_DLLM, path, "fast_dllm_dream_generation_utils")
    model = type("Model", (Wrapped, theirs.DreamGenerationMixin), {})
    for rng, network, prompt, length, block, steps in cases(shifts=True):
        for cache in ("prefix", "dual"):
            rule, sure = rng.choice(["confidence_threshold", "entropy"]), rng.choice([0.2, 0.5, 0.9])
            settings = dream_settings(len(prompt) + length, steps * length // block, alg=rule)
            x, options = (
                torch.tensor([prompt]),
                {"threshold": sure, "block_length": block, "dual_cache": cache == "dual"},
            )
            found = model(network, time_first=True)._sample(x, None, settings, **options)
            named = {"remasking": "entropy", "schedule": "floor", "max_denoising_steps": steps}
            if rule != "entropy":
                named = {"remasking": "low_confidence_dynamic", "accept_probability": sure}
            assert found[0, len(prompt) :].tolist() == ours(
                network, prompt, length, canvas_length=block, block_cache=cache, **named
            )


def mdlm_of_dllm() -> Any:
    """The module of dllm's sampler of whole texts."""
    for name in ("dllm", "dllm.core", "dllm.core.samplers"):
        authors.package(authors.DLLM, name.replace(".", "/"), name)
    return importlib.import_module("dllm.core.samplers.mdlm")


@torch.inference_mode()
def test_mdlm_of_dllm() -> None:
    theirs = mdlm_of_dllm()
    tokenizer = SimpleNamespace(mask_token_id=MASK, bos_token_id=0, eos_token_id=7)
    for shifts in (False, True):
        for rng, network, prompt, length, block, _ in cases(shifts):
            length, steps = length - rng.randrange(2), rng.randint(1, length + 4)
            sampler = theirs.MDLMSampler(Wrapped(network), tokenizer)
            options = {"steps": steps, "block_size": block, "right_shift_logits": shifts}
            found = sampler.sample([prompt], max_new_tokens=length, temperature=0.0, **options)
            assert found[0, len(prompt) :].tolist() == ours(
                network,
                prompt,
                length,
                remasking="low_confidence_static",
                schedule="round",
                canvas_length=block,
                max_denoising_steps=-(-steps // -(-length // block)),
            )


@torch.inference_mode()
def test_rnd1() -> None:
    """Without an end token, which their code leaves a place for, and without cuts, which make its entropies NaN."""
    theirs = authors.module(authors.RND1, "rnd/sampling.py", "rnd1_sampling")
    for rng, network, prompt, length, _, _ in cases(shifts=True):
        steps = rng.randint(1, length + 4)
        options = {"num_steps": steps, "mask_token_id": MASK, "eos_token_id": None, "device": "cpu"}
        found = theirs.diffusion_sample(
            Wrapped(network), len(prompt) + length, prefix_ids=torch.tensor(prompt), **options
        )
        same = {"remasking": "entropy", "schedule": "ceil"}
        assert found[0, len(prompt) :].tolist() == ours(
            network, prompt, length, canvas_length=length, max_denoising_steps=steps, **same
        )


@torch.inference_mode()
def test_trained_networks() -> None:
    """Their samplers answer the questions of our fixtures, too: as ours, and right."""
    llada = authors.module(authors.LLADA, "generate.py", "llada_generate")
    dream = authors.module(authors.DLLM, "dllm/pipelines/dream/models/generation_utils.py", "dream_generation_utils")
    rnd1 = authors.module(authors.RND1, "rnd/sampling.py", "rnd1_sampling")
    tokenizer = SimpleNamespace(mask_token_id=texts.MASK, bos_token_id=0, eos_token_id=texts.END)
    mdlm = mdlm_of_dllm().MDLMSampler(Wrapped(taught("llada")), tokenizer)
    model = type("Model", (Wrapped, dream.DreamGenerationMixin), {})
    for seed in range(20):
        asked = texts.question(random.Random(seed))
        x, length = torch.tensor([asked]), texts.LENGTH - len(asked)
        settings = dream_settings(texts.LENGTH, length, alg="entropy", mask_token_id=texts.MASK)
        options = {"num_steps": length, "mask_token_id": texts.MASK, "eos_token_id": None, "device": "cpu"}
        by_llada = llada.generate(Wrapped(taught("llada")), x, None, length, length, length, mask_id=texts.MASK)
        by_dream = model(taught("dream"))._sample(x, None, settings, lambda _, x, __: x, lambda _, __, logits: logits)
        by_rnd1 = rnd1.diffusion_sample(Wrapped(taught("dream")), texts.LENGTH, prefix_ids=x[0], **options)
        by_mdlm = mdlm.sample([asked], max_new_tokens=length, temperature=0.0, steps=length, block_size=length)
        same = {"canvas_length": length, "max_denoising_steps": length}
        for name, found, rule in (
            ("llada", by_llada, {"remasking": "low_confidence_static"}),
            ("dream", by_dream, {"remasking": "entropy", "schedule": "floor"}),
            ("dream", by_rnd1, {"remasking": "entropy", "schedule": "ceil"}),
            ("llada", by_mdlm, {"remasking": "low_confidence_static", "schedule": "round"}),
        ):
            text = found[0, len(asked) :].tolist()
            assert text == ours(taught(name), asked, length, **same, **rule)
            assert texts.is_right(asked, text[: texts.COUNT])
