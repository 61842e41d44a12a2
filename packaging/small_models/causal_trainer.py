"""A training run of a small dense model, by the objective of its recipe.

A draft is trained on a finished masked run, whose averaged weights stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import Parameter

from engine.adapters.draft import SCALING, TARGETS
from engine.adapters.lora import LayerAdapter, attach, new_adapters
from engine.errors import SafelightError
from engine.models.causal.network import CausalNetwork
from small_models.causal_recipes import CausalRecipe
from small_models.causal_start import averaged
from small_models.checkpointing import under
from small_models.loop import State, TrainingLoop, has_bf16, initialise_matrices
from small_models.text_loss import read_rows, right_texts, text_loss
from small_models.text_rows import TextRows

BASE = "base."  # prefix of a draft's frozen weights in a checkpoint
MAX_TEXTS = 16  # texts of a row that are reported on


def add_draft(network: CausalNetwork, rank: int, generator: torch.Generator) -> dict[str, LayerAdapter]:
    """Adds a new draft to all layers, which changes nothing yet; returns it by their paths."""
    drafts = new_adapters(network, TARGETS, rank, 0, generator, SCALING)
    attach(network, drafts)
    return drafts


class CausalTrainer(TrainingLoop):
    """A run of a dense causal model.

    Args:
        compiled: compile the pass, which takes a minute or two.
        start: folder of a run or of an exported model to take the first weights from; a draft needs a masked one's.
    """

    recipe: CausalRecipe

    def __init__(
        self,
        recipe: CausalRecipe,
        folder: Path,
        seed: int = 0,
        compiled: bool = False,
        start: Path | None = None,
    ) -> None:
        is_draft = recipe.objective == "draft"
        first = None if start is None else averaged(start, recipe)
        if is_draft and (first is None or first[1] != "masked"):
            raise SafelightError(
                "a draft is trained on a masked model; give the folder of its run, or of the model, as --start"
            )
        super().__init__(recipe, folder, seed, trained=start is not None and not is_draft)
        generator = torch.Generator().manual_seed(seed)
        self.network = CausalNetwork(recipe.model_config())
        if first is None:
            initialise_matrices(self.network, generator)
        else:
            self.network.load_state_dict(first[0])
        named: dict[str, Parameter] = dict(self.network.named_parameters())
        if is_draft:
            self.network.requires_grad_(False)
            drafts = add_draft(self.network, recipe.rank, generator)
            named = {f"{path}.{n}": p for path, draft in drafts.items() for n, p in draft.named_parameters()}
        self._train(named, generator)
        self.forward: Callable[[Tensor], tuple[Tensor, Tensor, Tensor]] = self._forward
        if compiled:
            self._fill_tables()
            self.forward = torch.compile(self._forward, dynamic=False)
        self._open()

    def _add_gradients(self) -> dict[str, Tensor]:
        rows: TextRows = self.sources[0].draw(self.recipe.rows)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=has_bf16()):
            causal, masked, right = self.forward(rows.table)
        loss = masked if self.recipe.objective == "draft" else causal + masked
        loss.backward()  # type: ignore[no-untyped-call]
        return {"causal": causal.detach(), "masked": masked.detach(), "right": right}

    def _forward(self, table: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        rows = TextRows(table)
        logits = read_rows(self.network, rows, is_causal=self.recipe.objective == "wedlm")
        loss = text_loss(logits, rows)
        right, there = right_texts(logits.detach(), rows, MAX_TEXTS)
        return loss.causal, loss.masked, right.sum() / there.sum()

    @torch.no_grad()
    def _fill_tables(self) -> None:
        """Fills the network's tables before it is compiled; if they were filled later, it would be compiled again."""
        zero = torch.zeros(1, 1, dtype=torch.long)
        self.network.run(zero, zero[:, None], None)

    def _begin(self, before: State | None) -> None:
        if before is None:
            return
        if base := under(BASE, before[0]):
            self.network.load_state_dict(base)
        self._resume_streams(*before)

    def _more_tensors(self) -> dict[str, Tensor]:
        if self.recipe.objective != "draft":
            return {}
        return {BASE + name: tensor for name, tensor in self.network.state_dict().items()}
