"""The small models that come with the app, as one model: each request goes to the part that was made for it.

``part_for`` is the rule, and ``prepared`` applies it: before a client plans an answer, and again in the backend. So
window, terminal and server get the same one. All parts stay loaded; together they take 0.3 GB.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from typing import Any, TypeVar, cast

from engine import catalog
from engine.catalog import GAPS, MINI, SIGHT, SMALL, SUDOKU, TALK
from engine.errors import SafelightError
from engine.service.backend import Backend, Runner, RunSteps, after_each_pass, load_sibling, required
from engine.service.replies import (
    AdapterChanged,
    Capabilities,
    InfluenceMeasured,
    LoadedModel,
    LoadFailed,
    LoadProgress,
    LoadReply,
    LoadStarted,
    ModelLoaded,
    ModelUnloaded,
    PassWanted,
    RunEnded,
    explained,
)
from engine.service.requests import (
    AdapterRequest,
    ChatRun,
    ContinuedRun,
    DecisionRun,
    GapRun,
    InfluenceRequest,
    LoadRequest,
    PuzzleRun,
    RunRequest,
)
from engine.service.run_task import without_waiting
from engine.tasks import sudoku, wording
from engine.text.message import Message
from engine.text.outline import INSTRUCTION, parse, spans

Asked = TypeVar("Asked", bound=RunRequest)
NOT_HERE = "the model of this run is not loaded; load it first"
NO_ADAPTER = "the small models take no adapter; choose Safelight Base, which the adapters are for"


def usual_part() -> str:
    """Returns the id of the part for requests that no other one was made for."""
    return TALK.id if TALK.is_here else MINI


def part_for(messages: Sequence[Message], tools: Collection[str] = ()) -> str:
    """Returns the id of the part that answers a conversation.

    Args:
        tools: names of the tools that are offered.
    """
    place = next((at for at in reversed(range(len(messages))) if messages[at]["role"] == "user"), None)
    if place is None:
        return usual_part()
    text: str = messages[place]["content"]
    shows = [bool(message.get("images")) for message in messages]
    if shows[place] or (any(shows) and _is_about_drawing(text)):
        return SIGHT
    if puzzle_in(text):
        return SUDOKU
    if next(spans(text), None) is not None:
        return GAPS
    return MINI if wording.is_task(text, tools) else usual_part()


def puzzle_in(text: str) -> str:
    """Returns the board of a text whose lines without letters are a Sudoku; empty if they are none."""
    lines = [line for line in text.splitlines() if not any(sign.isalpha() or sign == "`" for sign in line)]
    try:
        return sudoku.parse("\n".join(lines))
    except sudoku.PuzzleError:
        return ""


def _puzzle_alone(text: str) -> str:
    """Returns the puzzle of a text as its model reads it; a text without one as it is."""
    return sudoku.to_prompt(board) if (board := puzzle_in(text)) else text


def _is_about_drawing(text: str) -> bool:
    from engine.tasks.drawings import is_question  # imports Pillow, which most starts do not need

    return is_question(text)


def worded(model: str, messages: Sequence[Message], adapter: str | None = None) -> tuple[Message, ...]:
    """Returns a conversation as a model that comes with the app reads it, with its adapter; for others as it is.

    Those that were taught tasks know one wording of each. Talk gets no questions that others answer: their short
    answers would lead it astray.
    """
    if model == TALK.id:
        return _own_words(messages)
    traits = catalog.traits(model, adapter)
    is_solver = traits.prompt_format == "sudoku"
    if not (is_solver or traits.wants_wording):
        return tuple(messages)
    write = _puzzle_alone if is_solver else wording.as_taught
    return tuple(
        {**message, "content": write(message["content"])} if message["role"] == "user" else message
        for message in messages
    )


def _own_words(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Returns a conversation without the exchanges before its last question that another part answers."""
    kept, is_kept = list[Message](), True
    last = max((at for at, message in enumerate(messages) if message["role"] == "user"), default=0)
    for at, message in enumerate(messages):
        if message["role"] == "user":
            is_kept = at == last or part_for([message]) == TALK.id
        if is_kept:
            kept.append(message)
    return tuple(kept)


def prepared(model: LoadedModel, request: Asked) -> tuple[LoadedModel, Asked]:
    """Returns the model that a request is for, and the request as that one reads it; one that is prepared stays so.

    Of a model in parts that is one part, with its own settings where the request leaves the model's as they are.

    Raises:
        SafelightError: its gaps are out of bounds, or are to be filled in a format; the model of its source is no part.
    """
    known = {one.path_or_id: one for one in (model, *model.parts)}
    if request.prepared_for in known:
        return known[request.prepared_for], request
    part, changes = model, dict[str, Any]()
    if model.parts:
        part = known.get(_part_of(request), model)
        if part is model:
            raise SafelightError(NOT_HERE)
        if isinstance(request, ChatRun):
            changes["reserve"] = min(request.reserve, part.context // 2)
    if model.parts and not isinstance(request, ContinuedRun):
        fields = (field.name for field in dataclasses.fields(request.config))
        asked = {name: getattr(request.config, name) for name in fields}
        changed = {name: value for name, value in asked.items() if value != getattr(model.defaults, name)}
        changes["config"] = part.defaults.replace(**changed)
    if isinstance(request, ChatRun) and not isinstance(request, PuzzleRun) and not request.outline:
        changes |= _as_read(part, request)
    return part, dataclasses.replace(request, prepared_for=part.path_or_id, **changes)


def _as_read(part: LoadedModel, request: ChatRun) -> dict[str, Any]:
    """Returns the fields of a chat that its model reads in other words."""
    adapter = part.adapter if request.adapter is None else request.adapter
    text, outline = parse(request.messages[-1]["content"]) if part.path_or_id == GAPS and not adapter else ("", ())
    if not outline:
        return {"messages": worded(part.path_or_id, request.messages, adapter)}
    if request.is_held:
        raise SafelightError("a gap cannot be filled in a format; leave out one of the two")
    question = {"role": "user", "content": text or INSTRUCTION}
    return {"messages": (question,), "outline": outline, "tools": (), "output_format": None, "think": False}


def _part_of(request: RunRequest) -> str:
    match request:
        case ContinuedRun():
            return request.source.header.model.name
        case DecisionRun():
            return decider(request.pictures)
        case PuzzleRun():
            return SUDOKU
        case ChatRun():
            if request.output_format is not None and request.output_format.kind == "tool_calls":
                return MINI
            tools = [tool["function"]["name"] for tool in request.tools]
            return GAPS if request.outline else part_for(request.messages, tools)
        case GapRun():
            return GAPS
    return usual_part()


def decider(pictures: Sequence[object]) -> str:
    """Returns the id of the part that decides about pictures, or about a text alone."""
    return SIGHT if pictures else MINI


class SmallBackend:
    """A ``Backend`` of all parts, each in a backend of its own.

    Args:
        template: parts are loaded by its siblings.
    """

    def __init__(self, template: Backend) -> None:
        self._template = template
        self._runners: dict[str, Runner] = {}
        self._model: LoadedModel | None = None
        self._running: dict[str, str] = {}  # the part of each run that goes on, by the run's id

    def sibling(self) -> SmallBackend:
        return SmallBackend(self._template)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities() if self._model is None else self._model.capabilities

    def load(self, request: LoadRequest, report: Callable[[LoadReply], None]) -> None:
        if request.cancel.is_set():
            return
        report(LoadStarted(request.title))
        runners, parts = dict[str, Runner](), [one for one in catalog.PARTS if one != TALK.id or TALK.is_here]
        for place, part in enumerate(parts):
            before = place / len(parts)
            report(LoadProgress("Reading the weights", before))
            load = LoadRequest(part, catalog.title(part), request.threads, cancel=request.cancel)
            try:
                runner = load_sibling(self._template, load, lambda _share: None)
            except SafelightError as error:
                report(LoadFailed(request.path_or_id, *explained(error), kept=self._model is not None))
                return
            if runner is None:
                return
            runners[part] = runner
        self.unload()
        self._runners, self._model = runners, _as_one(request, {part: one.model for part, one in runners.items()})
        report(ModelLoaded(self._model))
        if request.adapter is not None:
            report(self.set_adapter(AdapterRequest(request.adapter)))

    def unload(self) -> ModelUnloaded:
        for runner in self._runners.values():
            runner.backend.unload()
        self._runners, self._model = {}, None
        return ModelUnloaded()

    def _backend(self, part: str) -> Backend:
        return self._runners[part].backend

    def admits(self, request: RunRequest, running: Sequence[RunRequest]) -> bool:
        if not running:
            return True
        try:
            part, asked = prepared(required(self._model), request)
        except SafelightError:  # the run reports it when it begins
            return True
        others = [run for run in running if self._running.get(run.run_id) == part.path_or_id]
        return self._backend(part.path_or_id).admits(asked, others)

    def begin(self, request: RunRequest) -> RunSteps:
        try:
            part, asked = prepared(required(self._model), request)
            backend = self._backend(part.path_or_id)
        except SafelightError as error:
            yield RunEnded(request.run_id, *explained(error))
            return
        self._running[request.run_id] = part.path_or_id

        def mark(wanted: PassWanted) -> None:
            wanted.backend = backend

        try:
            with closing(backend.begin(asked)) as steps:
                yield from after_each_pass(steps, mark)
        finally:
            del self._running[request.run_id]

    def perform(self, passes: Sequence[PassWanted]) -> None:
        passes = without_waiting(passes)
        for backend in dict.fromkeys(cast("Backend", wanted.backend) for wanted in passes):
            backend.perform([wanted for wanted in passes if wanted.backend is backend])

    def set_adapter(self, request: AdapterRequest) -> AdapterChanged:
        return AdapterChanged(request.path_or_id, "", "" if request.path_or_id is None else NO_ADAPTER)

    def measure(self, request: InfluenceRequest) -> InfluenceMeasured:
        runner = self._runners.get(request.trace.header.model.name)
        if runner is None:
            return InfluenceMeasured(request, None, NOT_HERE)
        return runner.backend.measure(request)


def _as_one(request: LoadRequest, parts: Mapping[str, LoadedModel]) -> LoadedModel:
    """Returns the plain data of all parts as one model: what it reads is the usual part's, the settings the tasks'."""
    usual, tasks, every = parts[usual_part()], parts[MINI], tuple(parts.values())

    def prompt_ids(asked: RunRequest) -> list[int]:
        part, prepared_request = prepared(model, asked)
        return part.prompt_ids(prepared_request)

    def count(messages: Sequence[Message], *more: Any) -> int:
        return usual.count_tokens(worded(usual.path_or_id, messages), *more)

    model = dataclasses.replace(
        usual,
        path_or_id=request.path_or_id,
        title=request.title,
        name=SMALL,
        defaults=tasks.defaults,
        canvas_length=tasks.canvas_length,
        parameter_count=sum(part.parameter_count for part in every),
        load_seconds=sum(part.load_seconds for part in every),
        image_cost=parts[SIGHT].image_cost,
        capabilities=dataclasses.replace(tasks.capabilities, gaps=True, decisions=True, images=True, adapters=False),
        decoders=tuple(dict.fromkeys(name for part in (tasks, *every) for name in part.decoders)),
        settings=tasks.settings,
        traits=catalog.traits(SMALL),
        reads_tools=True,
        parts=every,
        prompt_ids=prompt_ids,
        count_tokens=count,
    )
    return model
