"""A tiny network trained by SDAR's objective, and how it was trained: ``python -m tests.engine.sdar`` does it anew.

Each text is a few turns of a question, six digits behind some spaces, and an answer, a letter for each: that of the
last digit of the question in the same block. So it takes blocks that lie where they did in training, and a digit that
sees all of its own. A text is read with a noised copy, in blocks: a block of the copy sees itself and the clean blocks
before it, a clean block sees itself and those before it, and a mask predicts the token of its own place. Source:
``modeling_sdar.py`` of JetAstra/SDAR, its block mask and its loss, weighted by one over the share of masks.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F

from engine.files import write_json
from engine.models.causal.network import CausalNetwork, build
from engine.models.folder import ModelFolder
from engine.models.registry import FAMILIES

FOLDER = Path(__file__).parents[1] / "fixtures" / "sdar"
DIGITS, LETTERS, SPACE, ASK, END, MASK = range(10), range(10, 20), 20, 21, 22, 23
COUNT, BLOCK, LENGTH = 6, 5, 55
SHAPE = {
    "model_type": "sdar", "block_size": BLOCK, "mask_token_id": MASK, "vocab_size": 24, "hidden_size": 48,
    "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 12,
    "max_position_embeddings": 96, "rope_theta": 500.0, "tie_word_embeddings": True, "eos_token_id": END,
}  # fmt: skip


def question(rng: random.Random, spaces: int) -> list[int]:
    """Six digits behind so many spaces, and the sign that asks for them."""
    return [SPACE] * spaces + [rng.choice(DIGITS) for _ in range(COUNT)] + [ASK]


def answer(asked: list[int], before: int) -> list[int]:
    """The right one, of a question behind so many tokens."""
    first, behind = before + len(asked) - 1 - COUNT, before + len(asked) - 1
    last = [min((place // BLOCK + 1) * BLOCK, behind) - 1 for place in range(first, behind)]
    return [*(LETTERS[asked[place - before]] for place in last), END]


def trained() -> CausalNetwork:
    """The network as it is stored."""
    network = ModelFolder.open(FOLDER).weights("none", torch.device("cpu"), torch.float32).load()
    assert isinstance(network, CausalNetwork)
    return network


def _text(rng: random.Random) -> tuple[list[int], list[bool]]:
    """Tokens, and which of them are of an answer."""
    ids, own = list[int](), list[bool]()
    while len(ids) < LENGTH:
        asked = question(rng, rng.randrange(BLOCK + 2))
        ids += asked + answer(asked, len(ids))
        own += [False] * len(asked) + [True] * (COUNT + 1)
    return ids[:LENGTH], own[:LENGTH]


def _visible() -> Tensor:
    """Who sees whom (2 LENGTH, 2 LENGTH), the noised copy before the clean one."""
    place = torch.arange(2 * LENGTH)
    block, clean = place % LENGTH // BLOCK, place >= LENGTH
    own = (block[:, None] == block[None]) & (clean[:, None] == clean[None])
    before = (block[:, None] > block[None]) & clean[None]
    return own | before


def train(seconds: float, seed: int = 0, rows: int = 20) -> CausalNetwork:
    """Train a new one for so long."""
    torch.manual_seed(seed)
    rng, network = random.Random(seed), build(FAMILIES["sdar"].read_config(SHAPE))
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5) if parameter.dim() > 1 else nn.init.ones_(parameter)
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, betas=(0.9, 0.98), weight_decay=0.01)
    positions, visible = torch.arange(LENGTH).repeat(2), _visible()
    started, step = time.perf_counter(), 0
    while (share := (time.perf_counter() - started) / seconds) < 1:
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(1.0, step / 50) * (1 - share)
        texts = [_text(rng) for _ in range(rows)]
        clean, own = torch.tensor([ids for ids, _ in texts]), torch.tensor([own for _, own in texts])
        rate = torch.rand(rows, 1).clamp_min(0.05)
        masked = (torch.rand(rows, LENGTH) < rate) & own
        noised = clean.masked_fill(masked, MASK)
        hidden = network.run(torch.cat((noised, clean), dim=1), positions, visible)[:, :LENGTH]
        surprise = F.cross_entropy(network.head(hidden)[masked], clean[masked], reduction="none")
        loss = (surprise / rate.expand(-1, LENGTH)[masked]).sum() / own.sum()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        step += 1
        if step % 200 == 0:
            print(step, f"{loss.item():.4f}", flush=True)
    return network


def main() -> None:
    """Train for five minutes on one core, and store it as a checkpoint."""
    torch.set_num_threads(1)
    tensors = {f"model.{name}": tensor.detach().bfloat16() for name, tensor in train(300).state_dict().items()}
    FOLDER.mkdir(exist_ok=True)
    save_file(tensors, FOLDER / "model.safetensors")
    write_json(FOLDER / "config.json", SHAPE)


if __name__ == "__main__":
    main()
