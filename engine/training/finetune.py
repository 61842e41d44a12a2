"""Trains a Sudoku adapter of a frozen model, packed or not.

The matrices are trained in fp32. A network that computes in bf16 gets copies, as small steps would be lost in bf16.
A run can be stopped between any two steps; resumed, it gives the same numbers to the bit. What the model solves of
held-out puzzles is measured by the public ``generate``, and no solver takes part.
"""

from __future__ import annotations

import copy
import json
import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch
from torch import Tensor

from engine import catalog, store_files
from engine.adapters.lora import attach, new_adapters
from engine.adapters.peft_files import save_adapter
from engine.decoding.generate import generate
from engine.errors import SafelightError, quoted
from engine.events import GenerationFinished
from engine.files import explained, read_text, write_text
from engine.fingerprint import fingerprint
from engine.memory.experimental import experimental
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.models.model import Model, load_model
from engine.tasks import sudoku
from engine.threads import use_threads
from engine.training.adapter import (
    AdapterRun,
    TrainingEnded,
    TrainingMeasured,
    TrainingProgress,
    TrainingRecord,
    TrainingStarted,
)
from engine.training.loss import Draws, Loss, draw, uniform_loss
from engine.training.memory import require_training_memory
from engine.training.puzzles import Format, Pair, TrainingBatch, made_pairs
from engine.types import Cancel
from engine.weights import packed_store
from engine.weights.safetensors import Checkpoint, save_whole

STATE, LOG = "state.safetensors", "log.jsonl"
MEASURED_GIVENS = (30, 50)
LOG_EVERY = 20  # steps
MAX_STEPS = 10**9
LOG_BYTES = 256 * 2**20  # steps; a step in twenty has a line of 150 bytes


def train_adapter(run: AdapterRun, cancel: Cancel | None = None) -> Iterator[TrainingRecord]:
    """Trains an adapter and yields records of its progress. A run in ``run.out`` is resumed.

    Args:
        cancel: checked between steps; once set, a checkpoint is written, from which the run can be resumed.

    Raises:
        SafelightError: not enough memory, a folder with another run in it, or a loss that is not finite.
    """
    if run.device == "auto" and experimental() is not None:
        run = replace(run, device="cpu")  # an experimental device was not checked for gradients
    folder = catalog.resolve(run.model)
    facts = _facts(run, folder)
    reached = _check_folder(run.out, facts)
    needed, free = require_training_memory(run)
    _require_writable(run.out)
    try:
        model = load_model(folder, run.device, run.dtype, run.quantization, cancel=cancel)
    except SafelightError:
        if cancel is None or not cancel.is_set():
            raise
        yield TrainingEnded(reached, run.steps, run.out)
        return
    trainer = AdapterTrainer(run, model, facts)
    yield TrainingStarted(trainer.step, run.steps, str(model.device), trainer.parameter_count, needed, free)
    yield from trainer.run_steps(cancel)
    yield TrainingEnded(trainer.step, run.steps, run.out)


class AdapterTrainer:
    """A run on a loaded model, which is frozen and keeps the adapter."""

    def __init__(self, run: AdapterRun, model: Model, facts: dict[str, str]) -> None:
        self.run, self.recipe, self.model, self.facts, self.step = run, run.recipe, model, facts, 0
        recipe, network = run.recipe, model.network
        assert isinstance(network, DiffusionGemma), "refused before it was loaded"
        self.network = network
        self.generator = torch.Generator().manual_seed(run.seed)
        self.adapters = new_adapters(network, model.family.targets, recipe.rank, recipe.rank, self.generator)
        self.matrices = {
            f"{path}.{n}": p for path, adapter in self.adapters.items() for n, p in adapter.named_parameters()
        }
        attached = self.adapters
        if network.dtype != torch.float32:
            attached = {path: copy.deepcopy(a).to(network.dtype) for path, a in self.adapters.items()}
        self.attached = [p for adapter in attached.values() for p in adapter.parameters()]
        attach(network, attached)
        self.optimizer = torch.optim.AdamW(self.matrices.values(), lr=recipe.rate, weight_decay=0.0)
        self.format = Format(model, recipe.form)
        self.held_out: list[Pair] = []
        if run.eval_every:
            self.held_out = made_pairs(f"measure-{run.seed}", recipe.eval_count, MEASURED_GIVENS, held_out=True)
        self.log = run.out / LOG
        if (run.out / STATE).exists():
            self._resume()
        self._cut_log()

    @property
    def parameter_count(self) -> int:
        return sum(p.numel() for p in self.matrices.values())

    def run_steps(self, cancel: Cancel | None = None) -> Iterator[TrainingProgress | TrainingMeasured]:
        """Takes all remaining steps, or those before ``cancel`` is set. Writes a checkpoint at the end."""
        run = self.run
        saved, first, sums, seconds = -1, self.step, [0.0, 0.0], 0.0
        while self.step < run.steps and not (cancel is not None and cancel.is_set()):
            started = time.perf_counter()
            factor, taken = self.recipe.factor(self.step, run.steps), self._take_step()
            seconds += time.perf_counter() - started
            sums = [total + value for total, value in zip(sums, taken, strict=True)]
            if self.step % LOG_EVERY == 0 or self.step == run.steps:
                count = self.step - first
                loss, causal = (total / count for total in sums)
                progress = TrainingProgress(
                    step=self.step,
                    steps=run.steps,
                    loss=loss,
                    causal_loss=causal,
                    rate=self.recipe.rate * factor,
                    steps_per_second=count / seconds,
                )
                self._write(progress)
                yield progress
                first, sums, seconds = self.step, [0.0, 0.0], 0.0
            if run.eval_every and self.held_out and (self.step % run.eval_every == 0 or self.step == run.steps):
                measured = self._measure(cancel)
                if measured is not None:
                    self._write(measured)
                    yield measured
            if self.step % run.save_every == 0:
                self.save()
                saved = self.step
        if saved != self.step:  # also if a run was killed between its last checkpoint and the adapter
            self.save()

    def _take_step(self) -> tuple[float, float]:
        """Takes an optimizer step; returns the two losses."""
        recipe = self.recipe
        loss = self._loss()
        losses = loss.denoise.item(), loss.causal.item()
        if not all(map(math.isfinite, losses)):
            raise SafelightError(
                f"the loss is not finite at step {self.step + 1}; continue from the last checkpoint in {self.run.out}, "
                f"with a rate below {recipe.rate:g}"
            )
        loss.total.backward()  # type: ignore[no-untyped-call]
        matrices = list(self.matrices.values())
        for matrix, copied in zip(matrices, self.attached, strict=True):
            if copied is not matrix and copied.grad is not None:
                matrix.grad, copied.grad = copied.grad.float(), None
        torch.nn.utils.clip_grad_norm_(matrices, recipe.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = recipe.rate * recipe.factor(self.step, self.run.steps)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self._set_attached()
        self.step += 1
        return losses

    def _loss(self) -> Loss:
        """Draws puzzles and corrupts their solutions, on the CPU, so that they are the same on any device."""
        recipe, device = self.recipe, self.network.device
        batch = self.format.batch(made_pairs(f"train-{self.run.seed}-{self.step}", recipe.batch, recipe.givens))
        draws = draw(batch.target, self.network.config.vocab_size, self.generator)
        batch = TrainingBatch(batch.ids.to(device), batch.present.to(device), batch.target.to(device))
        draws = Draws(draws.canvas.to(device), draws.conditioned.to(device))
        return uniform_loss(self.network, batch, draws, self.format.end, recipe.recompute)

    @torch.no_grad()
    def _set_attached(self) -> None:
        """Copies the matrices into those that the network computes with, where these are copies."""
        for matrix, seen in zip(self.matrices.values(), self.attached, strict=True):
            if seen is not matrix:
                seen.copy_(matrix)

    def _measure(self, cancel: Cancel | None) -> TrainingMeasured | None:
        return measure(self.format, self.held_out, self.step, self.run.seed, cancel)

    # --- files, each written whole or not at all ------------------------------------------------------------------

    def save(self) -> None:
        """Writes the checkpoint, and the adapter in PEFT's format."""
        tensors: dict[str, Tensor] = {f"matrix.{name}": matrix for name, matrix in self.matrices.items()}
        for name, matrix in self.matrices.items():
            tensors |= {f"optimizer.{key}.{name}": value for key, value in self.optimizer.state[matrix].items()}
        tensors["generator"] = self.generator.get_state()
        facts = self.facts | {"step": str(self.step)}
        out = self.run.out
        save_whole(out / STATE, {k: v.detach().cpu().contiguous().clone() for k, v in tensors.items()}, facts)
        base, base_fingerprint = _base(self.model)
        save_adapter(out, self.adapters, self.model.family.targets, base, base_fingerprint)

    def _resume(self) -> None:
        path = self.run.out / STATE
        checkpoint = Checkpoint(self.run.out, [path])
        try:
            self._restore({name: checkpoint.read(name) for name in checkpoint.headers}, checkpoint.metadata(path))
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
            raise SafelightError(f"{path} is damaged ({error}); give a new folder") from error

    @torch.no_grad()
    def _restore(self, tensors: dict[str, Tensor], facts: dict[str, str]) -> None:
        self.step = int(facts["step"])
        for key, value in tensors.items():
            head, _, rest = key.partition(".")
            if head == "matrix":
                self.matrices[rest].copy_(value)
            elif head == "optimizer":
                field, _, name = rest.partition(".")
                matrix = self.matrices[name]  # AdamW counts its steps on the host
                self.optimizer.state[matrix][field] = value if field == "step" else value.to(matrix.device, copy=True)
        self._set_attached()
        self.generator.set_state(tensors["generator"])

    def _cut_log(self) -> None:
        """Drops log lines after the checkpoint, whose steps are taken again, and a last line that was cut off."""
        if self.log.exists():
            lines = [line for line in read_text(self.log, LOG_BYTES).splitlines() if _step_of(line) <= self.step]
            write_text(self.log, "".join(f"{line}\n" for line in lines))

    def _write(self, record: TrainingProgress | TrainingMeasured) -> None:
        line = json.dumps(asdict(record))
        try:
            with self.log.open("a") as file:
                file.write(f"{line}\n")
        except OSError as fault:
            raise explained(fault, self.log) from fault


def _step_of(line: str) -> float:
    """Returns the step of a line of the log; infinity for a line that cannot be read."""
    try:
        step = json.loads(line)["step"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return math.inf
    return step if isinstance(step, int) else math.inf


def _facts(run: AdapterRun, folder: Path) -> dict[str, str]:
    """Returns the settings that must be unchanged when a run is resumed; others may change."""
    recipe = run.recipe
    try:
        own = fingerprint(folder)
    except OSError as error:
        raise SafelightError(f"{folder} cannot be read: {error.strerror or error}") from error
    return {
        "rank_denoise": str(recipe.rank),
        "rank_causal": str(recipe.rank),
        "batch": str(recipe.batch),
        "form": recipe.form,
        "states": "uniform",  # other runs were once made, whose checkpoints hold other moments
        "seed": str(run.seed),
        "model": folder.name,
        "fingerprint": own,
    }


def _check_folder(out: Path, facts: dict[str, str]) -> int:
    """Returns the step that the run in a folder has reached; 0 if there is none.

    Raises:
        SafelightError: the folder cannot be used, or holds another run.
    """
    try:
        if out.exists() and not out.is_dir():
            raise SafelightError(f"{out} is a file; give a folder for the adapter")
        if not (out / STATE).exists():
            if (out / "config.json").exists() or (out / "adapter_config.json").exists():
                raise SafelightError(f"{out} holds a model or an adapter already; give a new folder")
            return 0
    except OSError as error:
        raise SafelightError(f"{out} cannot be used: {error.strerror or error}. Choose another folder") from error
    try:
        before = Checkpoint(out, [out / STATE]).metadata(out / STATE)
    except SafelightError as error:
        raise SafelightError(f"{out} holds a run that is damaged; give a new folder") from error
    for name, wanted in facts.items():
        if before.get(name) != wanted:
            raise SafelightError(
                f"{out} holds a run whose {name} is {quoted(before.get(name) or 'not known')}, not {quoted(wanted)}; "
                "give a new folder, or the options of that run"
            )
    step = before.get("step", "")
    if not (step.isascii() and step.isdigit() and len(step) <= 10 and int(step) <= MAX_STEPS):
        raise SafelightError(f"{out / STATE} is damaged: its step is {quoted(step)}; give a new folder")
    return int(step)


def _require_writable(out: Path) -> None:
    """Makes the folder and checks that files can be made in it, before slow work begins.

    Raises:
        SafelightError: it cannot be made or written to.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as fault:
        raise explained(fault, out) from fault


def _base(model: Model) -> tuple[str, str]:
    """Returns the name and fingerprint of the adapter's base.

    A fingerprint ties an adapter to one packing, so only embedded models, which have one packing, get it."""
    if packed_store.is_store(model.folder):
        return packed_store.Manifest.read(model.folder / store_files.MANIFEST).source, ""
    embedded = model.folder in {known.folder for known in catalog.EMBEDDED}
    return model.name, fingerprint(model.folder) if embedded else ""


def measure(
    format: Format, pairs: Sequence[Pair], step: int = 0, seed: int = 0, cancel: Cancel | None = None
) -> TrainingMeasured | None:
    """Solves each puzzle once after a step of training, with the model's own settings; None if it was cancelled."""
    threads = torch.get_num_threads()
    try:
        return _measure(format, pairs, step, seed, cancel)
    finally:
        use_threads(threads)  # passes set their own number of threads; training uses more


def _measure(
    format: Format, pairs: Sequence[Pair], step: int, seed: int, cancel: Cancel | None
) -> TrainingMeasured | None:
    model = format.model
    config = model.generation_defaults.replace(max_new_tokens=model.config.canvas_length)
    solved = blanks = right = kept = steps = 0
    for board, solution in pairs:
        ended: GenerationFinished | None = None
        for event in generate(model, format.ids(board), config, seed, cancel):
            if isinstance(event, GenerationFinished):
                ended = event
        assert ended is not None
        if ended.reason == "cancelled":
            return None
        answer = sudoku.read_answer(model.tokenizer.decode(ended.tokens.tolist()))
        verdict = sudoku.judge(board, answer)
        empty = [cell for cell in range(sudoku.SIZE) if board[cell] == "0"]
        solved, kept, steps = solved + verdict.valid, kept + verdict.givens_kept, steps + ended.steps
        blanks, right = blanks + len(empty), right + sum(answer[cell] == solution[cell] for cell in empty)
    count = len(pairs)
    return TrainingMeasured(step, count, solved / count, right / max(1, blanks), kept / count, steps / count)
