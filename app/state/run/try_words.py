"""The ends of a block's tries in words: "stalled at step 19, begun again as try 2". Knows neither Qt nor torch."""

from __future__ import annotations

from app.state.run.canvas import BlockState
from app.system.i18n import tr, trn
from engine import TryEnded, step_number


def try_words(ended: TryEnded) -> str:
    """Describes how a try ended, and what followed."""
    step = step_number(ended.step)
    at = tr("stalled at step {step}", step=step) if ended.has_stalled else tr("out of steps at step {step}", step=step)
    match ended.then:
        case "again":
            follows = tr("begun again as try {number}", number=ended.number + 2)
        case "rescued":
            follows = tr("written on one token at a time")
        case _ if ended.best == ended.number:
            follows = tr("taken as it is")
        case _:
            follows = tr("try {number} is taken, as it was the surest", number=ended.best + 1)
    return tr("{ended}, {follows}", ended=at, follows=follows)


def block_end_words(block: BlockState) -> str:
    """Describes the end of a block that did not converge and was not rescued; empty if it only ran out of steps."""
    if block.reason == "head":
        return trn(
            "its first token had settled and became text at step {step}",
            "its first {count} tokens had settled and became text at step {step}",
            block.text_length or 0,
            step=block.steps,
        )
    if block.tries and block.tries[-1].then == "taken":
        return try_words(block.tries[-1])
    return tr("stalled at step {step}, taken as it is", step=block.steps) if block.reason == "stalled" else ""
