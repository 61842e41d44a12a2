"""A run's figures in words, every one with its unit. Knows no Qt."""

from __future__ import annotations

from app.state.chat.conversation import Answer
from app.system.i18n import tr, trn


def count(number: int, unit: str) -> str:
    """A number with its unit in the singular or plural."""
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


def status_line(answer: Answer) -> str:
    """What the run is doing, or how it went."""
    if answer.status == "waiting":
        return tr("Reading the prompt")
    return _progress(answer) if answer.status == "developing" else _result(answer)


def remarks(answer: Answer) -> str:
    """What the reader must know of an answer that has ended, in lines; empty where all went as expected."""
    said = answer.notices()
    if answer.status == "stopped":
        has_text = bool(answer.text.strip())
        said.append(tr("Stopped before the end.") if has_text else tr("Stopped before anything was written."))
    return "\n".join(said)


def wants_retry(answer: Answer) -> bool:
    """Whether another try is the next thing to do."""
    return not answer.is_active and (answer.status in ("stopped", "failed") or answer.is_empty)


def words(text: str) -> int:
    """How many words a text has, roughly: what spaces part."""
    return len(text.split())


def _progress(answer: Answer) -> str:
    block = answer.canvas.current
    if block is None or not block.steps:
        number = 1 if block is None else block.block_index + 1
        return tr("Block {number} · starting from noise", number=number)
    entropy = 0.0 if block.mean_entropy is None else block.mean_entropy
    temperature = 0.0 if block.temperature is None else block.temperature
    return " · ".join(
        (
            tr("Block {number}", number=block.block_index + 1),
            tr("step {step} of at most {most}", step=block.steps, most=answer.config.max_denoising_steps),
            tr("{accepted} of {length} accepted", accepted=block.accepted_count, length=block.length),
            tr("{count} remelted", count=block.remelt_total),
            tr("entropy {entropy} nats", entropy=f"{entropy:.2f}"),
            tr("temperature {temperature}", temperature=f"{temperature:.2f}"),
        )
    )


def _result(answer: Answer) -> str:
    figures = answer.figures
    if not figures.steps:  # it is not known, as of an answer from elsewhere
        return tr("Seed {seed}", seed=answer.seed)
    steps = trn("{count} step", "{count} steps", figures.steps)
    if figures.blocks > 1:
        blocks = trn("{count} block", "{count} blocks", figures.blocks)
        steps = tr("{steps} over {blocks}", steps=steps, blocks=blocks)
    whole = answer.status == "done"
    if whole:
        parts = [tr("Done in {steps}", steps=steps)]
    elif answer.status == "stopped":
        parts = [tr("Stopped after {steps}", steps=steps)]
    else:
        parts = [tr("Failed after {steps}", steps=steps)]
    if figures.blocks and figures.seconds is not None:
        each = figures.seconds / figures.blocks
        parts.append(
            tr("{seconds} s per block", seconds=f"{each:.1f}")
            if whole
            else tr("{seconds} s", seconds=f"{figures.seconds:.1f}")
        )
    if whole and figures.tokens_per_forward is not None:
        parts.append(tr("{tokens} tokens per forward", tokens=f"{figures.tokens_per_forward:.1f}"))
    if whole and figures.tokens_per_second is not None:
        parts.append(tr("{tokens} tok/s", tokens=f"{figures.tokens_per_second:,.0f}"))
    parts.append(tr("seed {seed}", seed=answer.seed))
    return ", ".join(parts)


def parameters(number: int) -> str:
    """A parameter count as people say it."""
    for size, unit in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if number >= size:
            return tr("{number} parameters", number=f"{number / size:.1f} {unit}")
    return trn("{count} parameter", "{count} parameters", number)
