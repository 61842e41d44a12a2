"""Tests a thought: replaces a share of it by noise in several forks, and counts how often the answer changes."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QObject, Signal, Slot

import engine
from app.context import AppContext
from app.inspector.going_on import GoingOn
from app.inspector.thought.view import ThoughtView
from app.inspector.timeline.overview import Overview
from app.player.player import Player
from app.state.run.noising import answer_of, noised
from app.state.run.settling import RunOrder
from app.system.i18n import tr, trn
from engine import Recording, SafelightError
from engine.service import RunEnded, RunRequest, RunStarted, ServiceReply
from engine.text.tags import CLOSE, OPEN


class Noising(QObject):
    """Updates the view and runs the tests it asks for: one fork of the run after another, without showing them."""

    made = Signal(object)  # a Recording: a fork that has begun

    def __init__(
        self, context: AppContext, player: Player, overview: Overview, view: ThoughtView, going_on: GoingOn
    ) -> None:
        super().__init__(player)
        self._context, self._player, self._overview = context, player, overview
        self._view, self._going_on = view, going_on
        self._source: Recording | None = None  # the tested run, while tests are running
        self._order: RunOrder | None = None  # the order of ``_source``
        self._asked: RunRequest | None = None
        self._try: Recording | None = None
        self._tries = self._done = self._turned = 0
        self._answer = ""
        self._stopped = False
        view.run.clicked.connect(self.start)
        view.stop.clicked.connect(self.stop)
        player.opened.connect(self._opened)
        overview.known.connect(self.refresh)
        context.register_busy(self)
        context.busy_changed.connect(self.refresh)
        context.arrived.connect(self.take)
        self.refresh()

    def reason_to_wait(self) -> str:
        """Returns a sentence while tests are running; empty otherwise."""
        return tr("The thought is tested in the inspector; Esc stops it") if self._asked is not None else ""

    @Slot()
    def stop(self) -> None:
        """Stops the running test and starts no more."""
        self._stopped = True
        self._context.backend.stop()

    def refusal(self) -> str:
        """Returns why the open run's thought cannot be tested now; empty if it can."""
        trace, order, model = self._player.trace, self._overview.order, self._context.model
        if trace is None or order is None:
            return tr("The run is being read.") if trace is not None else ""
        if not order.has_thought:
            return tr("This run has no thought: it was made by a model that does not think, or with thinking off.")
        if not order.answering.any():
            return tr("This run has a thought, and no answer after it.")
        if trace.header.marks:
            return tr("A part of this run was rewritten; test the run that it comes from.")
        if not trace.header.config.is_block_diffusion:
            return tr("Only a thought that was written by block diffusion can be tested.")
        return self._going_on.refusal_to_fork(can=model is not None and model.capabilities.forks)

    @Slot()
    def refresh(self) -> None:
        """Updates the view after a change of what can be tested."""
        running = self._asked is not None
        self._view.block("" if running else self.refusal())
        self._view.set_running(running)

    @Slot()
    def _opened(self) -> None:
        if self._asked is not None:
            self.stop()
        self._source = None
        self._view.say("")
        self.refresh()

    @Slot()
    def start(self) -> None:
        """Starts the tests that the view asks for."""
        trace, order = self._player.trace, self._overview.order
        if self.refusal() or trace is None or order is None:
            return
        self._source, self._order, self._stopped = trace, order, False
        self._tries, self._done, self._turned = self._view.tries.value(), 0, 0
        self._answer = answer_of(order.tokens, trace.piece)
        self._next()

    def _next(self) -> None:
        source, order, model = self._source, self._order, self._context.model
        assert source is not None
        assert order is not None
        assert model is not None
        share, seed = self._view.share.value() / 100, (self._view.seed.value(), self._done)
        allowed = source.config.allowed_tokens
        tokens = np.arange(model.vocab_size) if allowed is None else np.array(allowed)
        changes: tuple[engine.Fork, ...] = source.header.changes
        try:
            for change in noised(order, share, seed, tokens.astype(np.int32), self._is_out, source.piece):
                changes = engine.chain(changes, change)
        except SafelightError as error:
            self._end(str(error))
            return
        self._try = None
        self._asked = RunRequest.fork(source, changes)
        self._view.say(tr("Try {number} of {count}…", number=self._done + 1, count=self._tries))
        self._context.busy_changed.emit()
        self._context.backend.run(self._asked, is_watched=False)

    def _is_out(self, token: int) -> bool:
        """True if a token may not be used as noise: control tokens, and tokens that the run may not write."""
        model, source = self._context.model, self._source
        assert model is not None
        assert source is not None
        config = source.config
        banned = {token for change in source.header.changes for token in change.banned}
        out = {*config.eos_token_ids, *config.banned_tokens, config.pad_token_id, *banned}
        return token in out or model.is_special(token) or source.piece(token) in (OPEN, CLOSE)

    @Slot(object)
    def take(self, replies: list[ServiceReply]) -> None:
        """Handles the replies that belong to the running test."""
        for reply in replies:
            if self._asked is None or not isinstance(reply, RunStarted | RunEnded):
                continue
            if reply.run_id != self._asked.run_id:
                continue
            if isinstance(reply, RunStarted):
                self._try = reply.trace
                self.made.emit(reply.trace)
            else:
                self._ended(tr(reply.message) if reply.message else "")

    def _ended(self, problem: str) -> None:
        source, tried = self._source, self._try
        result = None if tried is None else tried.result
        if source is None or problem or result is None or result.reason == "cancelled":
            self._end(problem)
            return
        self._done += 1
        self._turned += answer_of(result.tokens, source.piece) != self._answer
        if self._stopped or self._done == self._tries:
            self._end("")
        else:
            self._next()

    def _end(self, problem: str) -> None:
        self._asked = None
        if self._source is not None:
            self._view.say(self._words(), problem)
        self._source = None
        self._context.busy_changed.emit()

    def _words(self) -> str:
        """Describes the result so far."""
        if not self._done:
            return ""
        said = trn(
            "{turned} of {count} answer changed.",
            "{turned} of {count} answers changed.",
            self._done,
            turned=self._turned,
        )
        if self._done < self._tries:
            return tr("Stopped after {done} of {tries} tries: {words}", done=self._done, tries=self._tries, words=said)
        return said
