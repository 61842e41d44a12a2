"""The figures on the cards, read from recorded runs that come with the app. Without Qt.

Both files are small: reading them takes a few milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.state.run.answers import answers_of, question_words, share_words
from app.state.run.stats import RunStats
from app.system.i18n import tr, trn
from engine import SafelightError, open_trace
from engine.catalog import ASSETS
from engine.events import SlotsRead

RACE, DECISION = "times-table", "decision"


@dataclass(frozen=True)
class Bar:
    """A named bar with its figure; ``share`` is its length, 0 to 1."""

    name: str
    figure: str
    share: float


@dataclass(frozen=True)
class CardExample:
    """Bars with a line on where they come from."""

    source: str
    bars: tuple[Bar, ...]


def race() -> CardExample | None:
    """Returns the passes of a recorded run, and those of the same text one token a pass; None if it is missing."""
    try:
        trace = open_trace(ASSETS / "traces" / f"{RACE}.sltrace")
    except SafelightError:
        return None
    stats = RunStats.from_events(trace.events)
    tokens = stats.text_tokens
    if not tokens:
        return None
    counted = ((tr("Together"), stats.total_steps), (tr("One by one"), tokens))
    most = max(passes for _, passes in counted)
    bars = (Bar(name, trn("{count} pass", "{count} passes", passes), passes / most) for name, passes in counted)
    return CardExample(tr("A recorded answer of {count} tokens", count=tokens), tuple(bars))


def decision() -> CardExample | None:
    """Returns the options of a recorded decision with their probabilities; None if it is missing."""
    try:
        trace = open_trace(ASSETS / "traces" / f"{DECISION}.sltrace")
    except SafelightError:
        return None
    reads = [event for event in trace.events if isinstance(event, SlotsRead)]
    asked = trace.header.decision
    answers = () if asked is None else answers_of(asked, reads)
    if not answers:
        return None
    names = (option.name for option in answers[0].question.options)
    options = zip(names, answers[0].probabilities, strict=True)
    bars = tuple(Bar(name, share_words(share), share) for name, share in options)
    return CardExample(question_words(answers[0].question), bars)
