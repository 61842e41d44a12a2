"""The prompts of a tuning, each with a checker: held-out tasks, or a user's own with their answers. No Qt."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

from app.state.race.prompts import OWN, RacePrompt, drawing_prompts, skill_prompts
from app.state.sudoku.scores import make_puzzle
from engine import SafelightError
from engine.files import parse_json, storable
from engine.tasks import sudoku
from engine.tasks.sudoku import GivenRange

MOST_PROMPTS = 20_000
USUAL_GIVENS = GivenRange(25, 50)
LONGEST = 100_000  # characters of a prompt or an answer
PROMPT, ANSWER = "prompt", "answer"  # the columns of a user's file
Kind = Literal["skills", "sudoku", "drawings", "own"]


@dataclass(frozen=True)
class TuningTask:
    """The task that rules are compared on.

    Args:
        seed: seed of the prompts; equal seeds give equal prompts, however many are asked for.
        givens: of Sudokus.
        own: a user's own prompts, used if ``kind`` is "own".
    """

    kind: Kind
    seed: int = 0
    givens: GivenRange = USUAL_GIVENS
    own: tuple[RacePrompt, ...] = field(default=(), repr=False)

    @property
    def title(self) -> str:
        """The task in a few words; the prompts of equal titles and seeds are equal, except for a user's own."""
        titles = {"skills": "held-out skills", "drawings": "held-out drawings", "own": "own prompts"}
        return titles.get(self.kind) or f"Sudokus with {self.givens} givens"

    @property
    def digest(self) -> str:
        """A digest of a user's own prompts; empty for others."""
        if self.kind != "own":
            return ""
        whole = json.dumps([(prompt.text, prompt.answer) for prompt in self.own])
        return hashlib.sha256(whole.encode()).hexdigest()[:16]

    def prompts(self, count: int) -> Callable[[int], RacePrompt]:
        """Returns a function that makes the prompt of an index below ``count``, and keeps the latest ones."""
        match self.kind:
            case "sudoku":
                return lru_cache(maxsize=64)(self._puzzle)
            case "drawings":
                return _Drawn(drawing_prompts(count, self.seed)).__getitem__
            case "skills":
                return skill_prompts(count, self.seed).__getitem__
            case "own":
                return self.own.__getitem__

    def _puzzle(self, index: int) -> RacePrompt:
        board = make_puzzle(self.givens, self.seed, index).board
        return RacePrompt(sudoku.to_prompt(board), str(self.givens))


@dataclass
class _Drawn(Sequence[RacePrompt]):
    """Prompts that are made one after the other, when they are first asked for."""

    source: Iterator[RacePrompt]
    made: list[RacePrompt] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.made)

    def __getitem__(self, index: Any) -> Any:
        while len(self.made) <= index:
            self.made.append(next(self.source))
        return self.made[index]


def own_tasks(text: str, name: str) -> tuple[RacePrompt, ...]:
    """Reads prompts and their expected answers, from JSON lines or CSV.

    Each line of JSON is an object with "prompt" and "answer"; CSV has columns of these names. Other fields are ignored.

    Args:
        name: of the file, in messages.

    Raises:
        SafelightError: a line has no prompt or no answer, or there are no lines or too many.
    """
    is_json = text.lstrip()[:1] == "{"
    rows = _json_lines(text, name) if is_json else _csv_rows(text, name)
    found: list[RacePrompt] = []
    for where, row in rows:
        prompt, answer = row.get(PROMPT), row.get(ANSWER)
        if not isinstance(prompt, str) or not isinstance(answer, str) or not prompt.strip():
            raise SafelightError(f"{where} has no {PROMPT} and {ANSWER}; give both as text")
        if max(len(prompt), len(answer)) > LONGEST:
            raise SafelightError(f"{where} is longer than {LONGEST:,} characters; shorten it")
        found.append(replace(RacePrompt(storable(prompt), OWN), answer=storable(answer)))
        if len(found) > MOST_PROMPTS:
            raise SafelightError(f"{name} holds more than {MOST_PROMPTS:,} prompts; give fewer")
    if not found:
        raise SafelightError(f"{name} holds no prompts; write one a line, with its answer")
    return tuple(found)


def _json_lines(text: str, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            where = f"{name}, line {number}"
            found = parse_json(line, where, surrogates=True)
            if not isinstance(found, dict):
                raise SafelightError(f"{where} is not a JSON object; write {{{PROMPT!r}: …, {ANSWER!r}: …}}")
            yield where, found


def _csv_rows(text: str, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text, newline=""))
    try:
        columns = reader.fieldnames or ()
        if not {PROMPT, ANSWER} <= {*columns}:
            raise SafelightError(f"{name} has no columns {PROMPT} and {ANSWER}; name them in its first line")
        for row in reader:
            yield f"{name}, line {reader.line_num}", row
    except csv.Error as error:
        raise SafelightError(f"{name}, line {reader.line_num}: {error}") from None
