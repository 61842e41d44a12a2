"""A training run of an embedded model, on a CPU or a card.

Loss: cross entropy on states from ``rollout``, weighted so that short answers count. Muon on the matrices, AdamW on the
rest, constant rates that fall to zero over the last part of the run; what is kept is a running average of the weights.

A step never reads a number back from the device: what is reported stays there until a report is due. Where rows are
made ahead, the random stream of the canvases begins anew at each step from the seed and the step, so that none has to
be moved between devices; on two cores one stream goes on, and is in the checkpoint.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from engine.errors import SafelightError
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.models.model import load_model
from engine.training.checkpointing import STATE, gather, read_state, scatter, write_state
from engine.training.data.decisions import Reads, question_ends
from engine.training.data.rollout import Pool
from engine.training.loss import canvas_loss, cross_entropy, slot_loss
from engine.training.network import RunLayer, encode, predict, through_layer
from engine.training.optim import Muon
from engine.training.producers import RowPlan, open_rows
from engine.training.recipes.embedded import Recipe

PUZZLES, LOG = "puzzles.txt", "log.jsonl"


def initialise(model: DiffusionGemma, generator: torch.Generator) -> None:
    """Matrices with variance 1 / fan-in; query and key norms so that attention starts soft."""
    with torch.no_grad():
        for name, param in model.named_parameters():
            if param.dim() > 1:
                param.normal_(std=param.shape[-1] ** -0.5, generator=generator)
            elif name.endswith(("q_norm.weight", "k_norm.weight")):
                param.fill_(param.shape[0] ** -0.25)


def has_bf16(device: torch.device) -> bool:
    """Whether the device multiplies bf16; a CPU without such units emulates it, ten times slower."""
    return device.type == "cuda" or bool(torch.cpu._is_avx512_bf16_supported())


class Trainer:
    """A run that can be stopped and resumed at any checkpoint, also on another device and by another recipe.

    Args:
        folder: of the run; a checkpoint that is in there goes on.
        compiled: compile the passes, which takes a minute or two for each kind of row; of a mix, the reads alone.
        start: checkpoint folder to take the first weights from.
    """

    def __init__(
        self,
        recipe: Recipe,
        folder: Path,
        seed: int = 0,
        device: str = "cpu",
        compiled: bool = False,
        start: Path | None = None,
    ) -> None:
        self.began = time.monotonic()
        self.recipe, self.folder, self.seed = recipe, folder, seed
        self.device = torch.device(device)
        self.step, self.seconds_before = 0, 0.0
        self.ahead = recipe.producers > 0
        if self.device.type != "cpu" and not self.ahead:
            raise SafelightError("on a card rows are made ahead; give 1 producer or more")
        folder.mkdir(parents=True, exist_ok=True)
        self.trained = start is not None  # it has learnt the easy part: hard puzzles, long walks, half the rates
        generator = torch.Generator().manual_seed(seed)
        self.model = DiffusionGemma(recipe.model_config())
        initialise(self.model, generator)
        if start is not None:
            self.model.load_state_dict(load_model(start, device="cpu", dtype="float32").network.state_dict())
        self.model.to(self.device)
        self.generator = torch.Generator(self.device) if self.ahead else generator
        self.named = dict(self.model.named_parameters())
        self.average = {name: param.detach().clone() for name, param in self.named.items()}
        matrices = [p for n, p in self.named.items() if p.dim() > 1 and "embed" not in n and "router" not in n]
        chosen = set(map(id, matrices))
        self.muon = Muon(matrices, lr=recipe.muon_lr)
        others = [p for p in self.named.values() if id(p) not in chosen]
        fused = True if self.ahead else None
        self.adam = torch.optim.AdamW(others, lr=recipe.adam_lr, betas=(0.9, 0.98), weight_decay=0.0, fused=fused)
        self.optimizers = {"muon": self.muon, "adam": self.adam}
        self.sums: dict[str, Tensor] = {}  # running means, on the device
        self.forward: Callable[..., tuple[Tensor, Tensor]] = self._forward
        self.run_layer: RunLayer = through_layer
        if compiled and recipe.mix:
            # Layer by layer: with gradients through the prompt, all at once takes two cores more than ten minutes.
            torch._dynamo.config.recompile_limit = 100
            self.run_layer = torch.compile(through_layer, dynamic=False)
        elif compiled:
            # The model keeps its frequencies: filled while it is compiled, it would be compiled once more.
            self.model.ropes(torch.zeros(1, device=self.device), torch.float32)
            self.forward = torch.compile(self._forward, dynamic=False)
        before = read_state(folder) if (folder / STATE).exists() else None
        if before is not None:
            self._resume(*before)
        self.rows = open_rows(RowPlan(recipe, self.trained, seed, folder / PUZZLES, self.step), self.device)
        try:
            self.pools = self._fill_pools()
            if before is not None:
                self._resume_pools(*before)
        except BaseException:
            self.close()
            raise

    @property
    def seconds(self) -> float:
        """Time that the run has taken, with what it took before its last checkpoint."""
        return self.seconds_before + time.monotonic() - self.began

    @property
    def done(self) -> float:
        """The part of the recipe's ``whole`` that is done."""
        return self.recipe.done(self.step, self.seconds)

    def run(self, report_every: int = 20, save_every: float = 60.0) -> None:
        """Train to the end of the run.

        Args:
            report_every: steps from one report to the next.
            save_every: seconds from one checkpoint to the next at least. The first report and the end have one, too.
        """
        first, started, saved = self.step, time.monotonic(), -math.inf
        try:
            while self.done < self.recipe.whole:
                factor = self._take_step()
                ends = self.done >= self.recipe.whole
                if not ends and self.step % report_every:
                    continue
                record = self._report(factor)
                record["steps_per_second"] = round((self.step - first) / (time.monotonic() - started), 3)
                first, started = self.step, time.monotonic()
                print(json.dumps(record), flush=True)
                with (self.folder / LOG).open("a") as log:
                    log.write(json.dumps(record) + "\n")
                if ends or time.monotonic() - saved >= save_every:
                    self.save()
                    saved = time.monotonic()
        finally:
            self.close()

    def close(self) -> None:
        """End the processes that make rows."""
        self.rows.close()

    # --- a step --------------------------------------------------------------------------------------------------

    def _take_step(self) -> float:
        """One optimizer step; the share of the rates that it was taken with."""
        recipe, done = self.recipe, self.done
        factor = recipe.factor(self.step, done) * (0.5 if self.trained else 1.0)
        late = self.trained or done >= (1 - recipe.late_share) * recipe.whole
        self.rows.set_step(self.step)
        if self.ahead:
            self._reseed()
        for index, (feed, pool) in enumerate(zip(recipe.feeds(self.trained), self.pools, strict=True)):
            if self.step % feed.every:
                continue
            with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=has_bf16(self.device)):
                loss, logits = self.forward(pool.ids, pool.present, pool.canvas, pool.soft, pool.target, pool.slots)
            loss.backward()  # type: ignore[no-untyped-call]
            right = pool.advance(logits.detach(), recipe.retire_late if late else recipe.retire_early)
            for key, value in ((f"loss{index}", loss.detach()), (f"right{index}", right)):
                self.sums[key] = self.sums[key].lerp(value, 0.02) if key in self.sums else value
        torch.nn.utils.clip_grad_norm_([p for p in self.named.values() if p.grad is not None], 1.0)
        for optimizer, rate in ((self.muon, recipe.muon_lr), (self.adam, recipe.adam_lr)):
            for group in optimizer.param_groups:
                group["lr"] = rate * factor
            optimizer.step()
        self.model.zero_grad(set_to_none=True)
        keep = min(recipe.ema, (self.step + 1) / (self.step + 10))
        current = [p.detach() for p in self.named.values()]
        torch._foreach_lerp_(list(self.average.values()), current, 1 - keep)
        self.step += 1
        return factor

    def _forward(
        self,
        ids: Tensor,
        present: Tensor,
        canvas: Tensor,
        soft: Tensor | None,
        target: Tensor,
        slots: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        run_layer = through_layer if slots is None else self.run_layer  # few of a mix's rows are walks
        padded = present if self.recipe.name != "sudoku" else None
        # Without, a third is saved, where how prompts are read has been learnt.
        with torch.set_grad_enabled(not self.trained or self.recipe.name == "decisions"):
            hidden, prefix = encode(self.model, ids, padded, run_layer=run_layer)
        logits = predict(self.model, canvas, soft, prefix, padded, run_layer)
        if slots is None:
            return canvas_loss(logits, target), logits
        # The prompt is asked where each question ends, too: what slots look up there is learnt sooner.
        asked = cross_entropy(self.model, hidden[question_ends(ids)], target[slots])
        return slot_loss(logits, target, slots) + asked, logits

    def _report(self, factor: float) -> dict[str, float]:
        """The record of a report; the one place that waits for the device.

        Raises:
            SafelightError: the loss is not finite.
        """
        sums = {key: round(value.item(), 5) for key, value in self.sums.items()}
        if not all(map(math.isfinite, sums.values())):
            raise SafelightError(f"the loss is not finite at step {self.step}; go on from the last checkpoint")
        record = {"step": self.step, "seconds": round(self.seconds, 1), "rate": round(factor, 4)} | sums
        return record | {"waited": round(self.rows.waited, 1)}

    def _reseed(self) -> None:
        mixed = np.random.SeedSequence((self.seed, self.step)).generate_state(1, np.uint64)
        self.generator.manual_seed(int(mixed[0] >> 1))

    # --- rows and checkpoints --------------------------------------------------------------------------------------

    def _fill_pools(self) -> list[Pool | Reads]:
        if self.ahead:
            self._reseed()
        size = self.model.config.vocab_size
        return [
            Reads(partial(self.rows.draw, index), feed.rows, size, self.generator)
            if feed.is_read
            else Pool(partial(self.rows.draw, index), feed.rows, size, self.generator, self.ahead)
            for index, feed in enumerate(self.recipe.feeds(self.trained))
        ]

    def save(self) -> None:
        """Write a checkpoint."""
        tensors = gather(self.named, self.average, self.optimizers)
        if not self.ahead:
            tensors["generator"] = self.generator.get_state()
        for index, pool in enumerate(self.pools):
            tensors |= {f"pool{index}.{name}": getattr(pool, name) for name in pool.NAMES}
        facts = {"recipe": self.recipe.name, "step": str(self.step), "seconds": str(self.seconds)}
        write_state(self.folder, tensors, facts | {"streams": json.dumps(self.rows.state())})

    def _resume(self, tensors: dict[str, Tensor], facts: dict[str, str]) -> None:
        if facts["recipe"] != self.recipe.name:
            raise SafelightError(f"{self.folder} holds a run of {facts['recipe']}; give a new folder")
        self.step, self.seconds_before = int(facts["step"]), float(facts["seconds"])
        scatter(tensors, self.named, self.average, self.optimizers)
        print(f"resumed at step {self.step}", flush=True)

    def _resume_pools(self, tensors: dict[str, Tensor], facts: dict[str, str]) -> None:
        """Restore pools and streams; pools of another recipe start anew, which costs a few short walks."""
        for index, pool in enumerate(self.pools):
            before = {name: tensors.get(f"pool{index}.{name}") for name in pool.NAMES}
            if all(rows is not None and rows.shape == getattr(pool, name).shape for name, rows in before.items()):
                for name in pool.NAMES:
                    setattr(pool, name, tensors[f"pool{index}.{name}"].to(self.device))
        if self.ahead:
            return
        if "generator" in tensors:
            streams = json.loads(facts["streams"])
            if len(streams) == len(self.pools):
                self.rows.restore(streams)
            self.generator.set_state(tensors["generator"])
        else:
            self._reseed()
