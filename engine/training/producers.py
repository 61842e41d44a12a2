"""The rows of a run's pools: made between the steps, or ahead by processes. Knows no model.

On two cores rows are made between the steps, each source from one random stream, whose state is in the checkpoint.

A GPU must not wait, so there processes make blocks of rows ahead. A block's rows depend on the seed, the feed and the
block's number, not on how many processes there are; a resumed run needs only its step. Of n processes each makes every
n-th block and keeps one ready until its pipe is read. When the trainer ends for any reason, the pipe closes and the
process ends.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor

from engine.errors import SafelightError
from engine.training.data.corpus import SkillSource, SudokuSource
from engine.training.data.decisions import DecisionSource
from engine.training.data.drawings import DrawingSource, SudokuPartSource, SudokuPictureSource
from engine.training.data.gaps import GapSource
from engine.training.data.pictures import PictureRows
from engine.training.data.rollout import TrainingBatch
from engine.training.data.text_rows import TextRows
from engine.training.data.text_source import TextSource
from engine.training.data.tool_rows import ToolSource
from engine.training.minimal import minimal_puzzles
from engine.training.recipes.causal import CausalRecipe
from engine.training.recipes.embedded import Recipe
from engine.training.recipes.recipe import Feed, TrainingRecipe

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext  # the first does not exist on Windows


Source = SudokuSource | SkillSource | GapSource | ToolSource | DecisionSource | DrawingSource | TextSource


def open_source(feed: Feed, recipe: TrainingRecipe, seed: int, puzzles: Path) -> Source:
    """Opens the source of a feed's rows. ``puzzles`` is a file of minimal puzzles, which Sudokus are varied from."""
    if isinstance(recipe, CausalRecipe):
        return TextSource(recipe, seed)
    assert isinstance(recipe, Recipe)
    if feed.kind == "sudoku":
        return SudokuSource(puzzles, recipe.canvas_length, seed)
    if feed.kind == "short" or feed.kind == "long":
        return SkillSource(recipe.canvas_length, seed, long=feed.kind == "long")
    if feed.kind == "drawings" or feed.kind == "sudokus" or feed.kind == "cells":
        assert recipe.vision is not None
        pictures = {"drawings": DrawingSource, "sudokus": SudokuPictureSource, "cells": SudokuPartSource}
        return pictures[feed.kind](recipe.canvas_length, seed, recipe.vision, feed.budget, feed.kind)
    if feed.kind == "gap" or feed.kind == "gaps":
        return GapSource(recipe.canvas_length, seed, several=feed.kind == "gaps")
    if feed.kind == "calls" or feed.kind == "results":
        return ToolSource(recipe.canvas_length, seed, results=feed.kind == "results")
    assert feed.kind != "text"
    return DecisionSource(feed.kind, recipe.canvas_length, seed)


@dataclass(frozen=True)
class RowPlan:
    """The settings that determine a run's rows. ``step`` is the run's first, or the one that it resumes from."""

    recipe: TrainingRecipe
    trained: bool
    seed: int
    puzzles: Path
    step: int

    def feeds(self) -> list[Feed]:
        return self.recipe.feeds(self.trained)

    def open(self) -> list[Source]:
        return [open_source(feed, self.recipe, self.seed, self.puzzles) for feed in self.feeds()]

    def set_givens(self, source: Source, step: int) -> None:
        if isinstance(source, SudokuSource) and isinstance(self.recipe, Recipe):
            source.givens = self.recipe.givens(step, self.trained)

    def blocks(self) -> Iterator[tuple[int, int]]:
        """Yields (feed, number of its block) in the order of use; those that fill the pools come first.

        A feed's use at step n * every takes block n + 1.
        """
        feeds = self.feeds()
        yield from ((index, -(-self.step // feed.every)) for index, feed in enumerate(feeds))
        step = self.step
        while True:
            yield from ((i, step // feed.every + 1) for i, feed in enumerate(feeds) if step % feed.every == 0)
            step += 1

    def make(self, source: Source, index: int, block: int) -> TrainingBatch | TextRows | PictureRows:
        """Makes the rows of a feed's block."""
        feed = self.feeds()[index]
        source.reseed(block)
        self.set_givens(source, (block - 1) * feed.every)
        return source.draw(feed.rows)


class Inline:
    """Makes rows when they are asked for, on the CPU."""

    def __init__(self, plan: RowPlan) -> None:
        self.plan = plan
        self.sources = plan.open()
        self.waited = 0.0  # seconds that steps were kept waiting for rows
        if plan.step:  # of a run whose rows were made ahead; other runs restore their streams
            for source in self.sources:
                source.reseed(plan.step)

    def draw(self, index: int, count: int) -> Any:
        """Returns rows of a feed, as its source makes them."""
        started = time.perf_counter()
        batch = self.sources[index].draw(count)
        self.waited += time.perf_counter() - started
        return batch

    def set_step(self, step: int) -> None:
        """Sets the step for which the next rows are drawn."""
        for source in self.sources:
            self.plan.set_givens(source, step)

    def state(self) -> list[Any]:
        """Returns the state of the random streams, as plain JSON."""
        return [source.state() for source in self.sources]

    def restore(self, state: list[Any]) -> None:
        for source, stood in zip(self.sources, state, strict=True):
            source.restore(stood)

    def close(self) -> None:
        pass


class Producers:
    """Takes rows made ahead by ``recipe.producers`` processes, and moves them to a device without waiting for it."""

    def __init__(self, plan: RowPlan, device: torch.device) -> None:
        self.device = device
        self.blocks = plan.blocks()
        self.taken = 0
        self.waited = 0.0  # as of ``Inline``
        self.feeds = plan.feeds()
        self.widths = [source.prompt_length for source in plan.open()]
        context = _context()
        self.pipes: list[Connection] = []
        self.processes = []
        for worker in range(plan.recipe.producers):
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_produce, args=(theirs, plan, worker), daemon=True)
            self.pipes.append(ours)
            self.processes.append(process)
            process.start()
            theirs.close()

    def draw(self, index: int, count: int) -> Any:
        """Returns the next block, which must be of this feed."""
        turn = self.taken % len(self.pipes)
        started = time.perf_counter()
        try:
            packed = bytearray(self.pipes[turn].recv_bytes())
        except EOFError:
            self.processes[turn].join(1.0)
            status = self.processes[turn].exitcode
            raise SafelightError(f"a process that makes rows ended (status {status}); start the run again") from None
        self.waited += time.perf_counter() - started
        self.taken += 1
        assert next(self.blocks)[0] == index
        feed = self.feeds[index]
        rows = torch.frombuffer(packed, dtype=torch.uint8).view(count, -1)
        if self.device.type == "cuda":
            rows = rows.pin_memory()
        rows = rows.to(self.device, non_blocking=True)
        if feed.kind == "text":
            return TextRows.unpacked(rows, self.widths[index])
        if feed.kind in ("drawings", "sudokus", "cells"):
            return PictureRows.unpacked(rows, feed.budget)
        return unpacked(rows, self.widths[index], feed.has_slots)

    def set_step(self, step: int) -> None:
        pass

    def state(self) -> list[Any]:
        return []  # it follows from the step

    def restore(self, state: list[Any]) -> None:
        pass

    def close(self) -> None:
        """Ends the processes."""
        for pipe in self.pipes:
            pipe.close()
        for process in self.processes:
            process.join(5.0)
            if process.is_alive():
                process.kill()
                process.join()
        self.pipes, self.processes = [], []


RowSource: TypeAlias = Inline | Producers


def packed(batch: TrainingBatch | TextRows | PictureRows) -> Tensor:
    """Packs rows as bytes (B, N): prompt ids, their presence, target canvases, and the slots of decisions."""
    if isinstance(batch, TextRows | PictureRows):
        return batch.packed()
    slots = [] if batch.slots is None else [batch.slots]
    return torch.cat([batch.ids, batch.present, batch.target, *slots], dim=1).to(torch.uint8)


def unpacked(rows: Tensor, width: int, has_slots: bool) -> TrainingBatch:
    """Restores rows from ``packed``. ``width``: of the prompts."""
    ids, present, rest = rows[:, :width].long(), rows[:, width : 2 * width].bool(), rows[:, 2 * width :]
    if not has_slots:
        return TrainingBatch(ids, present, rest.long())
    target, slots = rest.chunk(2, dim=1)
    return TrainingBatch(ids, present, target.long(), slots.bool())


def open_rows(plan: RowPlan, device: torch.device) -> RowSource:
    """Opens the rows of a run; missing minimal puzzles are made first."""
    if isinstance(plan.recipe, Recipe) and any(feed.kind == "sudoku" for feed in plan.feeds()):
        for made in minimal_puzzles(plan.recipe.puzzles, plan.puzzles, max(1, plan.recipe.producers)):
            if made % 500 == 0:
                print(f"puzzles {made}", flush=True)
    return Producers(plan, device) if plan.recipe.producers else Inline(plan)


def _context() -> SpawnContext | ForkServerContext:
    """Returns a context whose processes inherit none of this process's pipes, unlike a plain fork.

    If possible, they are forked from a server process that has imported torch once."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


def _produce(pipe: Connection, plan: RowPlan, worker: int) -> None:
    """Makes every n-th block and sends it as bytes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C reaches the trainer, which closes the pipe
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(1)
    sources = plan.open()
    for index, block in islice(plan.blocks(), worker, None, plan.recipe.producers):
        rows = packed(plan.make(sources[index], index, block))
        try:
            pipe.send_bytes(rows.numpy().tobytes())
        except OSError:
            return
