"""A training run of a small DiffusionGemma, or of an adapter over one.

Loss: cross entropy on states from ``rollout``, weighted so that short answers count. The rest is in ``loop``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from engine.adapters.lora import attach, new_adapters
from engine.models.diffusion_gemma.config import TARGETS
from engine.models.diffusion_gemma.network import DiffusionGemma
from small_models.decision_rows import Reads, question_ends
from small_models.distillation import Teacher, answer_places, layer_loss, surprise_loss, take_weights
from small_models.gap_rows import GapPool
from small_models.loop import State, TrainingLoop, has_bf16, initialise_matrices
from small_models.losses import canvas_loss, cross_entropy, evidence_loss, gap_loss, lookup_loss, slot_loss
from small_models.network import RunLayer, attention, encode, predict, text_attention, through_layer
from small_models.picture_rows import PictureReads
from small_models.recipes import Feed, Recipe
from small_models.rollout import Pool

# At the end of each question the output of the first two of these layers predicts its answer; in the last two its slot
# should look there. A question's evidence is looked up one layer before its end looks at what was found.
ASKED, LOOKING, LOOKED = (-3, -2), (-2, -1), 0.3
LOOKS_UP, FINDS = -4, -3

AnyPool = Pool | Reads | PictureReads


def initialise(model: DiffusionGemma, generator: torch.Generator) -> None:
    """Draws matrices with variance 1 / fan-in, and norms with which attention, which is unscaled, starts soft."""
    initialise_matrices(model, generator)
    with torch.no_grad():
        for name, param in model.named_parameters():
            if name.endswith(("q_norm.weight", "k_norm.weight")):
                param.fill_(param.shape[0] ** -0.25)


class Trainer(TrainingLoop):
    """A run of a DiffusionGemma.

    Args:
        compiled: compile the passes, which takes a minute or two for each kind of row.
        start: checkpoint folder to take the first weights from. A trained model has learnt the easy part: it gets hard
            puzzles, long walks, half the rates.
        teachers: folders of trained models by the names that the recipe's feeds give them.
    """

    recipe: Recipe

    def __init__(
        self,
        recipe: Recipe,
        folder: Path,
        seed: int = 0,
        compiled: bool = False,
        start: Path | None = None,
        teachers: Mapping[str, Path] | None = None,
    ) -> None:
        super().__init__(recipe, folder, seed, trained=start is not None)
        self.compiled = compiled
        generator = torch.Generator().manual_seed(seed)
        self.model = DiffusionGemma(recipe.model_config())
        initialise(self.model, generator)
        if start is not None:
            take_weights(self.model, start)
        self._teachers = {name: Teacher(recipe, place) for name, place in (teachers or {}).items()}
        self._teacher: Teacher | None = None  # of the rows at hand
        self._take_parameters(generator)
        self.forward: Callable[..., tuple[Tensor, Tensor]] = self._forward
        self.run_layer: RunLayer = through_layer
        if compiled and recipe.mix:
            # layer by layer: with gradients through the prompt, all at once compile for over ten minutes on two cores
            torch._dynamo.config.recompile_limit = 100
            self.run_layer = torch.compile(through_layer, dynamic=False)
        elif compiled:
            # fills the model's frequencies; if they were filled later, the model would be compiled again
            self.model.ropes(torch.zeros(1), torch.float32)
            self.forward = torch.compile(self._forward, dynamic=False)
        self.pools: list[AnyPool] = []
        self._open()

    def _take_parameters(self, generator: torch.Generator) -> None:
        """Calls ``_train`` with the parameters to be trained."""
        self._train(dict(self.model.named_parameters()), generator)

    def _add_gradients(self) -> dict[str, Tensor]:
        recipe, found = self.recipe, dict[str, Tensor]()
        late = self.trained or self.done >= (1 - recipe.late_share) * recipe.whole
        for index, (feed, pool) in enumerate(zip(recipe.feeds(self.trained), self.pools, strict=True)):
            if self.step % feed.every:
                continue
            self._teacher = self._teachers.get(feed.teacher)
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=has_bf16()):
                loss, logits, more = self._loss(pool)
            self._add_gradient(loss)
            right = pool.advance(logits.detach(), recipe.retire_late if late else recipe.retire_early)
            found |= {f"loss{index}": loss.detach(), f"right{index}": right}
            found |= {f"{name}{index}": value for name, value in more.items()}
        return found

    def _add_gradient(self, loss: Tensor) -> None:
        """Adds the gradient of one pool's loss to those of others."""
        loss.backward()  # type: ignore[no-untyped-call]

    def _loss(self, pool: AnyPool) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Computes a pool's loss and logits, and further numbers to report."""
        assert not isinstance(pool, PictureReads)
        inputs = pool.ids, pool.present, pool.canvas, pool.soft, pool.target, pool.slots, pool.looks
        return *self.forward(*inputs), {}

    def _forward(
        self,
        ids: Tensor,
        present: Tensor,
        canvas: Tensor,
        soft: Tensor | None,
        target: Tensor,
        slots: Tensor | None,
        looks: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        read, written = list[Tensor](), list[Tensor]()  # the layers' outputs, for slots that should look
        padded = None if self.recipe.is_sudoku else present
        # without gradients a third of the time is saved; a trained model has learnt to read prompts
        with torch.set_grad_enabled(not self.trained or bool(self.recipe.mix)):
            is_kept = looks is not None or self._teacher is not None
            _, prefix = encode(self.model, ids, padded, run_layer=self.run_layer, outputs=read if is_kept else None)
        logits = predict(self.model, canvas, soft, prefix, padded, self.run_layer, written if is_kept else None)
        loss = torch.zeros(())
        if self._teacher is not None:
            wanted, others_read, others_written = self._teacher.look(ids, present, canvas, soft, self.run_layer)
            loss = surprise_loss(logits, wanted, target, slots)
            share = min(1.0, 2.0 * (1.0 - self.done / self.recipe.whole))
            loss = loss + 0.5 * share * layer_loss(read, others_read, present)
            loss = loss + 0.5 * share * layer_loss(written, others_written, answer_places(target, slots))
        if slots is None:
            return loss + canvas_loss(logits, target), logits
        if looks is None:
            return loss + gap_loss(logits, target, slots), logits
        # the end of each question predicts its answer, too, below the layers in which its slot should look there
        ends, answers = question_ends(ids), target[slots]
        loss = loss + slot_loss(logits, target, slots)
        for layer in ASKED:
            loss = loss + cross_entropy(self.model, self.model.norm(read[layer][ends]), answers)
        for layer in LOOKING:
            attended = attention(self.model, layer, written[layer - 1], prefix, padded)
            loss = loss + LOOKED * lookup_loss(attended, slots, ends)
        for layer, where in ((LOOKS_UP, (looks >= 0) & ~ends), (FINDS, (looks >= 0) & ends)):
            rows, places = where.nonzero(as_tuple=True)
            if len(rows):
                attended = text_attention(self.model, layer, read[layer - 1], prefix, present, (rows, places))
                loss = loss + LOOKED * evidence_loss(attended, looks[rows, places])
        return loss, logits

    def _pool(self, index: int, feed: Feed) -> AnyPool:
        draw, size = self.sources[index].draw, self.model.config.vocab_size
        if feed.is_read:
            return Reads(draw, feed.rows, size, self.generator)
        kind = GapPool if feed.has_slots else Pool
        return kind(draw, feed.rows, size, self.generator)

    def _begin(self, before: State | None) -> None:
        """Opens the pools, and restores what they held."""
        self.pools = [self._pool(index, feed) for index, feed in enumerate(self.recipe.feeds(self.trained))]
        if before is None:
            return
        for index, pool in enumerate(self.pools):
            for name in pool.NAMES:
                setattr(pool, name, before[0][f"pool{index}.{name}"])
        self._resume_streams(*before)

    def _more_tensors(self) -> dict[str, Tensor]:
        return {f"pool{i}.{name}": getattr(pool, name) for i, pool in enumerate(self.pools) for name in pool.NAMES}


class AdapterTrainer(Trainer):
    """A run of an adapter of the canvas, over the weights of ``start``, which stay as they are."""

    def _take_parameters(self, generator: torch.Generator) -> None:
        self.trained = False  # easy puzzles and short walks first, as for a new model
        self.model.requires_grad_(False)
        adapters = new_adapters(self.model, TARGETS, self.recipe.rank, 0, generator)
        attach(self.model, adapters)
        named = {f"{path}.{n}": p for path, adapter in adapters.items() for n, p in adapter.named_parameters()}
        self._train(named, generator)
