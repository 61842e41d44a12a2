"""Texts about lanes, races and the figures of a batch, for labels and assistive technology. Has no widgets."""

from __future__ import annotations

from collections.abc import Sequence

from app.settings.decoders import CHOICES, DecodingChoice, decoder_title, option_title
from app.settings.spec import ANSWER_DECODER, IMAGE_BUDGET, RESCUE, SAMPLER, THOUGHT_DECODER, VERIFY
from app.state.adapters import title_of_adapter, with_adapter
from app.state.intervals import percent
from app.state.race.lanes import LaneSpec
from app.state.race.prompts import OWN
from app.state.race.scores import ALL, Interval, LaneScore
from app.state.sudoku.board import bin_name
from app.system.i18n import tr
from app.system.memory_use import size
from engine.tasks.skills import SKILLS
from engine.tasks.sudoku import BINS

UNKNOWN = "–"
LONGEST_TITLE = 60  # characters


def lane_title(lane: LaneSpec, model: str, decoder: str = "") -> str:
    """Returns a lane's title: its model, its adapter and its decoder.

    Args:
        model: The model's title.
        decoder: The model's default decoder; empty while it is not known.
    """
    who = with_adapter(model, title_of_adapter(lane.adapter) if lane.adapter else "")
    thought, answer = DecodingChoice.read({**lane.changes, "decoder": lane.decoder or decoder}).names
    how = decoder_title(answer) if answer else ""
    if thought and answer and thought != answer:
        how = tr("{thought}, then {answer}", thought=decoder_title(thought), answer=how)
    return tr("{model} · {decoder}", model=who, decoder=how) if how else who


def changes_words(lane: LaneSpec) -> str:
    """Returns the lane's settings that differ from its model's, in one line; empty if none does."""
    said = []
    for declared in (THOUGHT_DECODER, ANSWER_DECODER):
        if declared.name in lane.changes:
            name = decoder_title(lane.changes[declared.name])
            said.append(tr("{setting}: {value}", setting=tr(declared.label), value=name))
    for choice in CHOICES:
        if choice.name in lane.changes:
            name = option_title(choice, lane.changes[choice.name])
            said.append(tr("{setting}: {value}", setting=tr(choice.label), value=name))
    said += [tr(label) for name, label in (("rescue", RESCUE), ("verify", VERIFY)) if lane.changes.get(name)]
    if "image_tokens" in lane.changes:
        budget = f"{lane.changes['image_tokens']:,}"
        said.append(tr("{setting}: {value}", setting=tr(IMAGE_BUDGET.label), value=budget))
    for setting in SAMPLER:
        if setting.name in lane.changes:
            value = f"{lane.changes[setting.name]:g}"
            shown = tr("{value} {unit}", value=value, unit=tr(setting.unit)) if setting.unit else value
            said.append(tr("{setting}: {value}", setting=tr(setting.label), value=shown))
    return " · ".join(said)


def settings_words(lane: LaneSpec) -> str:
    """Returns ``changes_words``, or a sentence that says that there are no changes."""
    return changes_words(lane) or tr("The model's own settings")


def loaded_words(models: Sequence[tuple[str, int]]) -> str:
    """Returns a sentence about further models that have to be loaded: title and bytes of each, 0 if unknown."""
    said = [tr("{model} ({size})", model=title, size=size(bytes)) if bytes else title for title, bytes in models]
    return tr("The race also loads {models}.", models=", ".join(said)) if said else ""


def rate_words(rate: float) -> str:
    """Returns the playback speed relative to real time in words; ``rate`` is recorded seconds per second played."""
    if rate >= 1:
        return tr("{times} times as fast", times=f"{rate:.1f}") if rate > 1.05 else ""
    return tr("{times} times slower", times=f"{1 / rate:,.0f}" if rate < 0.1 else f"{1 / rate:.1f}")


def fairness() -> str:
    """Returns a sentence about how lanes that share one machine are timed."""
    return tr("All lanes answer the same prompt, in turns of one pass. Seconds count a lane's own passes.")


def race_title(prompt: str) -> str:
    """Returns a race's prompt as one line of at most ``LONGEST_TITLE`` characters."""
    line = " ".join(prompt.split())
    return line if len(line) <= LONGEST_TITLE else f"{line[: LONGEST_TITLE - 1]}…"


VERDICTS = {True: "✓", False: "✗", None: UNKNOWN}


def group_title(group: str) -> str:
    """Returns the title of a group: a skill, a bin of puzzles, a kind of drawing question, own or all prompts."""
    if group in SKILLS:
        return tr(SKILLS[group].title)
    known = {ALL: tr("All prompts"), OWN: tr("Own prompts")}
    return next((bin_name(name).capitalize() for name in BINS if name == group), known.get(group, group.capitalize()))


def heads() -> list[tuple[str, str]]:
    """Returns the table's column titles, each with its explanation."""
    return [
        (tr("Lane"), tr("Model, adapter and decoding")),
        (tr("Right"), tr("Share of right answers, of those that a program can check, with its 95 % interval")),
        (
            tr("Tokens\nper pass"),
            tr("Tokens of the texts, divided by the passes after the prompt, with its 95 % interval"),
        ),
        (
            tr("Tokens\nper second"),
            tr("Tokens of the texts, divided by the lane's own seconds, with its 95 % interval"),
        ),
        (tr("Seconds"), tr("Mean time of an answer, without reading the prompt, with its 95 % interval")),
        (tr("Same as\nlane 1"), tr("Mean share of the characters that lane 1 has in the same order")),
    ]


def cells(title: str, row: LaneScore) -> tuple[str, ...]:
    """Returns the cells of a table row, in the order of ``heads``; intervals are on a second line."""
    exact = UNKNOWN if row.rate is None else f"{percent(row.rate)}\n{_span(row.exact_interval, 100, 0)}"
    return (
        title,
        exact,
        f"{row.tokens_per_forward:.2f}\n{_span(row.tokens_per_forward_interval, 1, 2)}",
        f"{row.tokens_per_second:,.0f}\n{_span(row.tokens_per_second_interval, 1, 0)}",
        f"{row.seconds:.3f}\n{_span(row.seconds_interval, 1, 3)}",
        percent(row.agreement),
    )


def _span(ends: Interval, factor: float, digits: int) -> str:
    low, high = (f"{factor * end:,.{digits}f}" for end in ends)
    return f"({low}–{high})"
