"""The public functions that run a model: ``generate``, ``fork`` and ``rewrite_marked``.

A run whose text has begun to repeat itself is ended here, whatever its decoder.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from engine.config import GenerationConfig
from engine.decoders import BLOCK_DIFFUSION, DECODERS, Ability, able
from engine.decoding.autoregressive import autoregressive, mixed
from engine.decoding.bidirectional import bidirectional
from engine.decoding.block_causal import block_causal
from engine.decoding.block_diffusion import Usage, block_diffusion, finished
from engine.decoding.causal_parallel import causal_parallel
from engine.decoding.infilling import infilling, masked_infilling
from engine.decoding.masked_diffusion import masked_diffusion
from engine.decoding.names import formatting, names_of, require_able
from engine.decoding.performing import perform_all
from engine.decoding.protocols import BlockDenoiser, Decoding
from engine.decoding.run import Decoder, Run, checked_rows
from engine.decoding.self_speculation import self_speculation
from engine.decoding.structured import structured
from engine.decoding.sub_blocks import sub_blocks
from engine.errors import SafelightError
from engine.events import CanvasCommitted, CanvasStarted, Event, GenerationFinished, StepFinished
from engine.forks import Fork, Mark, check_changes
from engine.layers.kv_cache import KVCache
from engine.models.model import Model
from engine.text.output_format import OutputFormat
from engine.text.repeating import REPEATED, repeats
from engine.types import Cancel, LinkedFlag, Row

if TYPE_CHECKING:
    from engine.text.formatted_answer import FormattedAnswer

FUNCTIONS: dict[str, Decoder] = {
    "block_diffusion": block_diffusion,
    "autoregressive": autoregressive,
    "causal_parallel": causal_parallel,
    "block_causal": block_causal,
    "masked_diffusion": masked_diffusion,
    "bidirectional": bidirectional,
    "sub_blocks": sub_blocks,
    "self_speculation": self_speculation,
}
"""The functions of ``decoders.DECODERS``, by name."""


def generate(
    model: BlockDenoiser,
    prompt_ids: Sequence[int] | Tensor,
    config: GenerationConfig | None = None,
    seed: int = 0,
    cancel: Cancel | None = None,
    cache: KVCache | None = None,
    output_format: OutputFormat | None = None,
) -> Iterator[Event]:
    """Generates text after a prompt, block by block, and yields an event for each denoising step or other pass.

    Args:
        model: from ``load_model``.
        prompt_ids: token ids (T,), T >= 1, usually from ``model.chat_ids``; a ``Prompt`` where there are images.
        config: the decoder and its settings; ``None`` takes DiffusionGemma's defaults. Prefer
            ``model.generation_defaults``.
        seed: the same seed, settings, machine and model repeat the run exactly.
        cancel: read between steps (``threading.Event`` will do); the run then ends with reason "cancelled".
        cache: of an earlier run of this model, or ``model.new_cache()``. The part that it shares with the prompt's
            beginning is not read again, and the rest is dropped. At the end it holds the prompt and all committed
            canvases but the last; after an autoregressive run, all tokens but the last. Text that was read in other
            pieces may round differently in its last digits.
        output_format: that the answer must fit; see ``names.formatting``. The run ends with "eos" if the answer is
            complete, and with "length" if it was cut, or can no longer be held to the format.

    Yields:
        Events as described in ``engine.events``; the last is always ``GenerationFinished``.

    Raises:
        SafelightError: empty prompt, a prompt that does not fit, bad settings or seed, another model's cache, a decoder
            that the model does not have, non-finite logits.
    """
    config = config or GenerationConfig()
    answer = None
    if output_format is not None:
        formatting(config, _decoders_of(model))  # before the answer is made
        try:
            answer = answer_of(model, [int(token) for token in prompt_ids], config, output_format, cancel)
        except SafelightError:
            if cancel is None or not cancel.is_set():
                raise
            yield finished("cancelled", [], Usage())
            return
    with nullcontext() if answer is None else closing(answer):
        yield from perform_all(model, decode(Run.from_ids(model, prompt_ids, config, seed, cancel, cache, answer)))


def fork(
    model: BlockDenoiser,
    prompt_ids: Sequence[int] | Tensor,
    config: GenerationConfig,
    seed: int,
    committed: Sequence[Row],
    steps: Sequence[int],
    changes: Sequence[Fork],
    cancel: Cancel | None = None,
    cache: KVCache | None = None,
) -> Iterator[Event]:
    """Repeats a run from the block of its last change, with that change, and goes on from there.

    A run is defined by its first arguments and all changes made to it; ``engine.chain`` adds a change to those of a run
    that is a fork itself. The block is run from its first step, as the run did, up to the last change, and from there
    on with it. With an empty ``Fork`` as the only change the run is repeated bit for bit, if the text before the block
    is read in the same pieces. That is so while the cache still holds the run's prompt, or if the run read all of it.
    A run over masks is taken from its beginning again, as its schedules and caches come out of its passes.

    Args:
        model, cancel, cache: as for ``generate``.
        prompt_ids, config, seed: those of the run at the root.
        committed: argmax canvases (C,) of the run's first blocks as they were committed. They are not run again, only
            read, as far as the cache does not hold them; over masks they are run, and must come out the same. Those
            from the last change's block on are ignored. Without any, the whole run is repeated from its beginning.
        steps: the number of denoising steps that each of them took; and, if known, of the last change's block.
        changes: in order of their places.

    Yields:
        ``PrefillFinished``, then the blocks from there on with their true indices, then ``GenerationFinished`` with the
        tokens, blocks and steps of the whole run.

    Raises:
        SafelightError: as ``generate``; a change that cannot be made or whose place the run does not reach; blocks that
            do not fit the canvas or behind which the text has ended.
    """
    run = Run.from_ids(model, prompt_ids, config, seed, cancel, cache)
    yield from perform_all(model, decode_fork(run, committed, steps, changes))


def rewrite_marked(
    model: BlockDenoiser,
    prompt_ids: Sequence[int] | Tensor,
    config: GenerationConfig,
    seed: int,
    committed: Sequence[Row],
    marks: Sequence[Mark],
    cancel: Cancel | None = None,
    cache: KVCache | None = None,
) -> Iterator[Event]:
    """Writes spans of settled text anew and keeps everything else.

    Marked blocks are run one after the other, each from noise in its spans and pinned elsewhere. A block sees the text
    before it as it is by then. Blocks without marks stay as they are. If text follows the last span of a block, end
    tokens are banned in the block, so that the text cannot be cut off.

    Args:
        model, prompt_ids, cancel, cache: as for ``generate``; the cache is cut back to the first marked block.
        config: sampler settings; its ``pinned`` are not used.
        seed: of the noise and the candidates of this infilling.
        committed: all settled canvases (C,), the last one with or without padding.
        marks: the spans, in any order.

    Yields:
        ``PrefillFinished``, the events of the marked blocks with their true indices, and ``GenerationFinished`` with
        the whole new text, and the steps of the infilling alone.

    Raises:
        SafelightError: as ``generate``; no mark, or a mark outside the settled text.
    """
    run = Run.from_ids(model, prompt_ids, config, seed, cancel, cache)
    yield from perform_all(model, decode_infill(run, committed, marks))


# --- decoders, whose passes the caller performs ------------------------------------------------------------------


def decode(run: Run) -> Decoding[None]:
    """Takes a run to its end with the decoder that its settings name.

    Raises:
        SafelightError: the model's family does not have it, or cannot change between the two that are named.
    """
    model, config = run.model, run.config
    names = _decoders_of(model)
    if run.answer is not None:
        run = run.unpinned()
        name = formatting(config, names)
        return structured(run) if name == BLOCK_DIFFUSION else without_repeats(run, FUNCTIONS[name], name)
    thought, answer = names_of(config, names)
    if thought != answer:
        return without_repeats(run, mixed, "")
    return without_repeats(run, FUNCTIONS[answer], answer)


def decode_fork(run: Run, committed: Sequence[Row], steps: Sequence[int], changes: Sequence[Fork]) -> Decoding[None]:
    """Repeats a run with changes; the arguments are those of ``fork``."""
    config = run.config
    decoder = require_run_able(run, "a fork", "forks")
    check_changes(changes, over_masks=decoder != BLOCK_DIFFUSION)
    last = changes[-1] if changes else None
    known = len(committed) if last is None else min(len(committed), last.block)
    if len(steps) < known:
        raise SafelightError(f"there are {known} committed blocks and the steps of {len(steps)}; give both")
    if last is not None and last.block < len(steps) and last.step > steps[last.block]:
        taken = steps[last.block]
        raise SafelightError(f"block {last.block} took {taken} steps; fork it at step 0 to {taken}, not {last.step}")
    if any(count < 1 for count in steps):
        raise SafelightError("each committed block took at least one step")
    rows = checked_rows(run.model, committed[:known], run.canvas_length, are_equal=decoder != BLOCK_DIFFUSION)
    for block, row in enumerate(rows):
        if any(token in config.eos_token_ids for token in row.tolist()):
            raise SafelightError(f"the text ends in block {block}; no block follows. Fork that block")
    run = dataclasses.replace(run, changes=tuple(changes))
    if decoder == BLOCK_DIFFUSION:
        text = torch.cat(rows).tolist() if rows else []
        return without_repeats(run, lambda run: block_diffusion(run, rows, steps[:known]), decoder, text)
    return _behind(without_repeats(run, FUNCTIONS[decoder], decoder), rows)


def _behind(decoding: Decoding[None], rows: Sequence[Tensor]) -> Decoding[None]:
    """Runs a decoding whose first blocks are known by their canvases (C,); leaves out their events.

    Raises:
        SafelightError: one of them does not come out as it is known.
    """
    for item in decoding:
        block = getattr(item, "block_index", len(rows))
        if block >= len(rows):
            yield item
        elif isinstance(item, CanvasCommitted) and item.tokens.tolist() != rows[block].tolist():
            raise SafelightError(f"block {block + 1} does not come out here as it was recorded; ask again instead")


def decode_infill(run: Run, committed: Sequence[Row], marks: Sequence[Mark]) -> Decoding[None]:
    """Writes marked spans anew; the arguments are those of ``rewrite_marked``."""
    decoder = require_run_able(run, "an infill", "infills")
    if not marks:
        raise SafelightError("nothing is marked; mark a part of the finished text first")
    rows = checked_rows(run.model, committed, run.canvas_length, are_equal=decoder != BLOCK_DIFFUSION)
    if not rows:
        raise SafelightError("no block is finished yet; wait for one")
    return infilling(run, rows, marks) if decoder == BLOCK_DIFFUSION else masked_infilling(run, rows, marks)


def require_run_able(run: Run, what: str, ability: Ability) -> str:
    """Returns the decoder of a run that does ``what``, for which it needs an ability.

    Raises:
        SafelightError: it uses a decoder that cannot.
    """
    return require_able(run.config, _decoders_of(run.model), what, ability)


def answer_of(
    model: BlockDenoiser,
    prompt: Sequence[int],
    config: GenerationConfig,
    output_format: OutputFormat,
    cancel: Cancel | None = None,
) -> FormattedAnswer:
    """Returns an empty answer that must fit a format; see ``FormattedAnswer.for_prompt``.

    Raises:
        SafelightError: no text fits the format, or no text can be held to it; or ``cancel`` was set meanwhile.
    """
    from engine.text.formatted_answer import FormattedAnswer  # imports a library that other runs do not need

    if not isinstance(model, Model):
        raise SafelightError("a network without a tokenizer cannot follow a format")
    size, ends = model.config.vocab_size, config.eos_token_ids
    return FormattedAnswer.for_prompt(output_format, model.tokenizer, size, ends, prompt, cancel)


def _decoders_of(model: BlockDenoiser) -> tuple[str, ...]:
    """Returns the names of a model's decoders, its default one first."""
    if isinstance(model, Model):
        return model.family.decoders
    return tuple(DECODERS) if hasattr(model, "denoise") else tuple(DECODERS)[1:]  # of a causal network


TAIL = 2_000  # tokens of the text that are looked at


def without_repeats(run: Run, decoder: Decoder, name: str, known: Sequence[int] = ()) -> Decoding[None]:
    """Runs a decoder until its text repeats itself; the run then ends with "length", and says why.

    What is held to a format is left alone, since the format may ask for repetition.

    Args:
        name: the decoder's.
        known: tokens of the text that have no events.
    """
    answer = run.answer
    if not isinstance(run.model, Model):
        yield from decoder(run)
        return
    ends_within = able(name, "in order")
    flag, decode = LinkedFlag(run.cancel), run.model.tokenizer.decode
    text, seen, begun = list(known), 0, list[Event]()
    with closing(decoder(dataclasses.replace(run, cancel=flag))) as items:
        for item in items:
            is_free = answer is None or answer.is_free
            match item:
                case CanvasStarted():
                    seen = 0
                    if flag.is_own:  # a block of which nothing may follow
                        begun = [item]
                        continue
                case StepFinished() if ends_within:
                    written = item.next_canvas[np.logical_and.accumulate(item.accepted_mask)].tolist()
                    new, seen = written[seen:], len(written)
                    flag.is_own |= is_free and "\n" in decode(new) and repeats(decode([*text, *written][-TAIL:]))
                case CanvasCommitted():
                    text += item.tokens[: item.text_length].tolist()
                    flag.is_own |= is_free and repeats(decode(text[-TAIL:]))
                case GenerationFinished():
                    begun = []
                    if item.reason == "cancelled" and flag.is_own and not flag.is_others:
                        yield dataclasses.replace(item, reason="length", why=REPEATED)
                        return
            yield from begun
            begun = []
            yield item
