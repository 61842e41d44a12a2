"""Causal parallel decoding (WeDLM) against one written for reading: no cache, everything computed again at each pass.

The definition: a pass reads all written text by rising place, then the masks by rising place, each row attending to the
rows up to itself and turned by its place in the text. The text that stands without a gap behind the committed one is
committed by that pass; of the masks those are written whose entropy plus penalty is below the threshold, else the
lowest. The window then stretches by as many masks as the next pass commits.
"""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from engine import CanvasCommitted, CanvasStarted, GenerationConfig, GenerationFinished, SafelightError, StepFinished
from engine.config import LayerConfig
from engine.decoding import causal_parallel
from engine.decoding.generate import FUNCTIONS
from engine.decoding.performing import perform, perform_all
from engine.decoding.protocols import Pass
from engine.decoding.run import Run
from engine.events import Event, PrefillFinished
from engine.layers.kv_cache import KVCache
from engine.models.causal.config import CausalConfig
from engine.models.causal.network import CausalNetwork
from engine.trace.index import Order
from tests.engine.tiny import all_but
from tests.engine.tiny import network as diffusion_network

VOCABULARY, MASK, PAD, POSITIONS, BLOCK = 19, 17, 3, 60, 6
CODES = {CanvasStarted: b"CANV", StepFinished: b"STEP", CanvasCommitted: b"COMM", PrefillFinished: b"PREF"}


@cache
def causal_network(
    query_key_norm: bool = True, bias: bool = False, tied: bool = False, mask: int | None = MASK
) -> CausalNetwork:
    """A random network in fp32."""
    layer = LayerConfig("full_attention", 8, 2, 10_000.0, 1.0)
    shape: dict[str, Any] = {
        "vocab_size": VOCABULARY, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 4,
        "layers": (layer,) * 2, "sliding_window": 1, "num_experts": 0, "top_k_experts": 0, "moe_intermediate_size": 0,
        "canvas_length": BLOCK, "max_position_embeddings": POSITIONS, "mask_token_id": mask,
        "query_key_norm": query_key_norm, "attention_bias": bias, "tied": tied,
    }  # fmt: skip
    made = CausalNetwork(CausalConfig(**shape)).requires_grad_(False).eval()
    draws = torch.Generator().manual_seed(0)
    for parameter in made.parameters():
        if parameter.dim() > 1:
            parameter.normal_(std=1.5 * parameter.shape[-1] ** -0.5, generator=draws)
        else:
            parameter.uniform_(0.6, 1.4, generator=draws)
    return made


# --- the definition ----------------------------------------------------------------------------------------------


@torch.inference_mode()
def plain_logits(network: CausalNetwork, ids: list[int], places: list[int]) -> Tensor:
    """Logits (T, V) of rows that each attend to the rows up to themselves."""
    earlier = torch.ones(len(ids), len(ids), dtype=torch.bool).tril()
    return network.head(network.run(torch.tensor([ids]), torch.tensor(places), earlier)[0])


@dataclass
class PlainPass:
    """A pass, by place in the generated text."""

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
    for row, likeliest in enumerate(logits.argsort(descending=True)[:, : config.sampling_top_k or None]):
        shares = logits[row, likeliest].softmax(-1).tolist()
        kept = [token for rank, token in enumerate(likeliest) if sum(shares[:rank]) < config.sampling_top_p]
        scaled[row, kept] = logits[row, kept] / config.sampling_temperature
    return torch.multinomial(scaled.softmax(-1), 1, generator=draws)[:, 0].tolist()


def plain_run(
    network: CausalNetwork, prompt: list[int], config: GenerationConfig, seed: int
) -> tuple[list[PlainPass], str, list[int]]:
    """The passes, why the run ends, and the committed text, an end token with it."""
    draws = torch.Generator().manual_seed(seed)
    most = POSITIONS - len(prompt)
    written: dict[int, int] = {}  # by place in the generated text; the masks are the other places before ``end``
    base, end = 0, min(causal_parallel.WINDOW, most)
    passes: list[PlainPass] = []
    while True:
        leading = 0
        while base + leading in written:
            leading += 1
        end = min(end + leading, most)
        masks = [place for place in range(base, end) if place not in written]
        for _ in range(leading):
            base += 1
            if written[base - 1] in config.eos_token_ids or base >= config.max_new_tokens:
                reason = "eos" if written[base - 1] in config.eos_token_ids else "length"
                text = [written[place] for place in range(base)]
                return [*passes, PlainPass(base, dict(written))], reason, text
        if not masks:
            return [*passes, PlainPass(base, dict(written))], "length", [written[place] for place in range(base)]
        order = sorted(written) + masks
        ids = prompt + [written.get(place, MASK) for place in order]
        logits = plain_logits(network, ids, [*range(len(prompt)), *(len(prompt) + place for place in order)])
        found = logits[-len(masks) :]
        entropies = torch.special.entr(found.softmax(-1)).sum(-1).tolist()
        drawn = plain_draw(found, config, draws)
        penalised = [
            nats + causal_parallel.DISTANCE_PENALTY * (place - masks[0])
            for nats, place in zip(entropies, masks, strict=True)
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


# --- runs --------------------------------------------------------------------------------------------------------


def run_of(
    network: CausalNetwork, prompt: list[int], config: GenerationConfig, seed: int, held: KVCache, passes: int
) -> list[Any]:
    """The events of a run that is cancelled after so many passes."""
    cancel, done, items = threading.Event(), -1, list[Any]()
    for item in FUNCTIONS["causal_parallel"](Run(network, torch.tensor(prompt), config, seed, cancel, held)):  # type: ignore[arg-type]
        if isinstance(item, Pass):
            assert not cancel.is_set()
            perform(network, item)  # type: ignore[arg-type]
        else:
            items.append(item)
        done += isinstance(item, PrefillFinished) or (isinstance(item, Pass) and done >= 0)
        if done >= passes:
            cancel.set()
    return items


def check_events(events: list[Any], passes: list[PlainPass], length: int, text: list[int]) -> None:
    """See that steps show the passes, block by block, and in an order that a trace can hold.

    Args:
        text: all that is committed, an end token with it.
    """
    order, number, started = Order(False), -1, None
    for event in events[:-1]:
        block = getattr(event, "block_index", -1)
        assert order.allows(CODES[type(event)], block, getattr(event, "step", -1))
        places = range(block * length, (block + 1) * length)
        if isinstance(event, CanvasStarted):
            assert (event.filler, event.pinned_mask.any()) == (MASK, False)
            started = event
        elif isinstance(event, StepFinished):
            number += bool(event.seconds)  # a pass comes again, without its seconds, where it filled further blocks
            now = passes[number]
            if event.step == 0:
                before = passes[number - 1].written if number else {}
                assert started is not None
                assert started.canvas.tolist() == [before.get(place, MASK) for place in places]
            canvas = [now.written.get(place, MASK) for place in places]
            assert event.next_canvas.tolist() == canvas
            assert event.accepted_mask.tolist() == [place in now.written for place in places]
            both = list(zip(places, canvas, strict=True))
            assert event.candidates.tolist() == [now.drawn.get(place, token) for place, token in both]
            assert event.argmax_canvas.tolist() == [now.argmax.get(place, token) for place, token in both]
            assert np.abs(event.entropy - [now.entropy.get(place, 0.0) for place in places]).max() < 1e-4
        elif isinstance(event, CanvasCommitted):
            assert event.tokens.tolist() == [text[place] if place < len(text) else PAD for place in places]
    assert number == len(passes) - 1


@pytest.mark.parametrize("runs", [30, pytest.param(200, marks=pytest.mark.slow)])
def test_runs_against_the_definition(runs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, most_written = set(), 0
    for seed in range(runs):
        rng = random.Random(seed)
        network = causal_network(*(rng.random() < 0.5 for _ in range(3)))
        network.norm_weight.fill_(rng.choice([0.5, 2.0, 6.0]))  # from vague to sharp
        window = rng.randint(1, 8)
        monkeypatch.setattr(causal_parallel, "WINDOW", window)
        monkeypatch.setattr(causal_parallel, "DISTANCE_PENALTY", rng.choice([0.0, 0.02, 0.5]))
        config = GenerationConfig(
            entropy_threshold=rng.choice([0.0, 0.4, 1.5, 2.5, 50.0]),
            sampling_temperature=rng.choice([0.0, 0.0, 0.2, 1.0]),
            sampling_top_k=rng.choice([0, 4]),
            sampling_top_p=rng.choice([1.0, 0.7]),
            max_new_tokens=rng.randint(1, 9),
            eos_token_ids=tuple(rng.sample(range(VOCABULARY), rng.choice([0, 1, 2]))),
            pad_token_id=PAD,
            canvas_length=rng.choice([None, 1, 3, 20]),
        )
        length = config.canvas_length or BLOCK
        crowded = rng.random() < 0.1  # the model's positions end before the text may
        prompt = [rng.randrange(VOCABULARY) for _ in range(rng.randint(50, 59) if crowded else rng.randint(1, 12))]
        expected, reason, text = plain_run(network, prompt, config, seed)

        cache = network.new_cache()
        events = run_of(network, prompt, config, seed, cache, passes=10_000)
        check_events(events, expected, length, text)
        last = events[-1]
        shown = text[: len(text) - (reason == "eos")]
        assert (last.reason, last.tokens.tolist(), last.steps) == (reason, shown, len(expected))
        commits = [event for event in events if isinstance(event, CanvasCommitted)]
        kept = [token for event in commits for token in event.tokens[: event.text_length].tolist()]
        assert (kept, len(commits)) == (shown, last.blocks)

        assert cache.shared([*prompt, *text]) == cache.length == len(prompt) + len(text)
        if seed % 2:
            fresh = network.new_cache()
            network.prefill(torch.tensor([*prompt, *text]), fresh)
            for layer in range(2):
                for found, wanted in zip(cache.buffers(layer), fresh.buffers(layer), strict=True):
                    assert (found - wanted)[:, :, : cache.length].abs().max() < 1e-5

        seen |= {reason, f"window {window}", f"room {crowded}"}
        most_written = max(most_written, len(expected[0].written))
        if seed % 5:
            continue
        stop = rng.randrange(len(expected))  # cancelled behind this many passes; the cache is the one of the run before
        events = run_of(network, prompt, config, seed, cache, passes=stop)
        committed = expected[stop - 1].committed if stop else 0
        assert cache.shared([*prompt, *text[:committed]]) == cache.length == len(prompt) + committed
        check_events(events, expected[:stop], length, text)
        assert (events[-1].reason, events[-1].tokens.tolist()) == ("cancelled", text[: committed // length * length])
        assert events[0].reused_tokens == len(prompt)
    assert most_written == 8
    assert len(seen) == 12


def test_what_it_cannot_decode_is_said_in_a_line() -> None:
    made = causal_network()

    def events_of(network: Any, prompt: list[int], **settings: Any) -> list[Event]:
        run = Run(network, torch.tensor(prompt), GenerationConfig(**settings), 0, None, network.new_cache())
        return list(perform_all(network, FUNCTIONS["causal_parallel"](run)))

    for network, prompt, settings, message in (
        (diffusion_network(), [1], {}, "no mask token"),
        (causal_network(mask=None), [1], {}, "no mask token"),
        (made, [1] * POSITIONS, {}, f"{POSITIONS} positions"),
        (made, [1], {"pinned": ((0, 1),)}, "leave out pinned"),
        (made, [1], {"banned_tokens": (VOCABULARY,)}, f"token id {VOCABULARY}"),
        (made, [1], {"banned_tokens": tuple(range(VOCABULARY))}, "leave at least one"),
    ):
        with pytest.raises(SafelightError, match=message):
            events_of(network, prompt, **settings)
    events = events_of(made, [1], banned_tokens=all_but(5, of=VOCABULARY), max_new_tokens=3, top_k=64)
    assert isinstance(events[-1], GenerationFinished)
    assert events[-1].tokens.tolist() == [5, 5, 5]
    steps = [event for event in events if isinstance(event, StepFinished) and event.top_probabilities is not None]
    assert [step.top_probabilities[0, 0] for step in steps] == [1.0, 1.0]
