"""Two decoders in one run, on the same weights: block diffusion and autoregressive, block by block.

Blocks that begin in a thought use one decoder, all others another. Thoughts are found by the tokens that open and close
them; the decoder changes at the next edge between blocks. The first block counts as a thought if the prompt asks for
one. Without a tokenizer there are no thoughts.

*Rescue*: a canvas that has stalled, or taken all its steps without converging, is read causally, by the same weights.
Its longest prefix of good tokens is kept. A token is good if it was the argmax for ``stability_threshold`` steps before
the last, and has a causal probability of at least ``rescue_probability``; pinned tokens always are. The pass that reads
the prefix also predicts the token behind it. From there on the block is written autoregressively.

*Verify*: all other canvases are read causally when they are finished, and doubtful spans may be written anew; see
``verifying``.
"""

from __future__ import annotations

import time

import torch
from torch import Tensor

from engine.config import BLOCK_DIFFUSION
from engine.decoding.autoregressive import Reason, Writer
from engine.decoding.block_diffusion import FinishedCanvas, Usage, cut_at_eos, denoise_block, most_blocks
from engine.decoding.fork_schedule import ForkSchedule
from engine.decoding.heads import good_prefix
from engine.decoding.prefill import CausalReader, commit, read_prompt
from engine.decoding.protocols import Decode, Decoding, Passes
from engine.decoding.run import Run
from engine.decoding.thoughts import ThoughtTokens
from engine.decoding.verifying import Verifier
from engine.errors import SafelightError
from engine.layers.kv_cache import SLACK


@torch.inference_mode()
def mixed(run: Run, decoders: tuple[str, str], thoughts: ThoughtTokens) -> Decoding[None]:
    """Generates text after the prompt, in thoughts by the first of two ``names.MIXABLE`` decoders, else by the second.

    If no block is written autoregressively and none is rewritten, the run is that of block diffusion, bit for bit. Both
    decoders use ``seed`` for their own random streams. A block that is denoised or rescued has all its positions; one
    that is written autoregressively ends with ``max_new_tokens``.
    """
    parts, config = _Parts(run), run.config
    in_thought, length = thoughts.expected(run.prompt), parts.blocks.length
    denoises = [name == BLOCK_DIFFUSION for name in decoders]  # whether thoughts are denoised, and other text
    count = most_blocks(run)
    unread = 0 if denoises[not in_thought] else 1
    read = parts.reader.prefill if config.verify else None
    if not (yield from read_prompt(run, count * length, unread, read)):
        yield from parts.blocks.finish("cancelled", 0)
        return
    parts.writer.pending = run.prompt[len(run.prompt) - unread :].tolist()
    reason: Reason | None = None
    for block in range(count):
        if denoises[not in_thought]:
            reason = yield from parts.denoise(block)
        else:
            yield from parts.blocks.begin()
            reason = yield from parts.writer.write(min((block + 1) * length, config.max_new_tokens))
        if reason is not None:
            break
        in_thought = thoughts.is_open_behind(parts.blocks.text[place] for place in range(parts.writer.length))
    yield from parts.blocks.finish(reason or "length", parts.writer.length)


class _Parts:
    """The state that the blocks of a run share."""

    def __init__(self, run: Run) -> None:
        config, own = run.config, run.model.config.canvas_length
        if (config.rescue or config.verify) and run.canvas_length >= SLACK + own:
            most = SLACK + own - 1  # the window before the canvas stays whole, and one more
            name = "rescue" if config.rescue else "verify"
            raise SafelightError(
                f"{name} takes canvases of at most {most} tokens, not {run.canvas_length}; switch it off"
            )
        self.run, self.config, self.cache = run, config, run.cache
        self.schedule = ForkSchedule(run)
        self.reader = CausalReader(run.cache)
        self.verifier = Verifier(self.schedule, self.reader)
        self.writer = Writer(run, [])
        self.blocks, self.drawing = self.writer.blocks, self.writer.drawing
        self.newest = int(run.prompt[-1])  # token of the text

    def denoise(self, block: int) -> Decoding[Reason | None]:
        """Denoises a block; returns why the run ends with it, None if it goes on."""
        usage, clock = Usage(), time.perf_counter()
        yield from self._read_pending()
        usage.seconds = time.perf_counter() - clock
        canvas = yield from denoise_block(self.schedule, block, usage, rescues=self.config.rescue)
        is_rescued = canvas is not None and self.config.rescue and not canvas.last.converged
        if self.config.verify and canvas is not None and not is_rescued:
            canvas = yield from self.verifier.verify(block, canvas, usage)
        self.blocks.passes, self.blocks.seconds = self.blocks.passes + usage.steps, self.blocks.seconds + usage.seconds
        if canvas is None:
            return "cancelled"
        if is_rescued:
            return (yield from self._rescue(block, canvas))
        tokens, text_length = cut_at_eos(canvas.last.argmax, self.config)
        committed = canvas.committed(block, tokens, text_length)
        self.blocks.add(committed)
        self.writer.take(tokens.tolist())
        if self.verifier.is_held:
            self.writer.pending = []
        yield committed
        return "eos" if self.writer.has_ended else None

    def _read_pending(self) -> Passes[None]:
        """Reads the rest of the text into the cache, at the latest with the next canvas."""
        pending, stepper = self.writer.pending, self.schedule.stepper
        if pending:
            self.newest = pending[-1]
            ids = torch.tensor(pending)
            if len(pending) == self.blocks.length:
                yield from stepper.commit(ids)
            else:
                yield from self.reader.read(ids) if self.config.verify else commit(ids, self.cache)
            self.writer.pending = []

    def _rescue(self, block: int, canvas: FinishedCanvas) -> Decoding[Reason | None]:
        """Writes on behind the kept prefix of a canvas; returns as ``denoise``."""
        if self.run.is_cancelled:
            return "cancelled"
        clock, cache, argmax = time.perf_counter(), self.cache, canvas.last.argmax
        start, length = cache.length, len(argmax)
        cache.truncate(start - 1)  # the newest token is read again: it predicts the canvas's first
        ids = [self.newest, *argmax[:-1].tolist()]
        wanted = Decode(torch.tensor(ids), cache, length)
        yield wanted
        cache.record_ids(ids)
        logits = self.drawing.allowed(wanted.take(), ids)
        kept, end = self._kept(block, canvas, logits), (block + 1) * length
        tokens = torch.from_numpy(argmax[:kept]).long().to(logits.device)
        if kept < length and not (kept and argmax[kept - 1] in self.blocks.ends):
            tokens = torch.cat((tokens, self.drawing.draw(logits[kept : kept + 1])))
        cache.truncate(min(start + kept, cache.length))
        self.blocks.write_on(canvas.last, canvas.steps, canvas.reason)
        yield from self.writer.put(tokens, logits[: len(tokens)], end, clock)
        del self.writer.pending[: cache.length - start]
        return (yield from self.writer.write(end))

    def _kept(self, block: int, canvas: FinishedCanvas, logits: Tensor) -> int:
        """Returns how many tokens of a canvas are kept, by causal logits (C, V); an end token is the last of them."""
        argmax = canvas.last.argmax
        probabilities = logits.softmax(dim=-1).gather(1, torch.from_numpy(argmax).long().to(logits.device)[:, None])
        is_good = (probabilities[:, 0] >= self.config.rescue_probability).cpu().numpy()
        is_good &= canvas.unchanged >= self.config.stability_threshold
        is_good |= self.schedule.stepper.sampler.pinned_mask(block)
        return good_prefix(argmax, is_good, self.config.eos_token_ids)
