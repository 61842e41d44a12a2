"""Trains an embedded model: ``python -m engine.training.train sudoku --out runs/sudoku``. Resumes by itself.

Loss: cross entropy on states from ``rollout``, weighted so that short answers count (``weights``). Muon on the
matrices, AdamW on the rest, constant rates that fall to zero over the last part of the run; what is kept is a running
average of the weights.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional as F

from engine.model import load_model
from engine.models.diffusion_gemma import DiffusionGemma
from engine.training.data import EOS, SkillSource, SudokuSource, minimal_puzzles
from engine.training.muon import Muon
from engine.training.network import encode, predict
from engine.training.recipes import RECIPES, Recipe, schedule
from engine.training.rollout import Pool


def initialise(model: DiffusionGemma, generator: torch.Generator) -> None:
    """Matrices with variance 1 / fan-in; query and key norms so that attention starts soft."""
    with torch.no_grad():
        for name, param in model.named_parameters():
            if param.dim() > 1:
                param.normal_(std=param.shape[-1] ** -0.5, generator=generator)
            elif name.endswith(("q_norm.weight", "k_norm.weight")):
                param.fill_(param.shape[0] ** -0.25)


def rate(step: int, steps: int, recipe: Recipe) -> float:
    """Learning-rate factor: warm-up, constant, linear to zero."""
    return schedule(step, steps, recipe.warmup_steps, recipe.decay_share)


HAS_BF16 = torch.cpu._is_avx512_bf16_supported()  # elsewhere it is emulated, ten times slower
TAIL = 0.25  # weight of the eos tokens that fill a canvas after the first one


def weights(target: Tensor) -> Tensor:
    """Loss weights (B, C) of target canvases (B, C): 1 / sqrt(n C) for each of a row's n answer tokens, eos included.

    A full canvas gets the plain mean. A one-digit answer would vanish in the mean over a canvas of eos; so weighted,
    it counts as much as it can without drowning the long answers (a mean a row would do that).
    """
    length = target.shape[1]
    ends = (target == EOS).cumsum(dim=1)
    answer = ends - (target == EOS).long() == 0
    share = (answer.sum(dim=1, keepdim=True) * length) ** -0.5
    return torch.where(answer, share, TAIL / length)


STATE = "state.safetensors"


def read_state(folder: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """A run's last checkpoint: its tensors, and the recipe's name, the step and the data's random streams."""
    with safe_open(folder / STATE, framework="pt") as opened:
        facts = dict(opened.metadata())
    return load_file(folder / STATE), facts


class Trainer:
    """A run that can be stopped and taken up again at any checkpoint."""

    def __init__(
        self, recipe: Recipe, folder: Path, steps: int, seed: int, compiled: bool, start: Path | None = None
    ) -> None:
        self.recipe, self.folder, self.steps, self.step = recipe, folder, steps, 0
        folder.mkdir(parents=True, exist_ok=True)
        self.trained = start is not None  # it has learnt the easy part: hard puzzles, long walks, half the rates
        self.generator = torch.Generator().manual_seed(seed)
        self.model = DiffusionGemma(recipe.model_config())
        initialise(self.model, self.generator)
        if start is not None:
            self.model.load_state_dict(load_model(start, device="cpu", dtype="float32").network.state_dict())
        self.average = {name: param.detach().clone() for name, param in self.model.named_parameters()}
        named = dict(self.model.named_parameters())
        matrices = [p for n, p in named.items() if p.dim() > 1 and "embed" not in n and "router" not in n]
        chosen = set(map(id, matrices))
        self.muon = Muon(matrices, lr=recipe.muon_lr)
        others = [p for p in named.values() if id(p) not in chosen]
        self.adam = torch.optim.AdamW(others, lr=recipe.adam_lr, betas=(0.9, 0.98), weight_decay=0.0)
        self.sources: Sequence[SudokuSource | SkillSource] = []
        self.pools = self._pools(seed)
        self.forward = torch.compile(self._forward, dynamic=False) if compiled else self._forward
        if (folder / STATE).exists():
            self._resume()

    def _pools(self, seed: int) -> list[tuple[int, Pool]]:
        """(every so many steps, pool): longer prefixes come in a pool of their own."""
        recipe, vocabulary = self.recipe, self.model.config.vocab_size
        drawn: list[tuple[int, int, SudokuSource | SkillSource]] = []  # every so many steps, so many rows, from there
        if recipe.name != "sudoku":
            drawn += [(1, recipe.batch, SkillSource(recipe.canvas_length, seed, long=False))]
            drawn += [(4 if self.trained else 2, recipe.batch // 2, SkillSource(recipe.canvas_length, seed, long=True))]
        if recipe.name != "skills":
            path = self.folder / "puzzles.txt"
            for done in minimal_puzzles(recipe.puzzles, path):
                if done % 500 == 0:
                    print(f"puzzles {done}", flush=True)
            self.sudoku = SudokuSource(path, recipe.canvas_length, seed)
            often = (1, recipe.batch) if recipe.name == "sudoku" else (3, recipe.batch // 2)
            drawn += [(*often, self.sudoku)]
        self.sources = [source for _, _, source in drawn]
        return [(every, Pool(source.draw, rows, vocabulary, self.generator)) for every, rows, source in drawn]

    def _forward(self, ids: Tensor, present: Tensor, canvas: Tensor, soft: Tensor) -> Tensor:
        padded = present if self.recipe.name != "sudoku" else None
        with torch.set_grad_enabled(not self.trained):  # which saves a third; how prompts are read has been learnt
            _, prefix = encode(self.model, ids, padded)
        return predict(self.model, canvas, soft, prefix, padded)

    def run(self, save_every: int = 200) -> None:
        started, first = time.time(), self.step
        sums: dict[str, float] = {}
        while self.step < self.steps:
            factor = rate(self.step, self.steps, self.recipe) * (0.5 if self.trained else 1.0)
            for group in self.muon.param_groups:
                group["lr"] = self.recipe.muon_lr * factor
            for group in self.adam.param_groups:
                group["lr"] = self.recipe.adam_lr * factor
            if self.recipe.name == "sudoku":
                self.sudoku.givens = (24, 46) if self.trained else (32, 60) if self.step < 600 else (25, 50)
            for index, (every, pool) in enumerate(self.pools):
                if self.step % every:
                    continue
                with torch.autocast("cpu", dtype=torch.bfloat16, enabled=HAS_BF16):
                    logits = self.forward(pool.ids, pool.present, pool.canvas, pool.soft)
                surprise = F.cross_entropy(logits.flatten(0, 1), pool.target.flatten(), reduction="none")
                loss = (surprise * weights(pool.target).flatten()).sum() / len(pool.target)
                loss.backward()  # type: ignore[no-untyped-call]
                late = self.trained or self.step >= (1 - self.recipe.late_share) * self.steps
                right = pool.advance(logits.detach(), self.recipe.retire_late if late else self.recipe.retire_early)
                for key, value in ((f"loss{index}", loss.item()), (f"right{index}", right)):
                    sums[key] = value if key not in sums else 0.98 * sums[key] + 0.02 * value
            params = [p for p in self.model.parameters() if p.grad is not None]
            torch.nn.utils.clip_grad_norm_(params, 1.0)
            self.muon.step()
            self.adam.step()
            self.model.zero_grad(set_to_none=True)
            keep = min(self.recipe.ema, (self.step + 1) / (self.step + 10))
            average, current = list(self.average.values()), list(self.model.parameters())
            torch._foreach_lerp_(average, [p.detach() for p in current], 1 - keep)
            self.step += 1
            if not math.isfinite(sums["loss0"]):
                raise SystemExit(f"the loss is not finite at step {self.step}; resume from the last checkpoint")
            if self.step % 20 == 0:
                record = {"step": self.step, "seconds": round(time.time() - started, 1), "rate": round(factor, 4)}
                record |= {key: round(value, 5) for key, value in sums.items()}
                record["steps_per_second"] = round((self.step - first) / (time.time() - started), 3)
                print(json.dumps(record), flush=True)
                with (self.folder / "log.jsonl").open("a") as log:
                    log.write(json.dumps(record) + "\n")
            if self.step % save_every == 0 or self.step == self.steps:
                self.save()

    # --- checkpoints: safetensors and JSON, written beside and moved into place ----------------------------------

    def save(self) -> None:
        tensors = {f"model.{n}": p.detach() for n, p in self.model.named_parameters()}
        tensors |= {f"average.{n}": p for n, p in self.average.items()}
        names = {id(p): n for n, p in self.model.named_parameters()}
        for label, optimizer in (("muon", self.muon), ("adam", self.adam)):
            for param, state in optimizer.state.items():
                for key, value in state.items():
                    tensors[f"{label}.{key}.{names[id(param)]}"] = value
        tensors["generator"] = self.generator.get_state()
        for index, (_, pool) in enumerate(self.pools):
            for key in ("ids", "present", "target", "canvas", "soft", "step"):
                tensors[f"pool{index}.{key}"] = getattr(pool, key)
        facts = {"recipe": self.recipe.name, "step": str(self.step)}
        facts["sources"] = json.dumps([source.state() for source in self.sources])
        save_file({k: v.contiguous().clone() for k, v in tensors.items()}, self.folder / "state.tmp", metadata=facts)
        os.replace(self.folder / "state.tmp", self.folder / STATE)

    def _resume(self) -> None:
        tensors, facts = read_state(self.folder)
        self.step = int(facts["step"])
        named = dict(self.model.named_parameters())
        with torch.no_grad():
            for key, value in tensors.items():
                head, _, rest = key.partition(".")
                if head == "model":
                    named[rest].copy_(value)
                elif head == "average":
                    self.average[rest].copy_(value)
                elif head in ("muon", "adam"):
                    field, _, name = rest.partition(".")
                    (self.muon if head == "muon" else self.adam).state[named[name]][field] = value
                elif head.startswith("pool"):
                    setattr(self.pools[int(head[4:])][1], rest, value)
        self.generator.set_state(tensors["generator"])
        for source, state in zip(self.sources, json.loads(facts["sources"]), strict=True):
            source.restore(state)
        print(f"resumed at step {self.step}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", choices=sorted(RECIPES))
    parser.add_argument("--out", type=Path, required=True, help="folder of the run: checkpoints and log")
    parser.add_argument("--steps", type=int, required=True, help="optimizer steps in all")
    parser.add_argument("--start", type=Path, help="checkpoint folder to take the first weights from")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0, help="CPU threads; 0 leaves it to torch")
    parser.add_argument("--compile", action="store_true", help="twice as fast after two minutes; needs a C++ compiler")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    Trainer(RECIPES[args.recipe], args.out, args.steps, args.seed, args.compile, args.start).run()


if __name__ == "__main__":
    main()
