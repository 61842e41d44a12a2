"""Drafting: each pass verifies the tokens that the pass before has guessed, and guesses the next ones.

The rows of a pass are the last token, the guesses behind it, and branches of masks. The model's own weights decide at
the first rows, causally: a token is drawn behind each row, and a guess stands if it is the token drawn. So the text is
that of autoregressive decoding with the same seed. (On a card, or unpacked, a pass of many rows sums in another order
than one of a single row: two tokens that are equally likely to rounding may then change places.)

A branch of masks, which alone have the draft adapter's additions, guesses the tokens behind one of those rows. The
branch behind the row where the verified text ends is the next pass's guess. Where rows are dear, as on a processor,
masks may cost more than they save; ``Worth`` then leaves them out, which changes no token.

Where the text repeats itself or its prompt, the guess is what came behind the same tokens before, which needs no
adapter. Sources: arXiv 2507.11851 for masks in the verifying pass, github.com/apoorvumang/prompt-lookup-decoding.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from engine.adapters.draft import DraftAdapter
from engine.decoding.masked_run import MaskedRun
from engine.decoding.protocols import Decoding
from engine.decoding.run import Run
from engine.decoding.written_run import refuse_noise
from engine.layers.branches import Branches
from engine.models.model import Model

MOST_ROWS = 8  # of a pass
MOST_FOUND = 7  # tokens of a guess that was found in the text
MATCH = 3  # last tokens that must have come before
FOUND_SHARE = 0.8  # probability at which a token that was found is taken to stand
LEAST_SHARE = 0.1  # probability under which a guess is not worth its row
TEST, RETRY, MOST_RETRY = 8, 128, 4096  # passes of the slower kind, and of the faster one between such tests


@dataclass(frozen=True)
class Guess:
    """Guessed tokens behind the text's last one, and how probable each is if those before it stand."""

    tokens: Sequence[int] = ()
    shares: Sequence[float] = ()

    def cut(self, most: int) -> Guess:
        """Returns the first tokens, at most ``most``, up to the first that is hardly reached."""
        count, reached = 0, 1.0
        for share in self.shares[: max(0, most)]:
            reached *= share
            if reached < LEAST_SHARE:
                break
            count += 1
        return Guess(self.tokens[:count], self.shares[:count])

    def likeliest_ends(self, most: int) -> tuple[int, ...]:
        """Returns after how many of the tokens the verified text is likeliest to end: ``most`` counts, in order."""
        ends, reached = list[float](), 1.0
        for share in self.shares:
            ends.append(reached * (1 - share))
            reached *= share
        ends.append(reached)
        likeliest = sorted(range(len(ends)), key=ends.__getitem__, reverse=True)
        return tuple(sorted(likeliest[: max(0, most)]))


class Worth:
    """Decides whether masks are worth their rows: passes with and without them are timed, and the faster kind is taken.

    The slower kind is tried again after ``RETRY`` passes, then after twice as many, up to ``MOST_RETRY``.
    """

    def __init__(self) -> None:
        self.has_masks = True
        self._rates = dict[bool, float]()  # tokens a second with masks and without, when they were last taken
        self._is_test, self._left, self._retry = True, TEST, RETRY
        self._tokens, self._seconds = 0, 0.0

    def record(self, tokens: int, seconds: float) -> None:
        """Counts a pass, of the kind that ``has_masks`` says, and chooses the kind of the next one."""
        self._tokens, self._seconds, self._left = self._tokens + tokens, self._seconds + seconds, self._left - 1
        if not self._left:
            self._rates[self.has_masks] = self._tokens / max(self._seconds, 1e-9)
            self._tokens, self._seconds = 0, 0.0
            self._choose()

    def _choose(self) -> None:
        if len(self._rates) == 1 or not self._is_test:
            self.has_masks, self._is_test, self._left = not self.has_masks, True, TEST
            return
        faster = self._rates[True] >= self._rates[False]
        self._retry = RETRY if faster == self.has_masks else min(MOST_RETRY, 2 * self._retry)
        self.has_masks, self._is_test, self._left = faster, False, self._retry


_WORTH: WeakKeyDictionary[DraftAdapter, Worth] = WeakKeyDictionary()  # from run to run


@torch.inference_mode()  # as a decorator it is off while the generator is suspended
def drafting(run: Run, draft: DraftAdapter | None = None, worth: Worth | None = None) -> Decoding[None]:
    """Generates text after the prompt. A cancelled run ends within one pass.

    At the end the cache holds the prompt and the text without its last token.

    Args:
        draft: adds to the masks; None takes the model's own, if it has one of this kind.
        worth: decides whether passes have masks; None takes what earlier runs with the draft have found.

    Raises:
        SafelightError: settings of a canvas of noise.
    """
    refuse_noise(run)
    if draft is None and isinstance(run.model, Model):
        draft = run.model.draft
    state = MaskedRun(run, in_order=True, mask=run.config.pad_token_id)
    can_cut = not any(layer.is_sliding for layer in run.model.config.layers)  # else a cache may not shrink
    found = _Found(run.prompt.tolist())
    draft = draft if can_cut else None
    if worth is None:
        worth = Worth() if draft is None else _WORTH.setdefault(draft, Worth())
    token, guess = int(run.prompt[-1]), Guess()
    yield from state.begin(unread=1)
    while state.goes_on():
        before, clock = state.length, time.perf_counter()
        guess = yield from _pass(state, token, guess if can_cut else Guess(), draft if worth.has_masks else None)
        worth.record(state.length - before, time.perf_counter() - clock)
        new = [state.text[place] for place in range(before, state.length)]
        if new:
            token = new[-1]
            found.add(new)
            guess = found.guess() or guess
    yield from state.finish()


def _pass(state: MaskedRun, token: int, guess: Guess, draft: DraftAdapter | None) -> Decoding[Guess]:
    """Reads the last token and the guess, and writes what stands and one token more; returns the next guess."""
    clock, held = time.perf_counter(), state.cache.length
    guess = guess.cut(min(MOST_ROWS, state.limit - state.length) - 1)
    ids = [token, *guess.tokens]
    count, ends = len(ids), tuple[int, ...]()
    masks = None if draft is None else draft.masks
    if masks is not None and held + count + masks.size <= state.run.model.config.max_position_embeddings:
        ends = guess.likeliest_ends((MOST_ROWS - count) // masks.size)
        ids += [masks.token] * (len(ends) * masks.size)
    branches = Branches(count, ends, masks.size if masks else 0) if len(ids) > 1 else None
    logits = yield from state.read(ids, count, draft=draft if ends else None, branches=branches)
    tokens = state.budget.ending(_verified(state, guess, logits[:count]))
    written = len(tokens)
    state.cache.truncate(held + written)
    places = range(state.length, state.length + written)
    predicted = state.predicted(places, logits[:written], tokens)
    following = Guess()
    if masks is not None and written - 1 in ends:
        first = count + ends.index(written - 1) * masks.size
        ahead = logits[first : first + masks.size]
        best = ahead.softmax(dim=-1).max(dim=-1)
        following = Guess(best.indices.tolist(), best.values.tolist())
        beyond = range(places.stop, min(state.limit, places.stop + masks.size))
        predicted |= state.predicted(beyond, ahead[: len(beyond)], best.indices[: len(beyond)])
    text = dict(zip(places, tokens.tolist(), strict=True))
    yield from state.write(text, predicted, time.perf_counter() - clock)
    return following


def _verified(state: MaskedRun, guess: Guess, logits: Tensor) -> Tensor:
    """Returns the guessed tokens that stand, and one more, from logits (D + 1, V) behind the last token and each.

    Draws behind a row only if the guess before it stood, as often as tokens are written.
    """
    drawn = list[int]()
    for row in range(len(logits)):
        drawn.append(int(state.drawing.draw(logits[row : row + 1])))
        if drawn[row:] != list(guess.tokens[row : row + 1]):
            break
    return torch.tensor(drawn, device=logits.device)


class _Found:
    """Guesses the text's next tokens from an earlier place with the same last tokens."""

    def __init__(self, ids: Sequence[int]) -> None:
        self._ids: list[int] = []
        self._behind: dict[tuple[int, ...], int] = {}  # MATCH tokens -> the place behind their last occurrence
        self._earlier: int | None = None  # place of the guess
        self.add(ids)

    def add(self, ids: Sequence[int]) -> None:
        """Adds tokens to the text."""
        for token in ids:
            self._ids.append(token)
            key = tuple(self._ids[-MATCH:])
            self._earlier = self._behind.get(key)
            self._behind[key] = len(self._ids)

    def guess(self) -> Guess | None:
        """Returns a guess; None if the last tokens are new."""
        if self._earlier is None or len(self._ids) < MATCH:
            return None
        period = len(self._ids) - self._earlier
        tokens = [self._ids[self._earlier + place % period] for place in range(MOST_FOUND)]
        return Guess(tokens, [FOUND_SHARE] * len(tokens))
