"""Describes in words the order of settling, the end of a run, and its doubtful tokens. Without widgets."""

from __future__ import annotations

from app.inspector.words import Piece, probability, quoted
from app.state.run.replay import Frame
from app.state.run.settling import Doubt, RunOrder
from app.system.i18n import tr, trn
from engine import GenerationFinished, step_number

STRONGLY, WEAKLY = 0.6, 0.2  # absolute rank correlations: at least the first, below the second
MOST_DOUBTS = 4  # most doubtful tokens that are named


def order_in_words(order: RunOrder) -> list[str]:
    """Describes if answer or thought settled first, and the direction of settling."""
    return [*_thought_and_answer(order), _direction(order.correlation, len(order.blocks))]


def _thought_and_answer(order: RunOrder) -> list[str]:
    if not order.has_thought:
        return []
    answer, thought = order.settled(order.answering), order.settled(order.thinking)
    if answer is None:
        return [tr("There is a thought, and no answer behind it.")]
    if thought is None:
        return [tr("The thought was given; the answer settled at {when}.", when=_when(answer, order))]
    if answer == thought:
        return [tr("The answer and the thought settled together, at {when}.", when=_when(answer, order))]
    if answer > thought:
        before, after = _when(thought, order), _when(answer, order)
        return [tr("The thought settled at {when}, the answer after it, at {after}.", when=before, after=after)]
    share = order.later_thought
    if share == 1:
        return [tr("The answer settled at {when}, before any of the thought.", when=_when(answer, order))]
    part = probability(share)
    return [tr("The answer settled at {when}, before {share} of the thought.", when=_when(answer, order), share=part)]


def _when(frame: Frame, order: RunOrder) -> str:
    step = step_number(frame.step)
    if len(order.blocks) == 1:
        return tr("step {step}", step=step)
    return tr("block {block}, step {step}", block=frame.block + 1, step=step)


def _direction(found: float | None, blocks: int) -> str:
    if found is None:
        if blocks > 1:
            return tr("Each block settled at a single step: there is no order.")
        return tr("Everything settled at the same step: there is no order.")
    value = f"{found:.2f}".replace("-", "\u2212")
    if abs(found) < WEAKLY:
        return tr("In no direction: neither from left to right nor back ({value}).", value=value)
    strong = abs(found) >= STRONGLY
    if found > 0:
        return (
            tr("Left to right: strongly ({value}).", value=value)
            if strong
            else tr("Left to right: weakly ({value}).", value=value)
        )
    return (
        tr("Right to left: strongly ({value}).", value=value)
        if strong
        else tr("Right to left: weakly ({value}).", value=value)
    )


# --- the end ---------------------------------------------------------------------------------------------------------


def end_in_words(result: GenerationFinished | None) -> str:
    """Describes how the turn ended; empty for a run that is still running or has failed."""
    match result:
        case None:
            return ""
        case GenerationFinished(reason="eos"):
            return tr("The turn closed with an end token.")
        case GenerationFinished(reason="cancelled"):
            return tr("The turn was stopped before its end.")
        case GenerationFinished(why=str(why)) if why:
            return tr("The turn did not close: {why}.", why=why)
    return tr("The turn did not close: it was cut at the limit of its length.")


def doubts_in_words(order: RunOrder, piece: Piece) -> str:
    """Describes the doubtful positions: their number, and the first of them."""
    doubts = order.doubts
    if not doubts:
        return tr("The model was sure of each token.") if order.is_written else tr("Nothing was left in doubt.")
    named = [_doubt(doubt, piece) for doubt in doubts[:MOST_DOUBTS]]
    if len(doubts) > MOST_DOUBTS:
        named.append("…")
    one, many = "{count} position was left in doubt: {list}.", "{count} positions were left in doubt: {list}."
    if order.is_written:
        one = "The model was unsure of {count} token as it wrote it: {list}."
        many = "The model was unsure of {count} tokens as it wrote them: {list}."
    return trn(one, many, len(doubts), list=tr(", ").join(named))


def _doubt(doubt: Doubt, piece: Piece) -> str:
    token = quoted(piece(doubt.token))
    if doubt.runner is None or doubt.runner == doubt.token:
        return token
    return tr(
        "{token} (or {other}, {share})", token=token, other=quoted(piece(doubt.runner)), share=probability(doubt.share)
    )


def end_in_short(result: GenerationFinished | None, order: RunOrder) -> list[str]:
    """Returns two short facts: how the turn ended, and the number of doubtful positions."""
    if result is None:
        return []
    ends = {"eos": tr("turn closed"), "cancelled": tr("turn stopped"), "length": tr("turn cut at the limit")}
    count = len(order.doubts)
    none, one, many = tr("nothing in doubt"), "{count} position in doubt", "{count} positions in doubt"
    if order.is_written:
        none, one, many = tr("sure of each token"), "unsure of {count} token", "unsure of {count} tokens"
    return [ends[result.reason], trn(one, many, count) if count else none]
