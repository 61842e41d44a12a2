"""Rows of decisions: a prompt, a canvas with slots, and the right labels in them. Read in one step, without walks."""

from __future__ import annotations

import functools
import re

import torch
from torch import Tensor

from engine.decoding import sampling
from engine.tasks.decisions.layout import NOISE, CanvasTokens, layout_of
from engine.tasks.decisions.wording import user_text
from small_models import decision_examples as examples
from small_models.rollout import Draw, SlotBatch
from small_models.rows import RowStream, prompt_text, rows_to_batch
from small_models.tokenizer import PAD, SPECIAL, build_tokenizer

TURN_END = SPECIAL.index("<turn|>")
MARKS = 7  # tokens of the turn marks around a message
QUESTION_END = "only."  # the end of each question's wording
# Shares of the examples that are kept if they are only about this: what is learnt early is reduced for the rest.
KEPT = {"weekday": 0.2, "parity": 0.2, "membership": 0.5}
WIDTHS: dict[examples.Form, int] = {"brief": 16, "single": 16, "pair": 16, "joint": 32}


class DecisionSource(RowStream):
    """Draws decisions of one form, whose rows have one length."""

    def __init__(self, form: examples.Form, canvas_length: int, seed: int) -> None:
        super().__init__(seed, form)
        self.form = form
        self.tokenizer = build_tokenizer()
        self.tokens = CanvasTokens(lambda text: self.tokenizer.encode(text).ids, TURN_END, PAD, canvas_length)
        self.prompt_length = examples.FORMS[form][1] + MARKS

    def draw(self, count: int) -> SlotBatch:
        prompts: list[str] = []
        targets: list[list[int]] = []
        slots = torch.zeros(count, WIDTHS[self.form], dtype=torch.bool)
        for row in range(count):
            example = self._example()
            layout = layout_of(example.decision, examples.LABELS, self.tokens)
            target = list(layout.canvas)
            for slot, answer in zip(layout.slots, example.answers, strict=True):
                target[slot.position] = slot.labels[answer][0]
            prompts.append(prompt_text(user_text(example.decision, examples.LABELS)))
            targets.append(target)
            slots[row] = torch.tensor(layout.canvas) == NOISE
        batch = rows_to_batch(self.tokenizer, prompts, targets, self.prompt_length)
        return SlotBatch(batch.ids, batch.present, batch.target, slots)

    def _example(self) -> examples.DecisionExample:
        while True:
            example = examples.sample(self.rng, "train", self.form)
            if self.rng.random() < max(KEPT.get(family, 1.0) for family in example.families):
                return example


@functools.cache
def _end() -> Tensor:
    return torch.tensor(build_tokenizer().encode(QUESTION_END).ids)


def question_ends(ids: Tensor) -> Tensor:
    """Marks the last token of each question in prompts (B, P), in the order of their slots."""
    end = _end()
    found = torch.zeros_like(ids, dtype=torch.bool)
    found[:, len(end) - 1 :] = (ids.unfold(1, len(end), 1) == end).all(dim=-1)
    return found


_LIST, _SIGN = re.compile(r"The list is [^.]+\."), re.compile(r"Is (\w) in the list\?")
_NUMBER, _LIMIT = re.compile(r"The number is (\d+)\."), re.compile(r"(?:than |Compared with )(\d+)[?,]")


def evidence(text: str) -> list[tuple[int, int]]:
    """Finds what a question must look up in its prompt, for questions that compare two things.

    For a letter or digit: the same one in the list, or the list's end if it is not there. For a number: digit by digit,
    the number of the state.

    Returns:
        Pairs of positions in the text: the one that looks, and the one that it looks at.
    """
    found: list[tuple[int, int]] = []
    if there := _LIST.search(text):
        for sign in _SIGN.finditer(text, there.end()):
            place = text.find(f" {sign[1]}", there.start() + len("The list is"), there.end())
            found.append((sign.start(1), there.end() - 1 if place < 0 else place + 1))
    if there := _NUMBER.search(text):
        for limit in _LIMIT.finditer(text, there.end()):
            if limit.end(1) - limit.start(1) > 1:
                found.append((limit.start(1), there.start(1)))
            found.append((limit.end(1) - 1, there.end(1) - 1))
    return found


def evidence_places(ids: Tensor) -> Tensor:
    """Returns the position at which each token of prompts (B, P) should look by ``evidence``, (B, P); -1 for none.

    The end of a question that has evidence should look at the token that looked it up.
    """
    looks = torch.full(ids.shape, -1)
    ends, signs = question_ends(ids), _characters()
    for row, tokens in enumerate(ids.tolist()):
        text = "".join(signs[token] for token in tokens)  # one character per token
        pairs = evidence(text)
        for place, key in pairs:
            looks[row, place] = key
        for end in ends[row].nonzero()[:, 0].tolist():
            begins = text.rfind("Question", 0, end)
            if looked := [place for place, _ in pairs if begins < place < end]:
                looks[row, end] = looked[-1]
    return looks


@functools.cache
def _characters() -> list[str]:
    """Returns each token as one character; a space for tokens that are not one character."""
    tokenizer = build_tokenizer()
    written = (tokenizer.decode([token], skip_special_tokens=True) for token in range(tokenizer.get_vocab_size()))
    return [one if len(one) == 1 else " " for one in written]


class Reads:
    """Holds ``size`` canvases with noise at their slots, new ones in every step, in place of a ``Pool`` with walks."""

    NAMES = ("ids", "present", "target", "slots", "canvas")

    def __init__(self, draw: Draw, size: int, vocab_size: int, generator: torch.Generator) -> None:
        self.draw, self.size, self.vocab_size, self.generator = draw, size, vocab_size, generator
        self.soft = None  # no earlier prediction
        self._renew()

    def _renew(self) -> None:
        batch = self.draw(self.size)
        assert isinstance(batch, SlotBatch)
        self.ids, self.present, self.target, self.slots = batch.ids, batch.present, batch.target, batch.slots
        noise = sampling.uniform_tokens(tuple(batch.target.shape), self.vocab_size, self.generator)
        self.canvas = torch.where(batch.slots, noise, batch.target)

    @property
    def looks(self) -> Tensor:
        """Returns the positions at which tokens of the prompts should look, (B, P)."""
        return evidence_places(self.ids)

    @torch.no_grad()
    def advance(self, logits: Tensor, retire: float) -> Tensor:  # noqa: ARG002
        """Replaces the rows that the logits (B, C, V) answer by new ones.

        Returns:
            The share of the slots whose argmax is right, a tensor without dimensions.
        """
        right = (logits.argmax(dim=-1) == self.target) & self.slots
        share = right.sum() / self.slots.sum()
        self._renew()
        return share
