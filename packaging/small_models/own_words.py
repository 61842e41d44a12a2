"""Own words by diffusion: Talk goes on learning, to fill masked blocks of text that it wrote itself.

The command ``own-words``: Talk answers questions in batches, its network is trained on these answers by the objective
of the masked model (blocks seen in both directions, and plain autoregression beside), and the result is written as a
Nemotron-Labs-Diffusion. On one card ``--device cuda --minutes 9`` does all of it.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from engine import generate
from engine.catalog import TALK
from engine.files import write_json, write_text
from engine.layers.attention import Extend
from engine.models.causal.network import CausalNetwork
from engine.models.model import Model, load_model
from engine.models.registry import FAMILIES
from engine.weights.safetensors import save_whole
from small_models.export import causal_dict
from small_models.own_questions import question
from small_models.text_loss import read_rows, text_loss
from small_models.text_rows import NOISE, Table, TextRows, arrange, draw_blocks, pack

FAMILY = "nemotron_labs_diffusion"
BLOCKS = (8, 16, 32)
"""Tokens of a block; each answer draws one. The largest is the model's own."""
MASK = 16  # a token of the vocabulary that no text has: <empty_output>
MOST_ANSWER, WIDTH = 96, 384
"""Tokens of an answer, and of a row of packed ones."""
TEMPERATURE = 0.7
WRITING = 0.3  # share of the time in which Talk writes the data
TEMPLATE = (
    "{%- if messages[0]['role'] != 'system' -%}<|im_start|>system\n"
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n{% endif -%}"
    "{%- for message in messages -%}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{%- endfor -%}{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}"
)
"""Talk's own, with the words that it was trained under."""
SAMPLES = ("Hello!", "Why is the sky blue?", "Tell me a short story about a fox and a piano.")

Pair = tuple[list[int], list[int]]
"""A prompt and its answer with the token that ends it."""


class BatchCache:
    """Keys and values of a batch, of all layers, which grow with every pass."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[Tensor, Tensor]] = {}

    def writer(self, index: int) -> Extend:
        def extend(keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
            if before := self._held.get(index):
                keys, values = torch.cat([before[0], keys], dim=2), torch.cat([before[1], values], dim=2)
            self._held[index] = keys, values
            return keys, values

        return extend


@torch.inference_mode()
def answers(network: CausalNetwork, prompts: list[list[int]], end: int, generator: torch.Generator) -> list[list[int]]:
    """Returns Talk's answers to prompts, written together at ``TEMPERATURE``; those that do not end are cut."""
    longest, device = max(map(len, prompts)), network.device
    ids = torch.tensor([[end] * (longest - len(prompt)) + prompt for prompt in prompts], device=device)
    there = torch.tensor(
        [[False] * (longest - len(prompt)) + [True] * len(prompt) for prompt in prompts], device=device
    )
    positions = (there.cumsum(dim=1) - 1).clamp(min=0)
    mask = (there[:, None, :] & torch.ones(longest, longest, dtype=torch.bool, device=device).tril()) | torch.eye(
        longest, dtype=torch.bool, device=device
    )
    cache, written, is_over = BatchCache(), list[Tensor](), torch.zeros(len(prompts), dtype=torch.bool, device=device)
    hidden = network.run(ids, positions[:, None], mask[:, None], cache)
    for _ in range(MOST_ANSWER):
        chances = (network.head(hidden[:, -1]) / TEMPERATURE).softmax(dim=-1)
        token = torch.multinomial(chances, 1, generator=generator)[:, 0]
        written.append(torch.where(is_over, end, token))
        is_over = is_over | (token == end)
        if bool(is_over.all()):
            break
        there = F.pad(there, (0, 1), value=True)
        place = positions.amax(dim=1) + len(written)
        hidden = network.run(token[:, None], place[:, None, None], there[:, None, None], cache)
    rows = torch.stack(written, dim=1).tolist()
    return [row[: row.index(end) + 1] if end in row else row for row in rows]


def write(model: Model, seconds: float, batch: int, rng: random.Random) -> list[Pair]:
    """Lets Talk answer questions for so many seconds; returns those that it ended."""
    assert isinstance(model.network, CausalNetwork)
    end, found, started = model.generation_defaults.eos_token_ids[0], list[Pair](), time.monotonic()
    generator = torch.Generator(model.device).manual_seed(rng.getrandbits(32))
    while time.monotonic() - started < seconds:
        asked = [model.chat_ids([{"role": "user", "content": question(rng)}]) for _ in range(batch)]
        written = zip(asked, answers(model.network, asked, end, generator), strict=True)
        found += [(prompt, answer) for prompt, answer in written if answer[-1] == end]
    return found


def rows(pairs: list[Pair], count: int, rng: random.Random) -> Iterator[TextRows]:
    """Yields batches of ``count`` rows of pairs without end, noised and packed."""
    while True:
        tables, tokens = list[Table](), 0
        while tokens < count * WIDTH:
            prompt, answer = rng.choice(pairs)
            size, noise = rng.choice(BLOCKS), NOISE["masked"]
            blocks = draw_blocks(rng, len(answer), size, WIDTH - len(prompt) - len(answer), noise)
            tables.append(arrange(prompt, answer, blocks, noise, MASK))
            tokens += tables[-1].shape[1]
        yield pack(tables, count, WIDTH)


def train(model: Model, pairs: list[Pair], seconds: float, batch: int, rate: float, rng: random.Random) -> int:
    """Trains Talk's network on its own answers for so many seconds; prints losses, returns the trained tokens."""
    network = model.network
    assert isinstance(network, CausalNetwork)
    network.requires_grad_(True)
    optimizer = torch.optim.AdamW(network.parameters(), rate, betas=(0.9, 0.95), weight_decay=0.0)
    started, tokens, shown = time.monotonic(), 0, torch.zeros(2)
    for step, drawn in enumerate(rows(pairs, batch, rng)):
        done = (time.monotonic() - started) / seconds
        if done >= 1:
            break
        for group in optimizer.param_groups:
            group["lr"] = rate * min((step + 1) / 50, 1.0, 2 * (1 - done))
        table = TextRows(drawn.table.to(model.device))
        with torch.autocast(model.device.type, dtype=torch.bfloat16):
            loss = text_loss(read_rows(network, table, is_causal=False), table)
        (loss.causal + loss.masked).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        tokens += int((drawn.field("masked") > 0).sum())
        now = torch.tensor([loss.causal.item(), loss.masked.item()])
        shown = now if step == 0 else shown.lerp(now, 0.1)
        if step % 20 == 0:
            print(
                json.dumps({"step": step, "tokens": tokens, "causal": shown[0].item(), "masked": shown[1].item()}),
                flush=True,
            )
    return tokens


def export(model: Model, folder: Path) -> None:
    """Writes the network in the published layout, with Talk's tokenizer and template."""
    network, defaults = model.network, model.generation_defaults
    assert isinstance(network, CausalNetwork)
    folder.mkdir(parents=True, exist_ok=True)
    names = FAMILIES[FAMILY].names
    weights = {
        names.released(name): one.to(torch.bfloat16).contiguous().cpu() for name, one in network.state_dict().items()
    }
    save_whole(folder / "model.safetensors", weights, {"format": "pt"})
    end, pad = defaults.eos_token_ids[0], network.config.pad_token_id
    own = {"eos_token_id": end, "pad_token_id": pad, "mask_token_id": MASK, "block_size": max(BLOCKS)}
    write_json(folder / "config.json", causal_dict(network.config, FAMILY) | own)
    settings = {"bos_token_id": network.config.bos_token_id, "eos_token_id": end, "pad_token_id": pad}
    write_json(folder / "generation_config.json", settings | {"max_new_tokens": 2 * MOST_ANSWER, "do_sample": False})
    model.tokenizer.fast.save(str(folder / "tokenizer.json"))
    write_text(folder / "chat_template.jinja", TEMPLATE)


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", type=Path, help="folder of the checkpoint; its pairs.json is taken if there is one")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--minutes", type=float, default=9.0, help="in all")
    parser.add_argument(
        "--batch", type=int, default=128, help="answers written together; a quarter as many rows a step"
    )
    parser.add_argument("--rate", type=float, default=2e-4)
    parser.add_argument("--seed", type=int, default=0)


def run(args: argparse.Namespace) -> None:
    rng, kept = random.Random(args.seed), args.out / "pairs.json"
    model = load_model(TALK.id, device=args.device, dtype="float32", quantization="none")
    if kept.exists():
        pairs = [(prompt, answer) for prompt, answer in json.loads(kept.read_text())]
    else:
        pairs = write(model, 60 * args.minutes * WRITING, args.batch, rng)
        args.out.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(pairs))
    count = sum(len(answer) for _, answer in pairs)
    print(f"{len(pairs)} answers, {count} tokens", flush=True)
    train(model, pairs, 60 * args.minutes * (1 - WRITING), max(1, args.batch // 4), args.rate, rng)
    export(model, args.out)
    own = load_model(args.out, device=args.device)
    for prompt in SAMPLES:
        *_, end = generate(own, own.chat_ids([{"role": "user", "content": prompt}]), own.generation_defaults, args.seed)
        print(json.dumps({"prompt": prompt, "text": own.tokenizer.decode(end.tokens)}), flush=True)
