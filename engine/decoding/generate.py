"""The ways to run a model: ``generate``, ``fork`` and ``infill``. Terminal, window and tests all consume these."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import closing, nullcontext
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from engine.config import BLOCK_DIFFUSION, GenerationConfig
from engine.decoding.autoregressive import autoregressive
from engine.decoding.block_causal import block_causal
from engine.decoding.block_diffusion import CommittedBlocks, Usage, block_diffusion, finished
from engine.decoding.causal_parallel import causal_parallel
from engine.decoding.infilling import infilling
from engine.decoding.masked_diffusion import masked_diffusion
from engine.decoding.mixed import mixed
from engine.decoding.names import formatting, names_of, require_diffusion
from engine.decoding.protocols import (
    BlockDenoiser,
    Decode,
    Decoder,
    Decoding,
    Denoise,
    LaunchStep,
    Pass,
    Passes,
    Prefill,
    ReadImages,
    ScoreTokens,
    T,
)
from engine.decoding.self_speculation import self_speculation
from engine.decoding.structured import structured
from engine.decoding.thoughts import ThoughtTokens
from engine.errors import SafelightError
from engine.events import Event
from engine.forks import Fork, Mark, check_seed
from engine.layers.kv_cache import KVCache
from engine.models.model import Model
from engine.models.prompt import Prompt
from engine.pictures import BLIND
from engine.text.output_format import OutputFormat
from engine.types import Cancel, Row

if TYPE_CHECKING:
    from engine.text.formatted_answer import FormattedAnswer

DECODERS: dict[str, Decoder] = {
    "block_diffusion": block_diffusion,
    "autoregressive": autoregressive,
    "causal_parallel": causal_parallel,
    "block_causal": block_causal,
    "masked_diffusion": masked_diffusion,
    "self_speculation": self_speculation,
}
"""By the names that families of models have for them: to add one, add a row. Forks, infills and decisions are block
diffusion, formats that or autoregressive."""


def generate(
    model: BlockDenoiser,
    prompt_ids: Sequence[int] | Tensor,
    config: GenerationConfig | None = None,
    seed: int = 0,
    cancel: Cancel | None = None,
    cache: KVCache | None = None,
    output_format: OutputFormat | None = None,
) -> Iterator[Event]:
    """Generate text after a prompt, block by block, telling each denoising step or other pass as an event.

    Args:
        model: from ``load_model``.
        prompt_ids: token ids (T,), T >= 1, usually from ``model.chat_ids``; a ``Prompt`` where there are images.
        config: how it is decoded, and the settings of that; ``None`` takes DiffusionGemma's defaults. Prefer
            ``model.generation_defaults``.
        seed: the same seed, settings, machine and model repeat the run exactly.
        cancel: looked at between steps (``threading.Event`` will do); the run then ends with reason "cancelled".
        cache: of an earlier run of this model, or ``model.new_cache()``. What it shares with the prompt's beginning is
            not read again, and the rest of it is forgotten. In the end it holds the prompt and all committed canvases
            but the last; of an autoregressive run, all tokens but the last. Text that was read in other pieces may
            round differently in its last digits.
        output_format: what the answer must fit; see ``names.formatting``. The run ends with "eos" where the answer is
            whole, and with "length" where it was cut, or can no longer be held to it.

    Yields:
        Events as described in ``engine.events``; the last is always ``GenerationFinished``.

    Raises:
        SafelightError: empty prompt, a prompt that does not fit, bad settings or seed, another model's cache, a
            decoder that the model does not have, non-finite logits.
    """
    config = config or GenerationConfig()
    yield from run(model, generating(model, prompt_ids, config, seed, cancel, cache, output_format))


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
    """Take a run again from the block in which it is changed last, and go on.

    A run is what it began with and all changes made on its way; ``engine.chain`` adds one to those of a run that is a
    fork itself. The block is run from its first step, as the run did, up to the last change; from there on with it.
    With no change but an empty ``Fork`` the run comes out as it was, bit for bit, where the text before the block is
    read in the same pieces: so it is while the cache still holds the run's prompt, or where the run read all of it.

    Args:
        model, cancel, cache: as for ``generate``.
        prompt_ids, config, seed: what the run at the root began with.
        committed: argmax canvases (C,) of the run's first blocks as they were committed. They are not run again, only
            read, as far as the cache does not hold them; those from the last change's block on are left out. With
            none, the whole run is taken again from its beginning.
        steps: the number of denoising steps that each of them took; and, if known, of the last change's block.
        changes: in order of their places.

    Yields:
        ``PrefillFinished``, then the blocks from there on with their true indices, then ``GenerationFinished`` with
        the tokens, blocks and steps of the whole run.

    Raises:
        SafelightError: as ``generate``; a change that cannot be made or whose place the run does not come by; blocks
            that do not fit the canvas or behind which the text has ended.
    """
    yield from run(model, forking(model, prompt_ids, config, seed, committed, steps, changes, cancel, cache))


def infill(
    model: BlockDenoiser,
    prompt_ids: Sequence[int] | Tensor,
    config: GenerationConfig,
    seed: int,
    committed: Sequence[Row],
    marks: Sequence[Mark],
    cancel: Cancel | None = None,
    cache: KVCache | None = None,
) -> Iterator[Event]:
    """Write spans of settled text anew and keep everything else.

    Marked blocks are run one after the other, each from noise in its spans and pinned elsewhere; it sees the text
    before its block as it is by then. Blocks that are not marked stay as they are. Where text follows the last span of
    a block, end tokens are banned there, so that it cannot be cut off.

    Args:
        model, prompt_ids, cancel, cache: as for ``generate``; the cache is cut back to the first marked block.
        config: sampler settings; its ``pinned`` and ``seed_canvas`` are not used.
        seed: of the noise and the candidates of this infilling.
        committed: all settled canvases (C,), the last one with or without padding.
        marks: the spans, in any order.

    Yields:
        ``PrefillFinished``, the events of the marked blocks with their true indices, and ``GenerationFinished`` with
        the whole text as it then reads, and the steps of the infilling alone.

    Raises:
        SafelightError: as ``generate``; nothing marked, or a mark outside the settled text.
    """
    yield from run(model, refilling(model, prompt_ids, config, seed, committed, marks, cancel, cache))


# --- the same without performing ---------------------------------------------------------------------------------


def generating(
    model: BlockDenoiser,
    prompt_ids: Sequence[int] | Tensor,
    config: GenerationConfig,
    seed: int,
    cancel: Cancel | None = None,
    cache: KVCache | None = None,
    output_format: OutputFormat | None = None,
) -> Decoding[None]:
    """As ``generate``; whoever takes the items performs the passes among them."""
    if output_format is not None:
        formatting(config, *_decoders_of(model))  # before anything is made
        try:
            answer = answer_of(model, [int(token) for token in prompt_ids], config, output_format, cancel)
        except SafelightError:
            if cancel is None or not cancel.is_set():
                raise
            yield finished("cancelled", [], Usage())
            return
        with closing(answer):
            yield from fitting(model, prompt_ids, config, seed, answer, cancel, cache)
        return
    prompt, cache = prepared(model, prompt_ids, cache)
    check_seed(seed)
    decode = decoder_of(model, config, prompt)
    yield from decode(model, prompt, config, seed, cancel, cache)


def fitting(
    model: BlockDenoiser,
    prompt_ids: Sequence[int] | Tensor,
    config: GenerationConfig,
    seed: int,
    answer: FormattedAnswer,
    cancel: Cancel | None = None,
    cache: KVCache | None = None,
) -> Decoding[None]:
    """As ``generating``, under the format of an answer that has not begun; see ``answer_of``."""
    decoder = formatting(config, *_decoders_of(model))
    prompt, cache = prepared(model, prompt_ids, cache)
    check_seed(seed)
    config = config.replace(pinned=(), seed_canvas=None)
    hold = structured if decoder == BLOCK_DIFFUSION else autoregressive
    yield from hold(model, prompt, config, seed, cancel, cache, answer)


def forking(
    model: BlockDenoiser,
    prompt_ids: Sequence[int] | Tensor,
    config: GenerationConfig,
    seed: int,
    committed: Sequence[Row],
    steps: Sequence[int],
    changes: Sequence[Fork],
    cancel: Cancel | None = None,
    cache: KVCache | None = None,
) -> Decoding[None]:
    """As ``fork``; whoever takes the items performs the passes among them."""
    require_block_diffusion(model, config, "a fork")
    if config.rescue:
        raise SafelightError("a run that rescues blocks cannot be forked; run it with rescue off, and fork that")
    if config.rewrites:
        raise SafelightError("a run that rewrites doubtful spans cannot be forked; run it without, and fork that")
    prompt, cache = prepared(model, prompt_ids, cache)
    check_seed(seed)
    last = changes[-1] if changes else None
    known = len(committed) if last is None else min(len(committed), last.block)
    if len(steps) < known:
        raise SafelightError(f"there are {known} committed blocks and the steps of {len(steps)}; give both")
    if last is not None and last.block < len(steps) and last.step > steps[last.block]:
        taken = steps[last.block]
        raise SafelightError(f"block {last.block} took {taken} steps; fork it at step 0 to {taken}, not {last.step}")
    if any(count < 1 for count in steps):
        raise SafelightError("each committed block took at least one step")
    rows = checked_rows(model, committed[:known], config.canvas_length)
    for block, row in enumerate(rows):
        if any(token in config.eos_token_ids for token in row.tolist()):
            raise SafelightError(f"the text ends in block {block}; no block comes after it. Fork that one")
    blocks = CommittedBlocks(rows, tuple(steps[:known]))
    yield from block_diffusion(model, prompt, config, seed, cancel, cache, blocks, changes)


def refilling(
    model: BlockDenoiser,
    prompt_ids: Sequence[int] | Tensor,
    config: GenerationConfig,
    seed: int,
    committed: Sequence[Row],
    marks: Sequence[Mark],
    cancel: Cancel | None = None,
    cache: KVCache | None = None,
) -> Decoding[None]:
    """As ``infill``; whoever takes the items performs the passes among them."""
    require_block_diffusion(model, config, "an infill")
    prompt, cache = prepared(model, prompt_ids, cache)
    check_seed(seed)
    if not marks:
        raise SafelightError("nothing is marked; mark a span of settled text first")
    rows = checked_rows(model, committed, config.canvas_length)
    if not rows:
        raise SafelightError("there is no settled text yet; wait for a block to be committed")
    yield from infilling(model, prompt, rows, marks, config, seed, cancel, cache)


# --- running -----------------------------------------------------------------------------------------------------


def decoder_of(model: BlockDenoiser, config: GenerationConfig, prompt: Tensor) -> Decoder:
    """The way of decoding that a run behind a prompt (T,) asks for.

    Raises:
        SafelightError: the model's family does not have it, or cannot change between the two that are asked for.
    """
    thought, answer = names_of(config, *_decoders_of(model))
    if thought == answer and not ((config.rescue or config.verify) and answer == BLOCK_DIFFUSION):
        return DECODERS[answer]
    thoughts = ThoughtTokens.of(model.tokenizer, prompt) if isinstance(model, Model) else ThoughtTokens()
    return functools.partial(mixed, decoders=(thought, answer), thoughts=thoughts)


def require_block_diffusion(model: BlockDenoiser, config: GenerationConfig, what: str) -> None:
    """As ``require_diffusion``, of a model or a bare network."""
    require_diffusion(config, *_decoders_of(model), what)


def _decoders_of(model: BlockDenoiser) -> tuple[tuple[str, ...], str]:
    """The decoders that it has, and its own."""
    if isinstance(model, Model):
        return model.family.decoders, model.family.default_decoder
    if hasattr(model, "denoise"):
        return tuple(DECODERS), BLOCK_DIFFUSION
    return tuple(name for name in DECODERS if name != BLOCK_DIFFUSION), "autoregressive"  # it only reads


@torch.inference_mode()  # as a decorator it is off while the generator is suspended
def run(model: BlockDenoiser, decoding: Decoding[None]) -> Iterator[Event]:
    """Perform a decoder's passes one after the other, and hand on its events."""
    with closing(decoding):
        for item in decoding:
            if isinstance(item, Pass):
                perform(model, item)
            else:
                yield item


def complete(model: BlockDenoiser, passes: Passes[T]) -> T:
    """Perform passes that tell no events, and return what they come to."""
    while True:
        try:
            wanted = next(passes)
        except StopIteration as end:
            value: T = end.value
            return value
        perform(model, wanted)


@torch.inference_mode()
def perform(model: BlockDenoiser, wanted: Pass) -> None:
    """One pass, on its own."""
    match wanted:
        case Prefill():
            model.prefill(wanted.ids, wanted.cache)
        case ScoreTokens():
            _score(model, wanted)
        case Denoise():
            before = wanted.cache.length
            if wanted.text is not None:
                model.prefill(wanted.text, wanted.cache)
            try:
                wanted.logits = model.denoise(wanted.canvas, wanted.cache, wanted.self_conditioning_logits)
            except Exception:
                wanted.cache.truncate(before)  # nothing has changed
                raise
        case Decode():
            with nullcontext() if wanted.draft is None else wanted.draft.on():
                wanted.logits = model.decode(
                    wanted.ids, wanted.cache, wanted.commit, wanted.first_logits, wanted.positions, wanted.is_causal
                )
        case LaunchStep():
            wanted.program.launch(wanted.index)
        case ReadImages():
            try:
                next(wanted.reading)
            except StopIteration as end:
                wanted.prompt = end.value
            except Exception as error:
                wanted.failure = error


def _score(model: BlockDenoiser, wanted: ScoreTokens) -> None:
    hidden = model.prefill(wanted.ids, wanted.cache)
    before = hidden[:0] if wanted.before is None else wanted.before[None]
    states, wanted.last = torch.cat((before, hidden[:-1])), hidden[-1].clone()
    asked = min(len(states), len(wanted.ids) - wanted.first)
    found = torch.full((len(wanted.ids) - wanted.first,), torch.nan, device=hidden.device)
    if asked:
        found[-asked:] = model.log_probabilities(states[-asked:], wanted.ids[-asked:])
    wanted.log_probabilities = found


# --- what is asked for -------------------------------------------------------------------------------------------


def answer_of(
    model: BlockDenoiser,
    prompt: Sequence[int],
    config: GenerationConfig,
    output_format: OutputFormat,
    cancel: Cancel | None = None,
) -> FormattedAnswer:
    """An answer at its beginning, as ``FormattedAnswer.for_prompt``.

    Raises:
        SafelightError: no text fits the format, or none can be held to it; or ``cancel`` was set meanwhile.
    """
    from engine.text.formatted_answer import FormattedAnswer  # its library, which other runs do not need

    if not isinstance(model, Model):
        raise SafelightError("a bare network has no tokenizer; answers cannot be held to a format")
    size, ends = model.config.vocab_size, config.eos_token_ids
    return FormattedAnswer.for_prompt(output_format, model.tokenizer, size, ends, prompt, cancel)


def prepared(model: BlockDenoiser, prompt_ids: Sequence[int] | Tensor, cache: KVCache | None) -> tuple[Tensor, KVCache]:
    """A prompt as a tensor (T,), and the cache that it is to be read into, or a new one, bound to the model.

    Raises:
        SafelightError: the prompt is empty, or has images that this model cannot read; the cache is another model's.
    """
    ids = prompt_ids.ids if isinstance(prompt_ids, Prompt) else prompt_ids
    prompt, images = torch.as_tensor(ids, dtype=torch.long), prompt_ids.images if isinstance(prompt_ids, Prompt) else ()
    if prompt.dim() != 1 or prompt.numel() == 0:
        raise SafelightError("the prompt is empty; write something first")
    if images and model.config.vision is None:
        raise SafelightError(BLIND)
    cache = model.new_cache() if cache is None else cache
    cache.bind(model, model.config)
    cache.images = images
    return prompt, cache


def checked_rows(model: BlockDenoiser, committed: Sequence[Row], length: int | None) -> tuple[Tensor, ...]:
    """Settled canvases as tensors (C,) on the CPU; ``length`` is C, None the model's own.

    Raises:
        SafelightError: one has another length, or a token outside the vocabulary.
    """
    length, size = length or model.config.canvas_length, model.config.vocab_size
    rows = tuple(
        # A copy: what a trace hands out may be read only.
        row.detach().to("cpu", torch.long) if isinstance(row, Tensor) else torch.from_numpy(np.array(row, np.int64))
        for row in committed
    )
    for block, row in enumerate(rows):
        if row.shape != (length,):
            raise SafelightError(f"block {block} has the shape {tuple(row.shape)}; the canvas has {length} tokens")
        if not 0 <= int(row.min()) <= int(row.max()) < size:
            raise SafelightError(f"block {block} has a token outside the vocabulary of {size} tokens")
    return rows
