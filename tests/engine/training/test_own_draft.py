"""A draft is trained on text that the network wrote itself: as written one by one, resumable, and read back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from engine import GenerationConfig, Model
from engine.adapters.draft import BranchMasks, read_branch_draft
from engine.errors import SafelightError
from engine.models.causal.layout import targets
from engine.models.causal.network import CausalNetwork
from engine.training.data.own_text import OwnText, answer_all
from engine.training.own_draft import OwnDraftRecipe, OwnDraftTrainer
from tests.engine.causal import masked_network, plain_logits

ENDS = (3,)
RECIPE = OwnDraftRecipe(mask=8, steps=40, size=2, rank=4, branches=8, batch=4, rate=0.02, warmup=2)


def model_of(network: CausalNetwork) -> Model:
    return cast(Any, SimpleNamespace(network=network, name="tiny", family=SimpleNamespace(targets=targets("model."))))


@pytest.mark.parametrize("penalty", [1.0, 1.3])
def test_answers_written_together_are_those_written_alone(penalty: float) -> None:
    network = masked_network(2)
    prompts = [[1, 2], [5, 6, 7, 1, 0], [4], [0, 5, 6]]
    config = GenerationConfig(eos_token_ids=ENDS, repetition_penalty=penalty, pad_token_id=8)
    texts = answer_all(network, prompts, config, 9, torch.Generator())
    for prompt, text in zip(prompts, texts, strict=True):
        alone = list(prompt)
        while len(alone) < len(prompt) + 9 and not (len(alone) > len(prompt) and alone[-1] in ENDS):
            logits = plain_logits(network, alone)[-1].clone()
            seen = torch.tensor(sorted(set(alone)))
            logits[seen] = torch.where(logits[seen] < 0, logits[seen] * penalty, logits[seen] / penalty)
            alone.append(int(logits.argmax()))
        assert text.ids.tolist() == alone
        assert text.prompt == len(prompt)
    assert len({len(text.ids) for text in texts}) > 1


def texts_of(network: CausalNetwork) -> list[OwnText]:
    draws = torch.Generator().manual_seed(1)
    prompts = torch.randint(8, (40, 4), generator=draws).tolist()
    return answer_all(network, prompts, GenerationConfig(eos_token_ids=()), 20, draws)


def test_a_draft_learns_what_comes_next_and_a_resumed_run_is_the_same_run(tmp_path: Path) -> None:
    network = masked_network(5, sharpness=4.0)
    texts = texts_of(network)
    whole = OwnDraftTrainer(model_of(network), texts, RECIPE, tmp_path / "whole")
    records = list(whole.run(save_every=10))
    assert records[-1]["loss"] < 0.8 * records[0]["loss"]
    assert records[-1]["right1"] > 0.5  # of nine tokens

    first = OwnDraftTrainer(model_of(network), texts, RECIPE, tmp_path / "parts")
    for record in first.run(save_every=10):
        if record["step"] == 20:
            break
    second = OwnDraftTrainer(model_of(network), texts, RECIPE, tmp_path / "parts")
    assert second.step == 20
    assert [record["loss"] for record in second.run(save_every=10)] == [record["loss"] for record in records[2:]]

    second.export(tmp_path / "draft", model_of(network))
    fresh = masked_network(5, sharpness=4.0)
    draft = read_branch_draft(tmp_path / "draft", fresh, targets("model."), fresh.device, fresh.dtype, 10**9)
    assert draft.masks == BranchMasks(8, 2)

    rank_2 = replace(RECIPE, rank=2)
    with pytest.raises(SafelightError, match="rank"):
        OwnDraftTrainer(model_of(network), texts, rank_2, tmp_path / "other", start=draft)
    still = replace(RECIPE, steps=10, rate=0.0)  # reads the rows of the first ten steps, and learns nothing
    assert next(OwnDraftTrainer(model_of(network), texts, still, tmp_path / "on", start=draft).run())["loss"] < (
        1.1 * records[-1]["loss"]
    )
