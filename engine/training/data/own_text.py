"""Text that a model writes itself, many answers at once, to train its draft on. Resumable: one file for each batch."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

from engine.config import GenerationConfig
from engine.decoding.shares import TRANSFORMERS, shares_of
from engine.layers.attention import Extend
from engine.models.causal.network import CausalNetwork
from engine.models.model import Model
from engine.training.data.prompts import draw_prompt
from engine.weights.saving import save_whole

SETTINGS = (  # temperature, top-p, repetition penalty: of greedy text, of the app's own, of freer ones
    (0.0, 1.0, 1.0),
    (0.0, 1.0, 1.1),
    (0.2, 0.9, 1.1),
    (0.8, 0.95, 1.0),
)
LIKELIEST = 64  # tokens that one is drawn from: sorting a whole vocabulary takes longer than the pass


@dataclass(frozen=True)
class OwnText:
    """A conversation's token ids (T,) int64, of which the first ``prompt`` are given and the rest were written."""

    ids: Tensor
    prompt: int


def write_texts(model: Model, folder: Path, batches: int, batch: int, most_tokens: int, seed: int) -> Iterator[int]:
    """Writes answers to drawn prompts until ``folder`` has so many batches; yields how many it has after each."""
    assert isinstance(model.network, CausalNetwork), "refused before"
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(batches):
        path = folder / f"{number:05}.safetensors"
        if not path.exists():
            rng = random.Random(f"{seed}-{number}")
            prompts = [model.chat_ids([{"role": "user", "content": draw_prompt(rng)}]) for _ in range(batch)]
            temperature, top_p, penalty = SETTINGS[number % len(SETTINGS)]
            config = model.generation_defaults.replace(
                sampling_temperature=temperature, sampling_top_p=top_p, repetition_penalty=penalty
            )
            texts = answer_all(
                model.network, prompts, config, most_tokens, torch.Generator().manual_seed(seed + number)
            )
            tensors = {"ids": torch.cat([text.ids for text in texts]).int()}
            tensors["lengths"] = torch.tensor([len(text.ids) for text in texts])
            tensors["prompts"] = torch.tensor([text.prompt for text in texts])
            save_whole(path, tensors, {})
        yield number + 1


def read_texts(folder: Path) -> list[OwnText]:
    """Reads all texts of a folder, in order."""
    found: list[OwnText] = []
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, framework="pt") as opened:
            ids, lengths, prompts = (opened.get_tensor(name) for name in ("ids", "lengths", "prompts"))
        parts = ids.long().split(lengths.tolist())
        found += [OwnText(part, prompt) for part, prompt in zip(parts, prompts.tolist(), strict=True)]
    return found


@torch.inference_mode()
def answer_all(
    network: CausalNetwork,
    prompts: list[list[int]],
    config: GenerationConfig,
    most_tokens: int,
    generator: torch.Generator,
) -> list[OwnText]:
    """Writes an answer to each prompt, up to its end token or ``most_tokens``.

    Prompts are padded on the left; answers that have ended leave the batch.
    """
    width = max(map(len, prompts))
    ids = torch.full((len(prompts), width), config.pad_token_id)
    for row, prompt in enumerate(prompts):
        ids[row, width - len(prompt) :] = torch.tensor(prompt)
    starts = torch.tensor([width - len(prompt) for prompt in prompts])
    cache = _BatchCache(network, len(prompts), width + most_tokens)
    seen = torch.zeros(len(prompts), network.config.vocab_size, dtype=torch.bool)
    for row, prompt in enumerate(prompts):
        seen[row, prompt] = True
    ends = torch.tensor(config.eos_token_ids)
    going = torch.arange(len(prompts))  # numbers of the answers that go on
    written = [list[int]() for _ in prompts]
    while len(going) and cache.length < width + most_tokens - 1:
        places = torch.arange(cache.length, cache.length + ids.shape[1])
        positions = (places - starts[:, None]).clamp_min(0)[:, None]
        keys = torch.arange(int(places[-1]) + 1)
        mask = (keys <= places[:, None]) & (keys >= starts[:, None, None])  # (B, T, S)
        mask |= places[:, None] == keys  # padding sees itself, so that nothing is NaN
        hidden = network.run(ids, positions, mask[:, None], cache)
        cache.length += ids.shape[1]
        logits = network.head(hidden[:, -1])
        penalty = config.repetition_penalty
        logits = torch.where(seen, torch.where(logits < 0, logits * penalty, logits / penalty), logits)
        if config.sampling_temperature == 0.0:
            drawn = logits.argmax(dim=-1)
        else:
            best = logits.topk(LIKELIEST, dim=-1)
            places = torch.multinomial(shares_of(best.values, config, TRANSFORMERS), 1, generator=generator)
            drawn = best.indices.gather(-1, places)[:, 0]
        seen[torch.arange(len(drawn)), drawn] = True
        for number, token in zip(going.tolist(), drawn.tolist(), strict=True):
            written[number].append(token)
        stays = ~torch.isin(drawn, ends)
        ids = drawn[:, None]
        if int(stays.sum()) < len(stays):
            going, ids, starts, seen = going[stays], ids[stays], starts[stays], seen[stays]
            cache.keep(stays)
    pairs = zip(prompts, written, strict=True)
    return [OwnText(torch.tensor([*prompt, *answer]), len(prompt)) for prompt, answer in pairs]


class _BatchCache:
    """Keys and values of several sequences of one length, (B, heads, capacity, D) a layer."""

    def __init__(self, network: CausalNetwork, count: int, capacity: int) -> None:
        self.length = 0
        self._layers = [
            [
                torch.zeros(count, layer.num_key_value_heads, capacity, layer.head_dim, dtype=network.dtype)
                for _ in range(2)
            ]
            for layer in network.config.layers
        ]

    def writer(self, index: int) -> Extend:
        def extend(*new: Tensor) -> tuple[Tensor, Tensor]:
            end = self.length + new[0].shape[2]
            kept = self._layers[index]
            for buffer, part in zip(kept, new, strict=True):
                buffer[:, :, self.length : end] = part
            return kept[0][:, :, :end], kept[1][:, :, :end]

        return extend

    def keep(self, rows: Tensor) -> None:
        """Drops the sequences where ``rows`` (B,) is False."""
        self._layers = [[buffer[rows] for buffer in kept] for kept in self._layers]
