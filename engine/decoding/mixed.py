"""Two decoders in one run, on the same weights: thoughts token by token, all else by block diffusion.

The decoder of a block is that of the place where it begins. Thoughts are found by the tokens that open and close them;
the decoder changes at the next edge between blocks. The first block counts as a thought if the prompt asks for one.
"""

from __future__ import annotations

import time

import torch

from engine.decoding.autoregressive import Reason, Writer
from engine.decoding.block_diffusion import Usage, cut_at_eos, denoise_block, most_blocks
from engine.decoding.fork_schedule import ForkSchedule
from engine.decoding.prefill import commit, read_prompt
from engine.decoding.protocols import Decoding
from engine.decoding.run import Run
from engine.decoding.thoughts import ThoughtTokens


@torch.inference_mode()
def mixed(run: Run, thoughts: ThoughtTokens | None = None) -> Decoding[None]:
    """Generates text after the prompt.

    If no block is written token by token, the run is that of block diffusion, bit for bit. Both decoders use ``seed``
    for their own random streams. A block that is denoised has all its positions; another ends with ``max_new_tokens``.
    """
    schedule, writer, count = ForkSchedule(run), Writer(run, []), most_blocks(run)
    blocks, length = writer.blocks, writer.blocks.length
    thoughts = thoughts or ThoughtTokens.from_run(run)
    in_thought = thoughts.expected(run.prompt)
    unread = 1 if in_thought else 0
    if not (yield from read_prompt(run, count * length, unread)):
        yield from blocks.finish("cancelled", 0)
        return
    writer.pending = run.prompt[len(run.prompt) - unread :].tolist()
    reason: Reason | None = None
    for block in range(count):
        if in_thought:
            yield from blocks.begin()
            reason = yield from writer.write(min((block + 1) * length, run.config.max_new_tokens))
        else:
            reason = yield from _denoise(schedule, writer, block)
        if reason is not None:
            break
        in_thought = thoughts.is_open_behind(blocks.text[place] for place in range(writer.length))
    yield from blocks.finish(reason or "length", writer.length)


def _denoise(schedule: ForkSchedule, writer: Writer, block: int) -> Decoding[Reason | None]:
    """Denoises a block behind what was written; returns why the run ends with it, None if it goes on."""
    usage, clock, blocks = Usage(), time.perf_counter(), writer.blocks
    if writer.pending:
        ids = torch.tensor(writer.pending)
        is_canvas = len(ids) == blocks.length
        yield from schedule.stepper.commit(ids) if is_canvas else commit(ids, schedule.run.cache)
        writer.pending = []
    usage.seconds = time.perf_counter() - clock
    canvas = yield from denoise_block(schedule, block, usage)
    blocks.passes, blocks.seconds = blocks.passes + usage.steps, blocks.seconds + usage.seconds
    if canvas is None:
        return "cancelled"
    tokens, text_length = cut_at_eos(canvas.last.argmax, schedule.config)
    committed = canvas.committed(block, tokens, text_length)
    blocks.add(committed)
    writer.take(tokens.tolist())
    yield committed
    return "eos" if writer.has_ended else None
