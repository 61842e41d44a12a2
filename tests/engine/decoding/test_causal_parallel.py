"""Causal parallel decoding (WeDLM) against one written for reading: no cache, everything computed again at each pass.

The definition: a pass reads all written text by rising place, then the masks by rising place, each row attending to the
rows up to itself and turned by its place in the text. The text that stands without a gap behind the committed one is
committed by that pass; of the masks those are written whose entropy plus penalty is below the threshold, else the
lowest. The window then stretches by as many masks as the next pass commits.
"""

from __future__ import annotations

import math
import random
import threading
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from engine import CanvasCommitted, CanvasStarted, GenerationConfig, GenerationFinished, SafelightError, StepFinished
from engine.config import LayerConfig
from engine.decoding.generate import DECODERS, generate, perform
from engine.decoding.protocols import Pass
from engine.events import PrefillFinished
from engine.layers.kv_cache import KVCache
from engine.models.causal.config import CausalConfig
from engine.models.causal.network import CausalNetwork
from engine.trace.index import Order
from tests.engine.tiny import network as diffusion_network

VOCABULARY, MASK, POSITIONS, BLOCK = 19, 17, 60, 6
RUNS = 200
CODES = {CanvasStarted: b"CANV", StepFinished: b"STEP", CanvasCommitted: b"COMM", PrefillFinished: b"PREF"}


def causal_network(seed: int, sharpness: float, **changes: Any) -> CausalNetwork:
    """A random network in fp32. sharpness: factor of its logits."""
    layer = LayerConfig("full_attention", 8, 2, 10_000.0, 1.0)
    shape = {
        "vocab_size": VOCABULARY, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 4,
        "layers": (layer,) * 2, "sliding_window": 1, "num_experts": 0, "top_k_experts": 0, "moe_intermediate_size": 0,
        "canvas_length": BLOCK, "max_position_embeddings": POSITIONS, "mask_token_id": MASK,
    }  # fmt: skip
    made = CausalNetwork(CausalConfig(**{**shape, **changes})).requires_grad_(False).eval()
    draws = torch.Generator().manual_seed(seed)
    for parameter in made.parameters():
        if parameter.dim() > 1:
            parameter.normal_(std=1.5 * parameter.shape[-1] ** -0.5, generator=draws)
        else:
            parameter.uniform_(0.6, 1.4, generator=draws)
    made.norm_weight.mul_(sharpness)
    return made


# --- the definition ----------------------------------------------------------------------------------------------


def plain_logits(network: CausalNetwork, ids: list[int], places: list[int]) -> Tensor:
    """Logits (T, V) of rows that each attend to the rows up to themselves, in plain torch."""
    weights, config = network.state_dict(), network.config
    count, size = len(ids), config.layers[0].head_dim

    def norm(x: Tensor, weight: Tensor) -> Tensor:
        return x / (x.square().mean(-1, keepdim=True) + config.rms_norm_eps).sqrt() * weight

    frequencies = config.layers[0].rope_theta ** (-torch.arange(0, size, 2).float() / size)
    angles = torch.tensor(places).float()[:, None] * frequencies  # (T, D/2)
    turn = torch.polar(torch.ones_like(angles), angles)

    def turned(x: Tensor) -> Tensor:  # (heads, T, D), pairs (i, i + D/2)
        pairs = torch.complex(x[..., : size // 2].contiguous(), x[..., size // 2 :].contiguous()) * turn
        return torch.cat([pairs.real, pairs.imag], dim=-1)

    hidden_rows = torch.ones(count, count).tril() == 0
    x = weights["embed_tokens.weight"][ids]
    for index in range(len(config.layers)):
        own = {
            name.removeprefix(f"layers.{index}."): tensor
            for name, tensor in weights.items()
            if name.startswith(f"layers.{index}.")
        }
        y = norm(x, own["input_layernorm.weight"])
        heads = {}
        for name in "qkv":
            rows = y @ own[f"self_attn.{name}_proj.weight"].T + own.get(f"self_attn.{name}_proj.bias", 0.0)
            heads[name] = rows.view(count, -1, size).transpose(0, 1)
            if f"self_attn.{name}_norm.weight" in own:
                heads[name] = norm(heads[name], own[f"self_attn.{name}_norm.weight"])
        groups = len(heads["q"]) // len(heads["k"])
        queries = turned(heads["q"])
        keys, values = turned(heads["k"]).repeat_interleave(groups, 0), heads["v"].repeat_interleave(groups, 0)
        shares = (queries @ keys.mT / math.sqrt(size)).masked_fill(hidden_rows, -torch.inf).softmax(-1)
        x = x + (shares @ values).transpose(0, 1).reshape(count, -1) @ own["self_attn.o_proj.weight"].T
        y = norm(x, own["post_attention_layernorm.weight"])
        gate, up = y @ own["mlp.gate_proj.weight"].T, y @ own["mlp.up_proj.weight"].T
        x = x + (gate * gate.sigmoid() * up) @ own["mlp.down_proj.weight"].T
    return norm(x, weights["norm.weight"]) @ weights.get("lm_head.weight", weights["embed_tokens.weight"]).T


@dataclass
class PlainPass:
    """What a pass did, by place in the generated text."""

    committed: int  # tokens, after it
    written: dict[int, int] = field(default_factory=dict)  # by it and all before it
    entropy: dict[int, float] = field(default_factory=dict)
    drawn: dict[int, int] = field(default_factory=dict)
    argmax: dict[int, int] = field(default_factory=dict)


def plain_draw(logits: Tensor, config: GenerationConfig, draws: torch.Generator) -> list[int]:
    """A token a row: of the top k, of these the top p, at the temperature."""
    if config.sampling_temperature == 0:
        return logits.argmax(-1).tolist()
    scaled = torch.full_like(logits, -torch.inf)
    for row, values in enumerate(logits):
        likeliest = sorted(range(len(values)), key=lambda token, values=values: -float(values[token]))
        kept = likeliest[: config.sampling_top_k or None]
        shares, taken = values[kept].softmax(-1).tolist(), 0.0
        for token, share in zip(kept, shares, strict=True):
            if taken < config.sampling_top_p:
                scaled[row, token] = values[token] / config.sampling_temperature
            taken += share
    return torch.multinomial(scaled.softmax(-1), 1, generator=draws)[:, 0].tolist()


def plain_run(
    network: CausalNetwork, prompt: list[int], config: GenerationConfig, seed: int
) -> tuple[list[PlainPass], str, list[int]]:
    """The passes, why the run ends, and the committed text, an end token with it."""
    draws = torch.Generator().manual_seed(seed)
    most = POSITIONS - len(prompt)
    written: dict[int, int] = {}  # by place in the generated text; the masks are the other places before ``end``
    base, end = 0, min(config.window, most)
    passes: list[PlainPass] = []
    while True:
        leading = 0
        while base + leading in written:
            leading += 1
        end = min(end + leading, most)
        masks = [place for place in range(base, end) if place not in written]
        order = sorted(written) + masks
        ids = prompt + [written.get(place, MASK) for place in order]
        logits = plain_logits(network, ids, [*range(len(prompt)), *(len(prompt) + place for place in order)])
        for _ in range(leading):
            base += 1
            if written[base - 1] in config.eos_token_ids or base >= config.max_new_tokens:
                reason = "eos" if written[base - 1] in config.eos_token_ids else "length"
                text = [written[place] for place in range(base)]
                return [*passes, PlainPass(base, dict(written))], reason, text
        if not masks:
            return [*passes, PlainPass(base, dict(written))], "length", [written[place] for place in range(base)]
        found = logits[-len(masks) :]
        entropies = torch.distributions.Categorical(logits=found).entropy().tolist()
        drawn = plain_draw(found, config, draws)
        penalised = [
            nats + config.distance_penalty * (place - masks[0]) for nats, place in zip(entropies, masks, strict=True)
        ]
        chosen = [row for row, nats in enumerate(penalised) if nats < config.entropy_threshold]
        for row in chosen or [penalised.index(min(penalised))]:
            written[masks[row]] = drawn[row]
        passes.append(
            PlainPass(
                base,
                dict(written),
                dict(zip(masks, entropies, strict=True)),
                dict(zip(masks, drawn, strict=True)),
                dict(zip(masks, found.argmax(-1).tolist(), strict=True)),
            )
        )


def plain_left_to_right(network: CausalNetwork, prompt: list[int], config: GenerationConfig) -> list[int]:
    """Greedy: the text and a mask behind it are read, and the mask's likeliest token is the next one."""
    text: list[int] = []
    while len(text) < config.max_new_tokens and not (text and text[-1] in config.eos_token_ids):
        ids = [*prompt, *text, MASK]
        text.append(int(plain_logits(network, ids, list(range(len(ids))))[-1].argmax()))
    return text


# --- runs --------------------------------------------------------------------------------------------------------


def run_of(
    network: CausalNetwork, prompt: list[int], config: GenerationConfig, seed: int, cache: KVCache, passes: int
) -> list[Any]:
    """The events, and behind those of each pass how long the text in the cache is; cancelled after so many passes."""
    cancel, done, items = threading.Event(), -1, list[Any]()
    for item in DECODERS["causal_parallel"](network, torch.tensor(prompt), config, seed, cancel, cache):  # type: ignore[arg-type]
        if isinstance(item, Pass):
            assert not cancel.is_set()
            perform(network, item)  # type: ignore[arg-type]
        else:
            items.append(item)
        done += isinstance(item, PrefillFinished) or (isinstance(item, Pass) and done >= 0)
        if done >= passes:
            cancel.set()
    return items


def check_events(events: list[Any], passes: list[PlainPass], length: int) -> None:
    """See that steps tell the passes, block by block, and in an order that a trace can hold."""
    order, told, opened = Order(False), -1, -1
    for event in events[:-1]:
        block = getattr(event, "block_index", -1)
        assert order.allows(CODES[type(event)], block, getattr(event, "step", -1))
        places = range(block * length, (block + 1) * length)
        if isinstance(event, CanvasStarted):
            assert (event.filler, opened := opened + 1) == (MASK, block)
        elif isinstance(event, StepFinished):
            told += bool(event.seconds)  # a pass is told again, without its seconds, where it went on into a block
            now = passes[told]
            canvas = [now.written.get(place, MASK) for place in places]
            assert event.next_canvas.tolist() == canvas
            assert event.accepted_mask.tolist() == [place in now.written for place in places]
            both = list(zip(places, canvas, strict=True))
            assert event.candidates.tolist() == [now.drawn.get(place, token) for place, token in both]
            assert event.argmax_canvas.tolist() == [now.argmax.get(place, token) for place, token in both]
            assert event.entropy.tolist() == pytest.approx([now.entropy.get(place, 0.0) for place in places], abs=1e-4)
    assert told == len(passes) - 1


def test_two_hundred_runs_against_the_definition() -> None:
    seen, most_written = set(), 0
    for seed in range(RUNS):
        rng = random.Random(seed)
        network = causal_network(
            seed, rng.choice([0.5, 2.0, 6.0]),
            query_key_norm=rng.random() < 0.5, attention_bias=rng.random() < 0.5, tied=rng.random() < 0.5,
        )  # fmt: skip
        config = GenerationConfig(
            window=rng.randint(1, 8),
            entropy_threshold=rng.choice([0.0, 0.4, 1.0, 2.0, 50.0]),
            distance_penalty=rng.choice([0.0, 0.02, 0.5]),
            sampling_temperature=rng.choice([0.0, 0.0, 0.2, 1.0]),
            sampling_top_k=rng.choice([0, 4]),
            sampling_top_p=rng.choice([1.0, 0.7]),
            max_new_tokens=rng.randint(1, 14),
            eos_token_ids=tuple(rng.sample(range(VOCABULARY), rng.choice([0, 1, 2]))),
            canvas_length=rng.choice([None, 1, 2, 40]),
        )
        crowded = rng.random() < 0.1  # the model's positions end before the text may
        prompt = [rng.randrange(VOCABULARY) for _ in range(rng.randint(50, 59) if crowded else rng.randint(1, 12))]
        expected, reason, text = plain_run(network, prompt, config, seed)

        cache = network.new_cache()
        events = run_of(network, prompt, config, seed, cache, passes=10_000)
        check_events(events, expected, config.canvas_length or BLOCK)
        last = events[-1]
        shown = text[: len(text) - (reason == "eos")]
        assert (last.reason, last.tokens.tolist(), last.steps) == (reason, shown, len(expected))
        commits = [event for event in events if isinstance(event, CanvasCommitted)]
        told = [token for event in commits for token in event.tokens[: event.text_length].tolist()]
        assert (told, len(commits)) == (shown, last.blocks)

        assert cache.shared([*prompt, *text]) == cache.length == len(prompt) + len(text)
        fresh = network.new_cache()
        network.prefill(torch.tensor([*prompt, *text]), fresh)
        for layer in range(2):
            for found, wanted in zip(cache.buffers(layer), fresh.buffers(layer), strict=True):
                assert (found - wanted)[:, :, : cache.length].abs().max() < 1e-5
        if config.window == 1 and config.sampling_temperature == 0 and not crowded:
            assert text == plain_left_to_right(network, prompt, config)

        stop = rng.randrange(len(expected))  # cancelled behind this many passes; the cache is the one of the run before
        events = run_of(network, prompt, config, seed, cache, passes=stop)
        committed = expected[stop - 1].committed if stop else 0
        assert cache.shared([*prompt, *text[:committed]]) == cache.length == len(prompt) + committed
        check_events(events, expected[:stop], config.canvas_length or BLOCK)
        whole = committed // (config.canvas_length or BLOCK) * (config.canvas_length or BLOCK)
        assert (events[-1].reason, events[-1].tokens.tolist()) == ("cancelled", text[:whole])
        assert events[0].reused_tokens == len(prompt)

        seen |= {reason, f"window {config.window}", f"room {crowded}"}
        most_written = max(most_written, len(expected[0].written))
    assert most_written == 8
    assert len(seen) == 12


def test_what_it_cannot_decode_is_said_in_a_line() -> None:
    prompt, made = [1, 2, 3], causal_network(0, 1.0)
    for network, settings, message in (
        (diffusion_network(), {}, "no mask token"),
        (causal_network(0, 1.0, mask_token_id=None), {}, "no mask token"),
        (made, {"pinned": ((0, 1),)}, "leave out pinned"),
        (made, {"banned_tokens": (VOCABULARY,)}, f"token id {VOCABULARY}"),
        (made, {"banned_tokens": tuple(range(VOCABULARY))}, "leave at least one"),
    ):
        with pytest.raises(SafelightError, match=message):
            list(generate(network, prompt, GenerationConfig(**settings), decoder="causal_parallel"))  # type: ignore[arg-type]
    with pytest.raises(SafelightError, match=f"{POSITIONS} positions"):
        list(generate(made, [1] * POSITIONS, decoder="causal_parallel"))  # type: ignore[arg-type]
    events = list(
        generate(
            made, prompt, GenerationConfig(allowed_tokens=(5,), max_new_tokens=3, top_k=64), decoder="causal_parallel"
        )
    )  # type: ignore[arg-type]
    assert isinstance(events[-1], GenerationFinished)
    assert events[-1].tokens.tolist() == [5, 5, 5]
    assert max(float(event.top_probabilities[0, 0]) for event in events if isinstance(event, StepFinished)) == 1.0
