"""Trains the draft of a model that writes one token at a time, on text that the model wrote itself.

The weights stay as they are. Low-rank additions are trained that only masks have: a branch of masks behind a token of
the text predicts the tokens that come after the model's next one (as in arXiv 2507.11851). The text is read once
without them; the target of a mask is what the model predicts at that place of the true text.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.adapters.draft import BranchMasks, DraftAdapter, save_branch_draft
from engine.adapters.targets import attach, new_adapters
from engine.errors import SafelightError
from engine.layers.attention import Extend
from engine.layers.branches import Branches
from engine.models.causal.network import CausalNetwork
from engine.models.model import Model
from engine.training.checkpointing import STATE, gather, read_state, scatter, write_state
from engine.training.data.own_text import OwnText
from engine.training.recipes.recipe import schedule


@dataclass(frozen=True)
class OwnDraftRecipe:
    """The settings of a run.

    Args:
        mask: the token that stands at places that are not written yet; one that no text contains.
        size: masks of a branch.
        branches: of one text in a step, at random places of its answer.
        batch: texts of a step.
        rate: the highest learning rate; it rises over ``warmup`` steps and falls to zero over the last part.
        most_tokens: of a text; what is longer is cut.
    """

    mask: int
    steps: int
    size: int = 3
    rank: int = 16
    branches: int = 110
    batch: int = 2
    rate: float = 2e-3
    warmup: int = 50
    most_tokens: int = 384
    decay_share: float = 0.7


class OwnDraftTrainer:
    """A run on a loaded model without other adapters. A checkpoint in ``folder`` is resumed.

    Args:
        start: a draft of the recipe's rank to begin with; None begins with additions of zero.

    Raises:
        SafelightError: ``start`` has another rank.
    """

    def __init__(
        self,
        model: Model,
        texts: list[OwnText],
        recipe: OwnDraftRecipe,
        folder: Path,
        seed: int = 0,
        start: DraftAdapter | None = None,
    ) -> None:
        assert isinstance(model.network, CausalNetwork), "refused before"
        self.network, self.recipe, self.texts, self.folder, self.seed = model.network, recipe, texts, folder, seed
        self.network.requires_grad_(False)
        used = torch.unique(
            torch.cat([text.ids for text in texts])
        )  # tokens that are ever predicted: a fourth of the head
        self.head = self.network.head_weight[used.to(self.network.device)]
        generator = torch.Generator().manual_seed(seed)
        self.adapters = new_adapters(self.network, model.family.targets, 0, recipe.rank, generator)
        for adapter in self.adapters.values():
            adapter.denoise, adapter.causal = adapter.causal, None
        if start is not None:
            if (rank := next(iter(start.adapters.values())).state_dict()["denoise.up"].shape[1]) != recipe.rank:
                raise SafelightError(f"the draft to begin with has the rank {rank}, and the run {recipe.rank}")
            for path, adapter in start.adapters.items():
                self.adapters[path].load_state_dict(adapter.state_dict())
        attach(self.network, self.adapters)
        self.named = {f"{path}.{n}": p for path, one in self.adapters.items() for n, p in one.named_parameters()}
        self.average = {name: param.detach().clone() for name, param in self.named.items()}
        self.optimizer = torch.optim.AdamW(self.named.values(), lr=recipe.rate, betas=(0.9, 0.98), weight_decay=0.0)
        self.step = 0
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / STATE).exists():
            tensors, facts = read_state(folder)
            scatter(tensors, self.named, self.average, {"adam": self.optimizer})
            self.step = int(facts["step"])

    def run(self, save_every: int = 20) -> Iterator[dict[str, float]]:
        """Takes the remaining steps; yields a record of the means since the one before at each checkpoint."""
        sums, first, began = [0.0] * (1 + self.recipe.size), self.step, time.perf_counter()
        while self.step < self.recipe.steps:
            sums = [total + new for total, new in zip(sums, self._take_step(), strict=True)]
            if self.step % save_every and self.step < self.recipe.steps:
                continue
            self.save()
            loss, *right = (total / (self.step - first) for total in sums)
            seconds = (time.perf_counter() - began) / (self.step - first)
            record = {"step": self.step, "loss": loss, "seconds": seconds}
            record |= {f"right{number}": share for number, share in enumerate(right, start=1)}
            with (self.folder / "log.jsonl").open("a") as log:
                log.write(json.dumps({name: round(value, 4) for name, value in record.items()}) + "\n")
            yield record
            sums, first, began = [0.0] * (1 + self.recipe.size), self.step, time.perf_counter()

    def save(self) -> None:
        write_state(self.folder, gather(self.named, self.average, {"adam": self.optimizer}), {"step": str(self.step)})

    def export(self, folder: Path, model: Model) -> None:
        """Writes the averaged draft, which ``adapters.draft.read_branch_draft`` reads."""
        for name, param in self.named.items():
            param.data.copy_(self.average[name])
        masks = BranchMasks(self.recipe.mask, self.recipe.size)
        save_branch_draft(folder, self.adapters, model.family.targets, masks, model.name)

    def _take_step(self) -> list[float]:
        """Returns the loss, and for each mask of a branch the share of likeliest tokens that are the model's."""
        recipe, rng = self.recipe, random.Random(f"{self.seed}-{self.step}")
        found = torch.zeros(1 + recipe.size)
        for text in rng.sample(self.texts, recipe.batch):
            logits, wanted = self._read(text, rng)  # (branches, size, V) each
            loss = F.cross_entropy(logits.flatten(0, 1), wanted.flatten(0, 1)) / recipe.batch
            loss.backward()  # type: ignore[no-untyped-call]
            right = (logits.detach().argmax(dim=-1) == wanted.argmax(dim=-1)).float().mean(dim=0)
            found += torch.cat((loss.detach()[None], right / recipe.batch))
        torch.nn.utils.clip_grad_norm_(self.named.values(), 1.0)
        for group in self.optimizer.param_groups:
            group["lr"] = recipe.rate * schedule(self.step, self.step, recipe.steps, recipe.warmup, recipe.decay_share)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        keep = min(0.99, (self.step + 1) / (self.step + 10))
        torch._foreach_lerp_(list(self.average.values()), [p.detach() for p in self.named.values()], 1 - keep)
        if not math.isfinite(float(found[0])):
            raise ArithmeticError(f"the loss is not finite at step {self.step}")
        return found.tolist()

    def _read(self, text: OwnText, rng: random.Random) -> tuple[Tensor, Tensor]:
        """Returns the logits of masks, and the model's probabilities at their places, (branches, size, V) fp32 each."""
        recipe, device, kept = self.recipe, self.network.device, _Kept()
        ids = text.ids[: recipe.most_tokens].to(device)
        length = len(ids)
        last = length - recipe.size  # no branch begins here or later
        places = range(max(0, min(text.prompt, last) - 1), last)
        branches = Branches(length, tuple(rng.sample(places, min(recipe.branches, len(places)))), recipe.size)
        positions, mask = branches.positions(0, device), branches.mask(0, device)
        with torch.no_grad():
            hidden = self.network.run(ids[None], positions[:length], mask[:length, :length], kept)
            shares = F.linear(hidden[0, places[0] :], self.head).float().softmax(dim=-1)
            wanted = shares[positions[length:] - places[0]]
        masks = torch.full((1, branches.rows - length), recipe.mask, device=device)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            hidden = self.network.run(masks, positions[length:], mask[length:], kept, text_rows=0)
            logits = F.linear(hidden[0], self.head).float()
        shape = (len(branches.behind), recipe.size, -1)
        return logits.view(shape), wanted.view(shape)


class _Kept:
    """Keeps the keys and values of the first pass, behind which later ones read."""

    def __init__(self) -> None:
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}

    def writer(self, index: int) -> Extend:
        def extend(keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
            if index not in self._layers:
                self._layers[index] = keys, values
                return keys, values
            before = self._layers[index]
            return torch.cat((before[0], keys), dim=2), torch.cat((before[1], values), dim=2)

        return extend
