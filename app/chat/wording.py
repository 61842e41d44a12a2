"""A run's figures in words, every one with its unit. Knows no Qt."""

from __future__ import annotations

from app.state.chat_state import Answer, Status

ENDINGS: dict[Status, str] = {"done": "done in", "stopped": "stopped after", "failed": "failed after"}


def count(number: int, unit: str) -> str:
    """A number with its unit in the singular or plural."""
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


def status_line(answer: Answer) -> str:
    """What the run is doing, or how it went."""
    if answer.status == "waiting":
        return "Reading the prompt"
    return _progress(answer) if answer.status == "developing" else _result(answer)


def _progress(answer: Answer) -> str:
    block = answer.canvas.current
    if block is None or not block.steps:
        return f"Block {1 if block is None else block.block_index + 1} · starting from noise"
    entropy = 0.0 if block.mean_entropy is None else block.mean_entropy
    temperature = 0.0 if block.temperature is None else block.temperature
    return " · ".join(
        (
            f"Block {block.block_index + 1}",
            f"step {block.steps} of at most {answer.config.max_denoising_steps}",
            f"{block.accepted_count} of {block.length} accepted",
            f"{block.remelt_total} remelted",
            f"entropy {entropy:.2f} nats",
            f"temperature {temperature:.2f}",
        )
    )


def _result(answer: Answer) -> str:
    stats = answer.stats
    parts = [f"{ENDINGS[answer.status]} {count(stats.total_steps, 'step')}"]
    if stats.blocks > 1:
        parts[0] += f" over {count(stats.blocks, 'block')}"
    if stats.blocks and stats.seconds is not None:
        whole = answer.status == "done"
        parts.append(f"{stats.seconds / stats.blocks:.1f} s per block" if whole else f"{stats.seconds:.1f} s")
    if answer.status == "done":
        if stats.tokens_per_forward is not None:
            parts.append(f"{stats.tokens_per_forward:.1f} tokens per forward")
        if stats.tokens_per_second is not None:
            parts.append(f"{stats.tokens_per_second:,.0f} tok/s")
    parts.append(f"seed {answer.seed}")
    line = ", ".join(parts)
    return line[0].upper() + line[1:]


def parameters(number: int) -> str:
    """A parameter count as people say it."""
    for size, unit in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if number >= size:
            return f"{number / size:.1f} {unit} parameters"
    return count(number, "parameter")
