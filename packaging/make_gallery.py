"""Makes the gallery, ``assets/traces``: real runs of the embedded models with fixed seeds.

Run again when a model changes. What a note says of a run is checked here, so that a retrained model cannot make it
wrong.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import family_runs

from engine import (
    BASE,
    MINI,
    SUDOKU,
    TRACE_SUFFIX,
    GenerationConfig,
    Model,
    PrefixPinned,
    SlotsRead,
    Trace,
    TraceHeader,
    catalog,
    generate,
    identify_model,
    load_model,
    open_trace,
    read_reply,
)
from engine.service import (
    ChatRun,
    DecisionRun,
    LoadRequest,
    LocalBackend,
    ModelLoaded,
    PassWanted,
    RunRequest,
    RunStarted,
)
from engine.service.recorder import reporting_candidates
from engine.tasks import skills, sudoku
from engine.tasks.decisions.answers import LabelRead, answer_of
from engine.tasks.decisions.questions import Decision, YesNo
from engine.text.output_format import OutputFormat
from engine.text.tokenizer import Tokenizer
from engine.trace.folder import GALLERY, GALLERY_LIST

MAX_BYTES = 300_000
EASY = "000020000360070000428001070039000700070009602000617059900082067004000280080700401"
HARD = "003100064080000302000500087070005000000009400805000000004000030050007000700801096"
TOO_HARD = "040290800080603100900857006028000960000000000004008005000020073065700001030000000"


def _solves(trace: Trace) -> bool:
    puzzle = sudoku.parse("".join(character for character in trace.prompt if character in "0123456789.")[-81:])
    return sudoku.judge(puzzle, sudoku.read_answer(trace.text)).valid


def _times_taken_back(trace: Trace) -> int:
    """How many tokens of the text are accepted at a step and not at the next."""
    text = slice(0, trace.committed[-1].text_length)
    accepted = [step.accepted_mask[text] for step in trace.steps]
    return sum(int((before & ~after).sum()) for before, after in pairwise(accepted))


def _is_capped(trace: Trace) -> bool:
    return trace.committed[-1].reason == "step_cap"


@dataclass(frozen=True)
class Example:
    """A run to make, what to say of it, and what must be true of it."""

    name: str
    model: str
    prompt: str
    title: str
    note: str
    holds: Callable[[Trace], bool]
    pinned: tuple[tuple[int, str], ...] = ()  # position and sign
    seed: int = 0
    t_max: float | None = None  # in place of the model's own


EXAMPLES = (
    Example(
        "times-table",
        BASE,
        "Times table of 9 up to 8.",
        "A times table out of noise",
        "It is drawn at a higher temperature than usual, so the lines come out bit by bit, and some tokens are taken "
        "back on the way.",
        lambda trace: (
            skills.check(trace.prompt, trace.text) and len(trace.steps) >= 12 and _times_taken_back(trace) >= 3
        ),
        t_max=1.8,
    ),
    Example(
        "reverse",
        MINI,
        "Reverse the word stone.",
        "A word, reversed",
        "The shortest story: noise, and two steps later five letters and their end. Everything behind it is padding.",
        lambda trace: trace.text == "enots",
    ),
    Example(
        "count",
        MINI,
        "Count from 4 to 43.",
        "Counting over three blocks",
        "An answer longer than a canvas: each block is finished before the next one starts from fresh noise.",
        lambda trace: trace.text == ", ".join(map(str, range(4, 44))) and len(trace.committed) == 3,
    ),
    Example(
        "sudoku-easy",
        SUDOKU,
        sudoku.to_prompt(EASY),
        "A Sudoku, all at once",
        "Watch the entropy: the givens are certain from the first step, and the other digits follow from all sides.",
        lambda trace: _solves(trace) and not _is_capped(trace),
    ),
    Example(
        "sudoku-hard",
        SUDOKU,
        sudoku.to_prompt(HARD),
        "A hard Sudoku, with second thoughts",
        "25 givens. Look for digits that are taken back: they were accepted, and are replaced before the board "
        "settles.",
        lambda trace: _solves(trace) and not _is_capped(trace),
    ),
    Example(
        "sudoku-stuck",
        SUDOKU,
        sudoku.to_prompt(TOO_HARD),
        "A Sudoku that does not settle",
        "It stops at the limit of 48 steps with a wrong board. See in the map which cells change to the end.",
        lambda trace: not _solves(trace) and _is_capped(trace),
    ),
    Example(
        "sudoku-pinned",
        SUDOKU,
        sudoku.to_prompt(TOO_HARD),
        "The same Sudoku with one cell pinned",
        "Same seed, but the first cell is held at its right digit, 5: now the whole board settles.",
        lambda trace: _solves(trace) and not _is_capped(trace),
        ((0, "5"),),
    ),
    Example(
        "unknown",
        MINI,
        "Write the times table of 8.",
        "A question it was never taught",
        "The small model knows another wording. A few letters stay unsure to the last step; what it writes is a guess.",
        _is_capped,
    ),
)


@dataclass(frozen=True)
class TaskExample:
    """A run of Safelight Mini that decides, or fits a format: the first of its requests of which its note is true."""

    name: str
    title: str
    note: str
    requests: Callable[[GenerationConfig], Iterator[RunRequest]]
    holds: Callable[[Trace], bool]


def _decisions(config: GenerationConfig) -> Iterator[RunRequest]:
    """Whether a number is larger than its neighbours."""
    for number, further in itertools.product(range(10, 100), (-2, -1, 1, 2)):
        asked = YesNo(f"Is the number larger than {number + further}?", name="larger")
        decision = Decision(f"The number is {number}.", (asked,), "", False, repeats=3)
        yield DecisionRun(config, 0, decision, keep=False)


def _is_read_again(trace: Trace) -> bool:
    """Whether the question is answered right and was read again, as it was in doubt, with reads that nearly agree."""
    decision, reads = trace.header.decision, [event for event in trace.events if isinstance(event, SlotsRead)]
    if decision is None or len(reads) != 1 + decision.repeats:
        return False
    number, limit = (
        int(text.split()[-1].rstrip(".?")) for text in (decision.state, decision.questions[0].instructions)
    )
    answer = answer_of(decision.questions[0], [LabelRead(tuple(read.logprobs[0].tolist())) for read in reads])
    is_right = (answer.best == 0) == (number > limit)
    return is_right and answer.label_mass > 0.9 and 0.002 < max(answer.spread) < 0.02


NUMBERS = {
    "type": "object",
    "properties": {"numbers": {"type": "array", "items": {"type": "integer"}}},
    "required": ["numbers"],
    "additionalProperties": False,
}


def _fitting(config: GenerationConfig) -> Iterator[RunRequest]:
    """Counting, in a schema."""
    for first, seed in itertools.product((4, 3, 6, 7, 5, 11, 2), range(3)):
        messages = ({"role": "user", "content": f"Count from {first} to {first + 8}."},)
        yield ChatRun(config, seed, messages, keep=False, output_format=OutputFormat("json_schema", NUMBERS))


def _fits_in_rounds(trace: Trace) -> bool:
    """Whether the answer fits, took several rounds of one block, and was written by the model for the most part."""
    rounds = [event for event in trace.events if isinstance(event, PrefixPinned)]
    try:
        numbers = json.loads(trace.text)["numbers"]
    except (ValueError, KeyError):
        return False
    written = sum(event.written for event in rounds)
    is_short = len(trace.committed) == 1 and 3 <= len(rounds) <= 8
    return is_short and written >= 8 and len(numbers) >= 3


TASKS = (
    TaskExample(
        "decision",
        "A decision, read four times",
        "One question about a sentence, read from one denoising step. It is unsure, so it is read again with fresh "
        "noise: the ticks lie close together, so the doubt is the model's, not the noise's.",
        _decisions,
        _is_read_again,
    ),
    TaskExample(
        "schema",
        "Counting in a JSON schema",
        "The model was never taught JSON. After each round what fits the schema holds, and the rest is denoised again; "
        "full corners mark what the schema set, open ones what the model wrote.",
        _fitting,
        _fits_in_rounds,
    ),
)


class Tasks:
    """Safelight Mini behind a backend, as clients have it."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._decode = functools.partial(read_reply, tokenizer)
        self._backend = LocalBackend()
        replies: list[object] = []
        self._backend.load(LoadRequest(MINI, catalog.title(MINI)), replies.append)
        self.config = next(reply.model.defaults for reply in replies if isinstance(reply, ModelLoaded))

    def make(self, example: TaskExample) -> Trace:
        """Run an example.

        Raises:
            SystemExit: its note would be wrong, whatever is asked.
        """
        for request in example.requests(self.config):
            found = self._run(request)
            if found is not None and example.holds(found):
                return self._named(found, example)
        raise SystemExit(f"no run is as the note of {example.name} says")

    def _run(self, request: RunRequest) -> Trace | None:
        found = None
        for reply in self._backend.begin(request):
            if isinstance(reply, PassWanted):
                self._backend.perform([reply])
            elif isinstance(reply, RunStarted):
                found = reply.trace
        return found if isinstance(found, Trace) else None

    def _named(self, run: Trace, example: TaskExample) -> Trace:
        """The run with an id that stays."""
        id = uuid.uuid5(uuid.NAMESPACE_OID, f"safelight gallery {example.name}").hex
        header = dataclasses.replace(run.header, id=id)
        trace = Trace(header=header, piece=run.piece, is_special=run.is_special, decode=self._decode)
        for event in run.events:
            trace.append(event)
        return trace


def make(example: Example, model: Model) -> Trace:
    """Run an example.

    Raises:
        SystemExit: its note would be wrong.
    """
    piece = model.tokenizer.piece
    pinned = tuple((place, model.tokenizer.encode(sign)[0]) for place, sign in example.pinned)
    defaults = model.generation_defaults
    config = reporting_candidates(defaults.replace(pinned=pinned, t_max=example.t_max or defaults.t_max))
    messages = ({"role": "user", "content": example.prompt},)
    ids = model.chat_ids(messages)
    title = catalog.title(example.model)
    header = TraceHeader(
        identify_model(model, example.model, title),
        example.prompt,
        config,
        example.seed,
        messages,
        tuple(ids),
        id=uuid.uuid5(uuid.NAMESPACE_OID, f"safelight gallery {example.name}").hex,
    )
    decode = functools.partial(read_reply, model.tokenizer)
    trace = Trace(header=header, piece=piece, is_special=model.tokenizer.is_special, decode=decode)
    for event in generate(model, ids, config, example.seed):
        trace.append(event)
    if not example.holds(trace):
        raise SystemExit(f"{example.name} is not as its note says: {trace.text!r} after {len(trace.steps)} steps")
    return trace


def main() -> None:
    """Make all examples, or those that are named, and the list of all."""
    named = sys.argv[1:]
    GALLERY.mkdir(exist_ok=True)
    models = {name: load_model(name, device="cpu") for name in (MINI, SUDOKU, BASE)}
    tasks = Tasks(models[MINI].tokenizer)
    listed = []
    for example in (*EXAMPLES, *TASKS, *family_runs.RUNS):
        path = GALLERY / f"{example.name}{TRACE_SUFFIX}"
        listed.append({"file": path.name, "title": example.title, "note": example.note})
        if named and example.name not in named:
            continue
        match example:
            case Example():
                made = make(example, models[example.model])
            case TaskExample():
                made = tasks.make(example)
            case _:
                made = family_runs.make(example)
        made.save(path)
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise SystemExit(f"{path.name} has {size} bytes; {MAX_BYTES} are allowed")
        trace = open_trace(path)
        print(f"{path.name:24} {size:8} bytes {len(trace.steps):4} steps  {trace.text!r}")
    text = json.dumps({"traces": listed}, indent=2, ensure_ascii=False) + "\n"
    (GALLERY / GALLERY_LIST).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
