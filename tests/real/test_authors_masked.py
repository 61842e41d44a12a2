"""Bidirectional decoding against its authors' own code, run on the same weights: greedy, token for token.

On request: ``pytest -m real``. The mask itself is never predicted here, as their code leaves it in the text then.
"""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from engine import GenerationConfig
from engine.decoding.generate import FUNCTIONS
from engine.decoding.performing import perform_all
from engine.decoding.run import Run
from engine.models.causal.network import CausalNetwork
from tests.engine import bidirectional as texts
from tests.engine.causal import masked_network
from tests.engine.taught import taught
from tests.real import authors

pytestmark = pytest.mark.real

MASK, RUNS = 8, 60


class Wrapped:
    """Our network as the authors' samplers call their model."""

    device = torch.device("cpu")

    def __init__(self, network: CausalNetwork) -> None:
        self.network = network

    def eval(self) -> None:
        """It is in that mode."""

    def __call__(self, input_ids: Tensor, *_masks: Any, **_options: Any) -> SimpleNamespace:
        logits = self.network.head(self.network.run(input_ids, torch.arange(input_ids.shape[1]), None))
        logits[..., self.network.config.mask_token_id] = -1e9
        return SimpleNamespace(logits=logits)


def ours(network: CausalNetwork, prompt: list[int], length: int, **changes: Any) -> list[int]:
    mask = network.config.mask_token_id
    assert mask is not None
    config = GenerationConfig(max_new_tokens=length, eos_token_ids=(), banned_tokens=(mask,)).replace(**changes)
    run = Run(network, torch.tensor(prompt), config, 0, None, network.new_cache())  # type: ignore[arg-type]
    *_, last = perform_all(network, FUNCTIONS["bidirectional"](run))  # type: ignore[arg-type]
    tokens: list[int] = last.tokens.tolist()  # type: ignore[union-attr]
    return tokens


def cases(
    shifts: bool = False, schedule: str = "even"
) -> Iterator[tuple[random.Random, CausalNetwork, list[int], int, int, int]]:
    """Networks, prompts, a length, its blocks, and the steps of each."""
    for seed in range(RUNS):
        rng = random.Random(seed)
        network = masked_network(
            seed, rng.choice([1.0, 2.0]), 1 + seed % 2, shifts_masks=shifts, mask_schedule=schedule
        )
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
    for rng, network, prompt, length, block, steps in cases():
        sure, x = rng.choice([None, 0.2, 0.5, 0.9]), torch.tensor([prompt])
        options = {"steps": steps * length // block, "gen_length": length, "block_length": block, "threshold": sure}
        found, _passes = theirs.generate(Wrapped(network), x, mask_id=MASK, **options)
        rule = {"remasking": "low_confidence_static", "max_denoising_steps": steps}
        if sure is not None:
            rule = {"remasking": "low_confidence_dynamic", "accept_probability": sure}
        assert found[0, len(prompt) :].tolist() == ours(network, prompt, length, canvas_length=block, **rule)


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
    for rng, network, prompt, length, _, _ in cases(shifts=True, schedule="floor"):
        rule, steps = rng.choice(list(rules)), rng.randint(1, length + 3)
        top_p, top_k = rng.choice([(None, None), (0.8, None), (None, 3)])
        settings = dream_settings(len(prompt) + length, steps, alg=rule, top_p=top_p, top_k=top_k)
        found = model(network)._sample(torch.tensor([prompt]), None, settings, lambda _, x, __: x, lambda _, __, y: y)
        assert found[0, len(prompt) :].tolist() == ours(
            network,
            prompt,
            length,
            remasking=rules[rule],
            canvas_length=length,
            max_denoising_steps=steps,
            sampling_top_p=top_p or 1.0,
            sampling_top_k=top_k or 0,
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
        for rng, network, prompt, length, block, _ in cases(shifts, "round"):
            length, steps = length - rng.randrange(2), rng.randint(1, length + 4)
            sampler = theirs.MDLMSampler(Wrapped(network), tokenizer)
            options = {"steps": steps, "block_size": block, "right_shift_logits": shifts}
            found = sampler.sample([prompt], max_new_tokens=length, temperature=0.0, **options)
            assert found[0, len(prompt) :].tolist() == ours(
                network,
                prompt,
                length,
                remasking="low_confidence_static",
                canvas_length=block,
                max_denoising_steps=-(-steps // -(-length // block)),
            )


@torch.inference_mode()
def test_rnd1() -> None:
    """Without an end token, which their code leaves a place for, and without cuts, which make its entropies NaN."""
    theirs = authors.module(authors.RND1, "rnd/sampling.py", "rnd1_sampling")
    for rng, network, prompt, length, _, _ in cases(shifts=True, schedule="ceil"):
        steps = rng.randint(1, length + 4)
        options = {"num_steps": steps, "mask_token_id": MASK, "eos_token_id": None, "device": "cpu"}
        found = theirs.diffusion_sample(
            Wrapped(network), len(prompt) + length, prefix_ids=torch.tensor(prompt), **options
        )
        assert found[0, len(prompt) :].tolist() == ours(
            network, prompt, length, canvas_length=length, max_denoising_steps=steps, remasking="entropy"
        )


@torch.inference_mode()
def test_trained_networks() -> None:
    """Authors answer the questions of our fixtures as we do, and right."""
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
        for name, found, rule, schedule in (
            ("llada", by_llada, "low_confidence_static", "even"),
            ("dream", by_dream, "entropy", "floor"),
            ("dream", by_rnd1, "entropy", "ceil"),
            ("llada", by_mdlm, "low_confidence_static", "round"),
        ):
            text, network = found[0, len(asked) :].tolist(), taught(name)
            network.config = replace(network.config, mask_schedule=schedule)
            assert text == ours(network, asked, length, **same, remasking=rule)
            assert texts.is_right(asked, text[: texts.COUNT])
