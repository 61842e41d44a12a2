"""Plans how a model fills a gap in a text: its prompt, and the canvas on which the gap may be written.

*Behind a prompt.* A causal model whose vocabulary has the markers of gaps gets the text before the gap and the text
behind it in its prompt, and writes the gap behind that.

*On a canvas.* Block diffusion and models that read whole texts see what is on the canvas. The text before the gap is
the beginning of the model's answer. The canvas begins with a hole; the text behind the gap follows it, pinned, and end
tokens where that fits as a whole. What does not fit is in the message before the answer, as are other files.

The hole has the length that is asked for. Where none is, a model that was trained so pads the rest of a hole, which has
a length of ``GAP_LENGTHS``; others fill all of a hole of ``USUAL_HOLE`` tokens.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from engine.config import GAP_LENGTHS, SMALLEST_CANVAS, USUAL_HOLE, GenerationConfig
from engine.decoders import BLOCK_DIFFUSION
from engine.decoding.names import names_of
from engine.errors import SafelightError
from engine.models.model import Model
from engine.text.gap_markers import GapFile, GapMarkers, TextGap, markers_of
from engine.text.message import message_of
from engine.text.outline import INSTRUCTION
from engine.text.tags import closed_thought
from engine.text.tokenizer import Tokenizer

READS_WHOLE = "bidirectional"  # the decoder of models that read whole texts
LEAST_SEEN = 16  # tokens of the text behind a gap that a canvas has, if there are so many
SUFFIX_SHARE = 4  # the text behind a gap takes at most this part of a prompt's positions
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
    """The prompt of a gap, its settings, and its canvas; without one the gap is written behind the prompt.

    Args:
        is_padded: the rest of the hole is padding.
    """

    prompt: tuple[int, ...]
    config: GenerationConfig
    canvas: GapCanvas | None = None
    is_padded: bool = False

    @property
    def is_masked(self) -> bool:
        return self.config.decoder == READS_WHOLE


def fills_gaps(model: Model) -> bool:
    own = model.family.decoders[0]
    return own in (BLOCK_DIFFUSION, READS_WHOLE) or _markers(model) is not None


def plan_gap(
    model: Model,
    gap: TextGap,
    config: GenerationConfig,
    *,
    length: int | None = None,
    instruction: str = "",
) -> GapPlan:
    """Plans the run that fills a gap.

    Args:
        config: its ``max_new_tokens`` are the most that the gap may have.
        length: exactly so many tokens; None: not known.
        instruction: to the model, in place of ``INSTRUCTION``; only models with a canvas read it.

    Raises:
        SafelightError: the model cannot see what stands behind a gap; a length that does not fit its canvas, or that is
            asked of a model that writes one token after the other; the model's template refuses the message.
    """
    decoder, answer = names_of(config, model.family.decoders)
    markers = _markers(model)
    if markers is not None and decoder == answer:
        if length is not None:
            raise SafelightError("this model writes a gap token by token; leave out the length")
        return _behind_markers(model, gap, config, markers)
    if decoder != answer or decoder not in (BLOCK_DIFFUSION, READS_WHOLE):
        raise SafelightError(
            f"this model writes by {answer}, which does not see what stands behind a gap; take a model of block "
            "diffusion, one that reads whole texts (LLaDA, Dream), or one with fill-in-the-middle tokens "
            "(Qwen2.5-Coder, StarCoder, CodeGemma)"
        )
    return _on_canvas(model, gap, config.replace(decoder=decoder), length, instruction or INSTRUCTION)


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
    settings = config.replace(eos_token_ids=tuple(eos), pinned=(), thinking_tokens=None)
    return GapPlan((*head, *texts[0], *between, *texts[1], *tail), settings)


def _on_canvas(model: Model, gap: TextGap, config: GenerationConfig, length: int | None, instruction: str) -> GapPlan:
    tokenizer, shape, is_masked = model.tokenizer, model.config, config.decoder == READS_WHOLE
    positions = shape.max_position_embeddings
    behind = tokenizer.encode_inert(gap.suffix)
    most = positions // EXTRA_SHARE if is_masked else config.canvas_length or shape.canvas_length
    pads = shape.pads_gaps and length is None
    if length is not None and not 1 <= length <= most:
        raise SafelightError(f"a gap of this model has 1 to {most} tokens, not {length}")
    hole = length or (_padded_hole if pads else _usual_hole)(config.max_new_tokens, len(behind), most)
    size = _canvas_length(hole + len(behind) + 1, most, config, is_masked=is_masked, pads=pads)
    end = config.eos_token_ids[:1] or (config.pad_token_id,)
    canvas = GapCanvas(hole, (*behind[: size - hole], *end * (size - hole - len(behind))))
    unseen = behind[size - hole :]
    question = _question(model, gap, instruction, unseen, positions // EXTRA_SHARE)
    before = tokenizer.encode_inert(gap.prefix)
    room = _room(positions - len(question) - size, config)
    settings = config.replace(
        canvas_length=size, smallest_canvas=None if is_masked else config.smallest_canvas or SMALLEST_CANVAS,
        pinned=(), max_new_tokens=size, thinking_tokens=None,
    )  # fmt: skip
    prompt = (*question, *before[max(0, len(before) - room) :])
    return GapPlan(prompt, settings, canvas, pads)


def _usual_hole(asked: int, behind: int, most: int) -> int:
    """Returns the length of a hole on a canvas of at most ``most`` tokens, with ``behind`` tokens of text to follow."""
    return max(1, min(USUAL_HOLE, asked, most - min(behind, LEAST_SEEN)))


def _padded_hole(asked: int, behind: int, most: int) -> int:
    """Returns the length of the one hole of a model that pads it, so that the text behind it fits, if it can."""
    enough = next((hole for hole in GAP_LENGTHS if hole >= asked), GAP_LENGTHS[-1])
    fitting = [hole for hole in GAP_LENGTHS if hole <= enough and hole + behind <= most]
    return max(fitting, default=min(GAP_LENGTHS[0], most))


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
        unseen: tokens of the text behind the gap that the canvas does not have.
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
    token_id = tokenizer.token_id(token)
    assert token_id is not None, "the vocabulary has its markers"
    return token_id
