"""Continues the open run with its model: forks, rewritten spans, influence. Loads that model first if needed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np
from PySide6.QtCore import QObject, Signal, Slot

import engine
from app.bridge.engine_thread import Handle, RunHandle
from app.bridge.remote_access import only_text
from app.canvas.words import token_words
from app.context import AppContext
from app.design.controls import show_line
from app.inspector.forks.panel import ForkPanel
from app.inspector.influence.view import InfluenceView
from app.inspector.tabs import SecondOpinion
from app.player.player import Player
from app.session.model_slot import ModelChoice
from app.system.i18n import tr
from engine import ADAPTERS, Fork, Mark, Recording, SafelightError
from engine.catalog import PARTS, SMALL, is_embedded
from engine.decoders import BY_TOKEN
from engine.decoding.names import is_able
from engine.service import (
    CompletionRun,
    ForkRun,
    InfillRun,
    InfluenceMeasured,
    InfluenceRequest,
    LoadedModel,
    PromptScored,
    RunRequest,
    ServiceReply,
    is_remote,
)

Use = Literal["forks", "infills", "measures", "reads"]
"""What can be done with a run: change it, rewrite spans of it, measure an influence, read its text a second time."""


class Continuations(QObject):
    """Keeps the panels up to date and performs what they ask for, one run at a time."""

    began = Signal(object)  # a Recording: a run that continues the open one
    ended = Signal()
    opined = Signal()  # a second opinion on the open run is in its replay

    def __init__(
        self,
        context: AppContext,
        player: Player,
        forks: ForkPanel,
        influence: InfluenceView,
        opinion: SecondOpinion,
    ) -> None:
        super().__init__(player)
        self._context, self._player, self._forks, self._influence = context, player, forks, influence
        self._opinion = opinion
        self._handle: RunHandle | None = None  # the changed run
        self._reading: tuple[RunHandle, Recording] | None = None  # the text that is read for a second opinion
        self._measuring: Handle | None = None
        self._waiting: Callable[[], object] | None = None  # called once the run's model is loaded
        forks.fork_asked.connect(self._fork)
        forks.infill_asked.connect(self._infill)
        influence.asked.connect(lambda *asked: self._with_its_model(partial(self._measure, *asked)))
        influence.asked_text.connect(lambda *asked: self._with_its_model(partial(self._encode_and_measure, *asked)))
        opinion.asked.connect(lambda: self._with_its_model(self._opine))
        player.opened.connect(self._opened)
        context.register_busy(self)
        context.busy_changed.connect(self.refresh)

    @property
    def is_forking(self) -> bool:
        """True if a fork or rewriting is running."""
        return self._handle is not None

    def reason_to_wait(self) -> str:
        """Returns a sentence while a fork develops, or something waits for its model; empty otherwise."""
        if self._waiting is not None and self._context.loading is not None:
            return self._context.loading.text
        if self._reading is not None:
            return tr("A text is being read in the inspector; Esc stops it")
        if self._handle is not None and self._handle.is_computed:
            return tr("A changed run is still being shown in the inspector; Esc skips to its end")
        is_on = self.is_forking or self._waiting is not None
        return tr("A changed run is being written in the inspector; Esc stops it") if is_on else ""

    def stop(self) -> None:
        """Stops the fork. An action that waits for its model is dropped."""
        running = self._handle or (self._reading and self._reading[0])
        if running is not None:
            running.stop()
        elif self._waiting is not None:
            self._waiting = None
            self._context.busy_changed.emit()

    @property
    def _model(self) -> LoadedModel | None:
        """The loaded model, or the part of it that wrote the open run."""
        model, trace = self._context.model, self._player.trace
        return model if model is None or trace is None else model.part(trace.header.model.name)

    @property
    def _has_its_model(self) -> bool:
        """True if the loaded model is that of the open run, or if the run does not record its model's fingerprint."""
        model, trace = self._model, self._player.trace
        if model is None or trace is None:
            return False
        return trace.header.model.fingerprint in ("", model.fingerprint)

    def refusal(self, use: Use) -> str:
        """Returns why the open run cannot be used so now; empty if it can."""
        context, trace, model, unfit = self._context, self._player.trace, self._model, self._unfit(use)
        if trace is None or unfit:
            return unfit
        if context.loading is not None:
            return tr("{loading}.", loading=context.loading.text)
        if context.is_busy:
            return tr("A run is in progress; Esc stops it.")
        if model is None:
            return tr("Load a model to change this run.")
        if not self._has_its_model:
            of = trace.header.model
            return tr("This run is by {model}; load that model to change it.", model=of.title or of.name)
        able = model.capabilities
        can = {
            "forks": able.forks,
            "infills": able.infill,
            "measures": able.influence,
            "reads": BY_TOKEN in model.decoders and not is_remote(model.path_or_id),
        }
        return "" if can[use] else only_text(model) or tr("This cannot be done with {model}.", model=model.title)

    def _unfit(self, use: Use) -> str:
        """Returns why the open run can never be used so; empty if it can."""
        trace = self._player.trace
        if use == "reads":
            if trace is None or trace.header.decision is not None or trace.result is None or not trace.committed:
                return tr("Only a finished text can be read.")
            unread = tr("The prompt of this run was recorded without its tokens, or has pictures; it cannot be read.")
            return unread if not trace.header.prompt_ids or trace.pictures else ""
        if trace is None:
            return ""
        if trace.header.decision is not None:
            return tr("A decision is read, not written: there is nothing to change.")
        if use != "measures" and trace.is_held:
            return tr("This answer had to fit a format; with a change it would not. Ask again instead.")
        if is_able(trace.header.config, use):
            return ""
        if use == "measures":
            return tr("This can be measured in runs of block diffusion and bidirectional diffusion only.")
        return tr("Runs of this decoder cannot be changed. Ask again instead.")

    def needed(self) -> ModelChoice | None:
        """Returns the run's model if it is installed but not loaded, and nothing is running; None otherwise."""
        context, trace = self._context, self._player.trace
        if trace is None or context.is_busy or context.loading is not None or self._has_its_model:
            return None
        if trace.header.decision is not None or not is_able(trace.header.config, "forks"):
            return None
        of = trace.header.model
        if not is_embedded(of.path) and of.path not in dict(context.slot.models):
            return None
        if of.path in PARTS:
            return None if context.slot.present == SMALL else ModelChoice(SMALL)
        return ModelChoice(of.path, next((one.id for one in ADAPTERS if one.title == of.adapter), None))

    @Slot()
    def refresh(self) -> None:
        """Updates the panels after a change: another model or run, or a run that began or ended."""
        context, needed = self._context, self.needed()
        model = self._model if self._has_its_model else None
        offer = "" if needed is None else context.slot.title_of(needed.path_or_id)
        self._forks.token.encode = None if model is None else model.encode
        panels: dict[Use, Callable[[str, str], object]] = {
            "forks": self._forks.block,
            "infills": self._forks.spans.block,
            "measures": self._influence.set_refusal,
            "reads": self._opinion.set_refusal,
        }
        for use, show in panels.items():
            show(self.refusal(use), "" if self._unfit(use) else offer)
        if self._waiting is not None and context.loading is None:
            waiting, self._waiting = self._waiting, None
            waiting()

    @Slot()
    def _opened(self) -> None:
        self._waiting = None
        self._influence.clear()
        show_line(self._opinion.problem, "")
        self.refresh()

    def _with_its_model(self, then: Callable[[], object]) -> None:
        """Calls ``then``, once the run's model is loaded if that is needed and possible."""
        needed = self.needed()
        if needed is None:
            then()
        else:
            self._waiting = then
            self._context.load(needed.path_or_id, needed.adapter)

    @Slot(object)
    def _fork(self, change: Fork) -> None:
        trace = self._player.trace
        if trace is None:
            return
        if change.block in {mark.block for mark in trace.header.marks}:
            self._forks.say(tr("A part of this block was rewritten; change the run that it comes from."))
            return
        try:
            changes = engine.chain(trace.header.changes, change)
        except SafelightError as error:
            self._forks.say(str(error))
            return
        self._with_its_model(partial(self._run, ForkRun.of(trace, changes)))

    @Slot(object)
    def _infill(self, marks: tuple[Mark, ...]) -> None:
        trace = self._player.trace
        if trace is not None:
            self._with_its_model(partial(self._run, InfillRun.of(trace, marks, self._context.values.next_seed())))

    def _run(self, request: RunRequest) -> None:
        if refusal := self.refusal("forks" if isinstance(request, ForkRun) else "infills"):
            self._forks.say(refusal)
            return
        self._handle = handle = self._context.backend.run(request)
        handle.started.connect(self.began)
        handle.ended.connect(self._ended)
        self._context.busy_changed.emit()

    @Slot(str, str)
    def _ended(self, problem: str, details: str) -> None:
        self._handle = None
        self.ended.emit()
        self.refresh()
        self._forks.say(problem)
        if details:
            self._context.say(problem, details)

    def _encode_and_measure(self, position: int, text: str) -> None:
        model = self._model
        ids = [] if model is None or not text else model.encode(text)
        if len(ids) != 1:
            said = tr("{text} is {count} tokens; it must be one.", text=token_words(text), count=len(ids))
            self._influence.show_problem(self.refusal("measures") or said)
            return
        self._measure(position, ids[0])

    def _measure(self, position: int, token: int) -> None:
        player, refusal = self._player, self.refusal("measures")
        trace, snapshot, record = player.trace, player.snapshot, player.block
        if refusal or trace is None or snapshot is None or record is None:
            self._influence.show_problem(refusal)
            return
        self._influence.set_busy(True)
        step = min(max(0, snapshot.step), len(record.temperature) - 1)
        temperature = float(record.temperature[step]) if len(record.temperature) else 1.0
        canvas = tuple(int(one) for one in snapshot.tokens(calm=not record.has_masks))
        request = InfluenceRequest(trace, snapshot.block_index, canvas, position, token, temperature)
        self._measuring = self._context.backend.measure(request)
        self._measuring.replied.connect(self._measured)

    @Slot(object)
    def _measured(self, replies: list[ServiceReply]) -> None:
        reply, snapshot = replies[-1], self._player.snapshot
        if not isinstance(reply, InfluenceMeasured):
            return
        request, influence = reply.request, reply.influence
        if influence is None:
            self._influence.show_problem(tr(reply.message))
        elif self._player.trace is request.trace and snapshot is not None and len(influence.kl) == snapshot.length:
            self._influence.show_influence(
                request.position, request.canvas[request.position], request.token, influence.kl
            )
        else:
            self._influence.set_busy(False)

    def _opine(self) -> None:
        """Reads the open run's text causally; the token that such a run would write is not waited for."""
        trace, refusal = self._player.trace, self.refusal("reads")
        if trace is None or refusal:
            show_line(self._opinion.problem, refusal)
            return
        text = [token for event in trace.committed for token in event.tokens.tolist()[: event.text_length + 1]]
        config = trace.config.replace(
            decoder=BY_TOKEN, token_thoughts=False, max_new_tokens=1, pinned=(), thinking_tokens=None
        )
        ids = (*trace.header.prompt_ids, *text)
        request = CompletionRun(config, 0, ids=ids, prompt_scores=0, keep=False, prepared_for=trace.header.model.name)
        handle = self._context.backend.run(request, is_watched=False)
        handle.noted.connect(self._show_opinion)
        handle.ended.connect(self._end_reading)
        self._reading = handle, trace
        show_line(self._opinion.problem, "")
        self._context.busy_changed.emit()

    @Slot(object)
    def _show_opinion(self, reply: ServiceReply) -> None:
        """Gives the replay of a run the probability of each of its tokens, and shows the last block of it."""
        if self._reading is None or not isinstance(reply, PromptScored):
            return
        replay, trace, logprobs = self._player.replay, self._reading[1], reply.scores.logprobs
        place = len(trace.header.prompt_ids) - 1
        if self._player.trace is not trace or replay is None:
            return
        opinions = {}
        for event in trace.committed:
            count = min(event.text_length + 1, len(event.tokens))
            opinions[event.block_index] = np.full(len(event.tokens), np.nan, dtype=np.float32)
            opinions[event.block_index][:count] = np.exp(logprobs[place : place + count])
            place += count
        replay.opine(opinions)
        self.opined.emit()

    @Slot(str)
    def _end_reading(self, problem: str) -> None:
        self._reading = None
        show_line(self._opinion.problem, problem)
        self._context.busy_changed.emit()
