"""Plans how a model fills a gap in a text: its prompt, and the canvases on which the gap may be written.

*Behind a prompt.* A causal model whose vocabulary has the markers of gaps gets the text before the gap and the text
behind it in its prompt, and writes the gap behind that.

*On a canvas.* Block diffusion and models that read whole texts see what is on the canvas. The text before the gap is
the beginning of the model's answer. The canvas begins with a hole; the text behind the gap follows it, pinned, and end
tokens where that fits as a whole. What does not fit is in the message before the answer, as are other files.

The length of a gap is not known. A model that was trained so pads the rest of one hole, which has a length of
``GAP_LENGTHS``. Others are given holes of several lengths, and the fillings are compared.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from engine.config import BLOCK_DIFFUSION, GAP_LENGTHS, SMALLEST_CANVAS, GenerationConfig
from engine.decoding.names import names_of
from engine.errors import SafelightError
from engine.models.model import Model
from engine.text.gap_markers import GapFile, GapMarkers, TextGap, markers_of
from engine.text.message import message_of
from engine.text.outline import INSTRUCTION
from engine.text.tags import closed_thought
from engine.text.tokenizer import Tokenizer

READS_WHOLE = "bidirectional"  # the decoder of models that read whole texts
LENGTHS = (4, 8, 16, 32, 64, 128)  # of the holes that are compared, in tokens
LEAST_SEEN = 16  # tokens of the text behind a gap that a canvas has, if there are so many
SCORED_BEHIND = 16  # tokens of it whose probability behind a filling counts
SUFFIX_SHARE = 4  # the text behind a gap takes at most this part of a prompt's positions
MOST_HOLES = 16  # that are compared
MARKS = 4  # tokens around a file, at most
EXTRA_SHARE = 2  # other files, and text that is not on a canvas, take at most this part


@dataclass(frozen=True)
class GapCanvas:
    """A canvas whose first ``hole`` positions are written; ``behind`` are the tokens of all others."""

    hole: int
    behind: tuple[int, ...]

    def __len__(self) -> int:
        return self.hole + len(self.behind)


@dataclass(frozen=True)
class GapPlan:
    """The prompt of a gap, its settings, and its canvases; without any the gap is written behind the prompt.

    Args:
        head: the first tokens of the text behind the gap.
        is_padded: the rest of a hole is padding.
    """

    prompt: tuple[int, ...]
    config: GenerationConfig
    canvases: tuple[GapCanvas, ...] = ()
    head: tuple[int, ...] = ()
    is_padded: bool = False

    @property
    def is_masked(self) -> bool:
        """True if holes begin as masks."""
        return self.config.decoder == READS_WHOLE


def fills_gaps(model: Model) -> bool:
    """True if a model can fill the gap of a text."""
    own = model.family.default_decoder
    return own in (BLOCK_DIFFUSION, READS_WHOLE) or _markers(model) is not None


def plan_gap(
    model: Model,
    gap: TextGap,
    config: GenerationConfig,
    *,
    lengths: Sequence[int] | None = None,
    length: int | None = None,
    instruction: str = "",
) -> GapPlan:
    """Plans the run that fills a gap.

    Args:
        config: its ``max_new_tokens`` are the most that the gap may have.
        lengths: of the holes that are compared, in tokens; None chooses.
        length: exactly so many tokens; None: not known.
        instruction: to the model, in place of ``INSTRUCTION``; only models with a canvas read it.

    Raises:
        SafelightError: the model cannot see what stands behind a gap; a length that does not fit its canvas, or that is
            asked of a model that writes one token after the other; the model's template refuses the message.
    """
    decoder, answer = names_of(config, model.family.decoders, model.family.default_decoder)
    markers = _markers(model)
    if markers is not None and decoder == answer:
        if lengths is not None or length is not None:
            raise SafelightError("this model writes a gap token by token; leave out the length")
        return _behind_markers(model, gap, config, markers)
    if decoder != answer or decoder not in (BLOCK_DIFFUSION, READS_WHOLE):
        raise SafelightError(
            f"this model writes by {answer}, which does not see what stands behind a gap; take a model of block "
            "diffusion, one that reads whole texts (LLaDA, Dream), or one with fill-in-the-middle tokens "
            "(Qwen2.5-Coder, StarCoder, CodeGemma)"
        )
    return _on_canvases(model, gap, config.replace(decoder=decoder), lengths, length, instruction or INSTRUCTION)


def _markers(model: Model) -> GapMarkers | None:
    """Returns the markers of a model that writes one token after the other; None if it has none, or writes otherwise.

    Models that were made from a causal one may have its vocabulary, but not its habits.
    """
    return markers_of(model.tokenizer) if model.family.decoders == ("autoregressive",) else None


def _behind_markers(model: Model, gap: TextGap, config: GenerationConfig, markers: GapMarkers) -> GapPlan:
    tokenizer, positions = model.tokenizer, model.config.max_position_embeddings
    most = positions - config.max_new_tokens
    shown = dataclasses.replace(gap, files=_that_fit(gap.files, tokenizer, most // EXTRA_SHARE))
    ids = tokenizer.encode_rendered(markers.render(shown, tokenizer.inert_with(markers.tokens)))
    first, second = sorted(ids.index(_id(tokenizer, token)) for token in (markers.prefix, markers.suffix))
    end = len(ids) - bool(markers.middle)
    head, between, tail = [*tokenizer.before, *ids[: first + 1]], ids[second : second + 1], ids[end:]
    texts = ids[first + 1 : second], ids[second + 1 : end]
    before, behind = reversed(texts) if markers.is_suffix_first else texts
    before, behind = _cut(before, behind, _room(most - len(head) - len(between) - len(tail), config))
    texts = (behind, before) if markers.is_suffix_first else (before, behind)
    ends = (tokenizer.token_id(token) for token in markers.ends)
    eos = dict.fromkeys((*config.eos_token_ids, *(end for end in ends if end is not None)))
    settings = config.replace(eos_token_ids=tuple(eos), pinned=(), seed_canvas=None, thinking_tokens=None)
    return GapPlan((*head, *texts[0], *between, *texts[1], *tail), settings, head=tuple(behind[:SCORED_BEHIND]))


def _on_canvases(
    model: Model,
    gap: TextGap,
    config: GenerationConfig,
    lengths: Sequence[int] | None,
    length: int | None,
    instruction: str,
) -> GapPlan:
    tokenizer, shape, is_masked = model.tokenizer, model.config, config.decoder == READS_WHOLE
    positions = shape.max_position_embeddings
    behind = tokenizer.encode_inert(gap.suffix)
    most = positions // EXTRA_SHARE if is_masked else config.canvas_length or shape.canvas_length
    pads = config.gap_padding and length is None
    if pads and lengths is None:
        lengths = _padded_hole(config.max_new_tokens, len(behind), most)
    holes = _holes(lengths, length, config.max_new_tokens, len(behind), most)
    largest = max(holes)
    sizes = [_canvas_length(hole + len(behind) + 1, most, config, is_masked=is_masked, pads=pads) for hole in holes]
    if is_masked:
        sizes = [max(sizes)] * len(holes)
    end = config.eos_token_ids[:1] or (config.pad_token_id,)
    canvases = tuple(
        GapCanvas(hole, (*behind[: size - hole], *end * (size - hole - len(behind))))
        for hole, size in zip(holes, sizes, strict=True)
    )
    unseen = behind[max(sizes) - largest :]
    question = _question(model, gap, instruction, unseen, positions // EXTRA_SHARE)
    before = tokenizer.encode_inert(gap.prefix)
    room = _room(positions - len(question) - max(sizes), config)
    settings = config.replace(
        canvas_length=max(sizes), smallest_canvas=None if is_masked else config.smallest_canvas or SMALLEST_CANVAS,
        pinned=(), seed_canvas=None, max_new_tokens=max(sizes), thinking_tokens=None, rescue=False, verify=False,
        head_steps=0,
    )  # fmt: skip
    prompt = (*question, *before[max(0, len(before) - room) :])
    return GapPlan(prompt, settings, canvases, tuple(behind[:SCORED_BEHIND]), pads)


def _holes(lengths: Sequence[int] | None, length: int | None, asked: int, behind: int, most: int) -> tuple[int, ...]:
    """Returns the lengths of holes on canvases of at most ``most`` tokens, with ``behind`` tokens of text to follow.

    Raises:
        SafelightError: none fits, or one that was asked for does not.
    """
    wanted = lengths if length is None else (length,)
    if wanted is not None:
        if not wanted or len(wanted) > MOST_HOLES:
            raise SafelightError(f"give 1 to {MOST_HOLES} lengths of a gap, or none")
        for hole in wanted:
            if not 1 <= hole <= most:
                raise SafelightError(f"a gap of this model has 1 to {most} tokens, not {hole}")
        return tuple(dict.fromkeys(wanted))
    seen = most - min(behind, LEAST_SEEN)
    enough = next((hole for hole in LENGTHS if hole >= asked), LENGTHS[-1])
    return tuple(hole for hole in LENGTHS if hole <= min(enough, seen)) or (max(1, min(asked, seen)),)


def _padded_hole(asked: int, behind: int, most: int) -> tuple[int]:
    """Returns the length of the one hole of a model that pads it, so that the text behind it fits, if it can."""
    enough = next((hole for hole in GAP_LENGTHS if hole >= asked), GAP_LENGTHS[-1])
    fitting = [hole for hole in GAP_LENGTHS if hole <= enough and hole + behind <= most]
    return (max(fitting, default=min(GAP_LENGTHS[0], most)),)


def _canvas_length(needed: int, most: int, config: GenerationConfig, *, is_masked: bool, pads: bool) -> int:
    """Returns the tokens of a canvas: as many as are needed of masks, else a length that models of noise know."""
    if is_masked:
        return min(needed, most)
    if pads:
        return most  # as in training
    size = min(config.smallest_canvas or SMALLEST_CANVAS, most)
    while size < min(needed, most):
        size *= 2
    return min(size, most)


def _question(model: Model, gap: TextGap, instruction: str, unseen: Sequence[int], most: int) -> list[int]:
    """Returns the prompt up to the model's answer: what it shall do, and what it cannot see of the text.

    Args:
        unseen: tokens of the text behind the gap that no canvas has.
        most: tokens of all that is added to the instruction.
    """
    tokenizer, parts = model.tokenizer, [instruction]
    if unseen:
        shown = tokenizer.decode(unseen[: most // 2], skip_special=False)
        parts.append(f"Behind the gap the text goes on, and further on there stands:\n{shown}")
    files = _that_fit(gap.files, tokenizer, most // 2)
    if files:
        own = f" of {gap.path}" if gap.path else ""
        parts.append(f"The gap is in a text{own}. Other files:")
        parts += [f"{file.path}\n{file.text}" if file.path else file.text for file in files]
    ids = model.chat_ids([message_of("\n\n".join(parts))], enable_thinking=False)
    return closed_thought(ids, tokenizer)


def _that_fit(files: Sequence[GapFile], tokenizer: Tokenizer, most: int) -> tuple[GapFile, ...]:
    """Returns the last files that take at most so many tokens together."""
    kept = list[GapFile]()
    for file in reversed(files):
        most -= tokenizer.count(file.text) + tokenizer.count(file.path) + MARKS
        if most < 0:
            break
        kept.insert(0, file)
    return tuple(kept)


def _cut(before: list[int], behind: list[int], room: int) -> tuple[list[int], list[int]]:
    """Returns the end of one text and the beginning of the other, which take at most ``room`` tokens together."""
    own = min(len(behind), max(room // SUFFIX_SHARE, room - len(before)))
    return before[max(0, len(before) - (room - own)) :], behind[:own]


def _room(room: int, config: GenerationConfig) -> int:
    """Returns the tokens of text around a gap that a prompt has room for.

    Raises:
        SafelightError: there is none.
    """
    if room < 1:
        raise SafelightError(
            f"a gap of {config.max_new_tokens} tokens leaves no room for the text around it in this model's "
            "positions; ask for fewer"
        )
    return room


def _id(tokenizer: Tokenizer, token: str) -> int:
    found = tokenizer.token_id(token)
    assert found is not None, "the vocabulary has its markers"
    return found
