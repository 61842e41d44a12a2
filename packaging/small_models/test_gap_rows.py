"""Rows of texts with a gap, and their walks: what stands around a gap is given and stays."""

from __future__ import annotations

import pytest
import torch

from engine.config import GAP_LENGTHS
from engine.text.outline import INSTRUCTION
from engine.training.puzzles import left_padded
from small_models.gap_rows import PROMPT_LENGTH, GapPool, GapSource
from small_models.losses import TAIL, gap_loss
from small_models.rollout import SlotBatch
from small_models.tokenizer import EOS, PAD


def test_a_row_is_a_text_of_the_task_whose_gap_alone_is_open() -> None:
    source, on_canvas, lengths = GapSource(64, 3), 0, set[bool]()
    batch = source.draw(200)
    for ids, present, target, slots in zip(batch.ids, batch.present, batch.target, batch.slots, strict=True):
        prompt = source.tokenizer.decode(ids[present].tolist(), skip_special_tokens=False)
        head, before = prompt.split("<|turn>model\n")
        assert INSTRUCTION in head
        assert len(ids) == PROMPT_LENGTH
        first, last = int(slots.nonzero()[0]), int(slots.nonzero()[-1])
        assert bool(slots[first : last + 1].all())
        filled = target[first : last + 1]
        answer = filled[filled != PAD]
        assert bool((filled[len(answer) :] == PAD).all())  # padding is behind the answer alone
        assert len(answer) == len(filled) or len(filled) in GAP_LENGTHS
        is_end = (target[last + 1 :] == EOS).int()
        assert bool((is_end.diff() >= 0).all())  # nothing follows an end token; a full canvas has none
        on_canvas += first > 0
        assert not (first > 0 and before)
        lengths.add(len(answer) == len(filled))
    assert 20 < on_canvas < 180
    assert lengths == {True, False}


def test_walks_keep_what_is_given_and_begin_again_with_their_own_gap() -> None:
    def draw(count: int) -> SlotBatch:
        nonlocal drawn
        drawn += count
        target = torch.full((count, 6), 10 + drawn % 40)
        slots = torch.zeros(count, 6, dtype=torch.bool)
        slots[:, drawn % 5] = True
        batch = left_padded([[2]] * count, target.tolist(), 2)
        return SlotBatch(batch.ids, batch.present, batch.target, slots)

    drawn = 0
    pool, generator = GapPool(draw, 4, 64, torch.Generator().manual_seed(0)), torch.Generator().manual_seed(1)
    for _ in range(40):
        assert pool.slots is not None
        assert bool(((pool.canvas == pool.target) | pool.slots).all())
        assert pool.slots.sum(dim=1).tolist() == [1] * 4
        assert [int(row.nonzero()) for row in pool.slots] == [(value - 10) % 5 for value in pool.target[:, 0].tolist()]
        right = pool.advance(torch.randn(4, 6, 64, generator=generator), 0.3)
        assert 0 <= right <= 1
    assert drawn > 8


def test_the_loss_is_that_of_the_gap_and_counts_its_padding_once() -> None:
    target = torch.tensor([[5, 6, PAD, PAD, PAD, 7, EOS, EOS]])
    slots = torch.tensor([[False, True, True, True, True, False, False, False]])
    logits = torch.zeros(1, 8, 9)
    share = (2 * 8) ** -0.5
    expected = torch.tensor(9.0).log() * (2 * share + 2 * TAIL / 8)
    assert gap_loss(logits, target, slots).item() == pytest.approx(expected.item())
    logits[0, [0, 5, 6, 7], 3] = 50.0  # wrong where the text is given
    assert gap_loss(logits, target, slots).item() == pytest.approx(expected.item())
