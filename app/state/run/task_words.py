"""Describes runs with a decision or an output format in words: their kind, their task, their rounds of pinning."""

from __future__ import annotations

import json

from app.state.run.canvas import PinnedRound
from app.system.i18n import tr, trn
from engine import TraceHeader
from engine.tasks.decisions.questions import Decision, Question
from engine.text.output_format import OutputFormat

MAX_SHOWN = 20_000  # characters of a format


def kind_words(header: TraceHeader) -> str:
    """Returns the kind of a run; empty for an ordinary one."""
    if header.decision is not None:
        return tr("Decision")
    if header.output_format is None:
        return ""
    return {
        "json_schema": tr("Fits a JSON schema"),
        "json_object": tr("Fits JSON"),
        "regex": tr("Fits a pattern"),
        "choices": tr("One of some texts"),
        "tool_calls": tr("Calls tools"),
        "text_or_calls": tr("May call tools"),
    }[header.output_format.kind]


def has_rounds(header: TraceHeader) -> bool:
    """True if a run pins what fits its format round by round, as block diffusion does."""
    return header.output_format is not None and header.config.is_block_diffusion


def task_text(header: TraceHeader) -> str:
    """Returns the whole task of a run as text; empty for an ordinary one."""
    if header.decision is not None:
        return _decision_text(header.decision)
    return "" if header.output_format is None else _format_text(header.output_format)


def _decision_text(decision: Decision) -> str:
    parts = [decision.instructions, decision.state]
    parts += [_question_text(number, one) for number, one in enumerate(decision.questions, start=decision.first)]
    if len(decision.questions) > 1:
        parts.append(tr("All questions were asked together, and read from one canvas."))
    if decision.repeats:
        again = trn(
            "Where an answer is unsure it is read again, {count} time, with fresh noise.",
            "Where an answer is unsure it is read again, {count} times, with fresh noise.",
            decision.repeats,
        )
        parts.append(again)
    return "\n\n".join(part for part in parts if part)


def _question_text(number: int, question: Question) -> str:
    described = (": ".join(filter(None, (one.name, one.description))) for one in question.options)
    options = (f"    {option}" for option in described)
    return "\n".join([tr("{number}. {question}", number=number, question=question.instructions), *options])


def _format_text(format: OutputFormat) -> str:
    match format.kind:
        case "json_schema":
            said, shown = tr("The answer had to fit this JSON schema:"), _pretty(format.schema)
        case "json_object":
            return tr("The answer had to be a JSON object, any one.")
        case "regex":
            said, shown = tr("The whole answer had to match this regular expression:"), format.pattern
        case "choices":
            said, shown = tr("The answer had to be one of these:"), "\n".join(format.choices)
        case "text_or_calls":
            said, shown = tr("The answer could be text, or call these tools:"), _pretty(list(format.tools))
        case "tool_calls":
            said, shown = tr("The answer had to call one of these tools:"), _pretty(list(format.tools))
    return f"{said}\n\n{shown if len(shown) <= MAX_SHOWN else shown[:MAX_SHOWN] + '…'}"


def _pretty(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=dict)


def round_words(one: PinnedRound) -> str:
    """Returns a line about a round, without a full stop: the tokens it pinned, and those the model had written."""
    pinned = trn("{count} token holds", "{count} tokens hold", one.pinned)
    number = one.number + 1
    if not one.written:
        return tr("round {round}: {held}, {new} set by the format", round=number, held=pinned, new=one.new)
    return tr(
        "round {round}: {held}; of the {new} new ones the model wrote {written}",
        round=number,
        held=pinned,
        new=one.new,
        written=one.written,
    )
