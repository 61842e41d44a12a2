"""The inspector in words: frames, figures, tokens, a position's history, and two runs beside each other. No widgets."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence, Sized
from dataclasses import asdict

from app.canvas.glyphs import glyph_of
from app.canvas.words import token_words
from app.inspector.timeline.overview import BlockFigures
from app.settings.decoders import OWN_DECODING, decoder_title, remasking_title
from app.settings.spec import REMASKING, SAMPLER
from app.state.run.answers import question_words
from app.state.run.canvas import BlockState
from app.state.run.cell_history import History
from app.state.run.comparison import Difference, differences, has, model_title
from app.state.run.replay import NOISE, Frame, Replay
from app.state.run.task_words import round_words
from app.state.sudoku.placing import is_puzzle, puzzle_in
from app.system.i18n import tr, trn
from engine import Fork, Mark, TraceHeader, step_number
from engine.tasks import sudoku

Piece = Callable[[int], str]
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
NAMED_ONLY = ("weights", "adapter_weights", "prompt", "format", "eos_token_ids", "seed_canvas")
"""Differences whose values say nothing to people."""
MOST_PROMPT = 1_000  # characters that are looked at for a title
MOST_TITLE = 200  # characters of it; less where there is less room
MOST_PINS = 6  # of a fork that are named
COUNTED = ("pinned", "banned_tokens", "allowed_tokens")


# --- numbers and tokens ----------------------------------------------------------------------------------------------


def in_nats(value: float) -> str:
    """A figure with two or three digits that count, whatever its size; the unit is the caller's."""
    if value == 0 or value >= 0.001:
        return f"{value:.3f}" if value < 100 else f"{value:.0f}"
    power = math.floor(math.log10(value))
    return tr("{digits} × 10{power}", digits=f"{value / 10.0**power:.1f}", power=str(power).translate(_SUPERSCRIPT))


def power_of_ten(power: int) -> str:
    """10⁻³, and so on; 1 and 0.1 as they are."""
    return {0: "1", -1: "0.1", 1: "10"}.get(power, "10" + str(power).translate(_SUPERSCRIPT))


def tick(value: float) -> str:
    """A figure at a scale, in as few letters as can be."""
    if value == 0 or value >= 0.001:
        return f"{value:g}"
    power = math.floor(math.log10(value) + 1e-9)
    return f"{value / 10.0**power:.0f}·10{str(power).translate(_SUPERSCRIPT)}"


def quoted(piece: str) -> str:
    """A token as people name it."""
    return token_words(piece)


def probability(share: float) -> str:
    """A probability for reading: never 0 % or 100 % where it is not."""
    if 0 < share < 0.001:
        return tr("under 0.1 %")
    if 0.999 < share < 1:
        return tr("over 99.9 %")
    return tr("{share} %", share=f"{100 * share:.1f}")


def written(piece: str, special: bool) -> str:
    """A token as it is drawn in charts: with signs for what is unseen, a control token by its name."""
    return token_words(piece) if special else glyph_of(piece, False).text or piece


# --- frames ----------------------------------------------------------------------------------------------------------


def frame_words(frame: Frame, steps: int, snapshot: BlockState | None, reads: int = 0) -> str:
    """Which frame it is: block, step and temperature. ``steps`` are the block's; a decision has ``reads``."""
    block = frame.block + 1
    if reads and frame.step == NOISE:
        return tr("Read {read} of {reads}, before its step: noise at the slots", read=block, reads=reads)
    if reads:
        return tr("Read {read} of {reads}, one denoising step", read=block, reads=reads)
    has_masks = snapshot is not None and snapshot.has_masks
    if frame.step == NOISE and has_masks:
        return tr("Block {block}, before the first step", block=block)
    if frame.step == NOISE:
        return tr("Block {block}, noise before the first step", block=block)
    if snapshot is not None and snapshot.committed:
        if has_masks:
            return tr("Block {block}, written after step {steps}", block=block, steps=steps)
        if snapshot.is_rescued:
            return tr(
                "Block {block}, rescued after step {cap}, written after step {steps}",
                block=block,
                cap=snapshot.rescue_after or 0,
                steps=steps,
            )
        if snapshot.reason == "converged":
            return tr("Block {block}, committed after step {steps}: sure enough to stop", block=block, steps=steps)
        return tr("Block {block}, committed after step {steps}: the most it may take", block=block, steps=steps)
    if snapshot is None or snapshot.temperature is None:
        return tr("Block {block}, step {step} of {steps}", block=block, step=step_number(frame.step), steps=steps)
    figures = {"step": step_number(frame.step), "steps": steps, "temperature": f"{snapshot.temperature:.2f}"}
    if snapshot.is_rescued:
        return tr("Block {block}, rescued, step {step} of {steps}", block=block, **figures)
    if snapshot.round is None:
        return tr("Block {block}, step {step} of {steps}, temperature {temperature}", block=block, **figures)
    return tr(
        "Block {block}, step {step} of {steps}, round {round}, temperature {temperature}",
        block=block,
        round=snapshot.round.number + 1,
        **figures,
    )


def facts(frame: Frame, steps: int, figures: BlockFigures | None, reads: int = 0) -> list[str]:
    """A frame's facts, a line each, as far as they are known without reading the run; a decision has ``reads``."""
    if reads:
        return [frame_words(frame, steps, None, reads)]
    if frame.step == NOISE:
        if figures is not None and figures.has_masks:
            return [tr("Block {block}, nothing written yet", block=frame.block + 1)]
        return [tr("Block {block}, noise", block=frame.block + 1)]
    if frame.step >= steps:
        lines = [tr("Block {block}, committed", block=frame.block + 1), trn("{count} step", "{count} steps", steps)]
        if figures is not None and figures.is_rescued:
            lines.append(tr("Rescued: written on behind its stable beginning"))
        elif figures is not None and not figures.has_masks:
            lines.append(
                tr("Stopped early: sure enough") if figures.stopped_early else tr("Stopped at the cap on steps")
            )
        if figures is not None:
            lines.append(trn("{count} position of text", "{count} positions of text", figures.counted))
        return [*lines, *_rounds_at(frame, figures)]
    step, begins = frame.step, _rounds_at(frame, figures)
    where = tr("Block {block}, step {step} of {steps}", block=frame.block + 1, step=step_number(step), steps=steps)
    lines = [where, *begins]
    if figures is None or step >= figures.steps:
        return lines
    lines += [
        tr("Temperature {temperature}", temperature=f"{figures.temperature[step]:.2f}"),
        tr("Mean entropy {entropy} nats", entropy=f"{figures.mean_entropy[step]:.3f}"),
    ]
    if figures.has_masks:  # what is written stays, and a guess is made once
        written = int(figures.accepted[step])
        if figures.grows:
            return [*lines, trn("{count} token written", "{count} tokens written", written)]
        return [*lines, tr("{accepted} of {count} written", accepted=written, count=figures.counted)]
    lines += [
        tr("{accepted} of {count} accepted", accepted=int(figures.accepted[step]), count=figures.counted),
        trn("{count} remelt", "{count} remelts", int(figures.remelts[step])),
        trn("{count} change of the best guess", "{count} changes of the best guess", int(figures.changes[step])),
    ]
    return lines


def _rounds_at(frame: Frame, figures: BlockFigures | None) -> list[str]:
    """The round that a frame begins with, in a line."""
    found = () if figures is None else figures.rounds
    told = [round_words(one) for one in found if one.step == frame.step]
    return [words[:1].upper() + words[1:] for words in told]


# --- a position's history --------------------------------------------------------------------------------------------


def history_in_words(bio: History, piece: Piece) -> str:
    """The whole history in a sentence or two."""
    if bio.pinned:
        stands = bio.final if bio.final is not None else int(bio.following[-1]) if bio.steps else None
        if stands is None:
            return tr("Given: it was pinned from the start.")
        return tr("Given: pinned as {text} from the start.", text=quoted(piece(stands)))
    if not bio.steps:
        return tr("No step was taken yet.")
    said = [tr("Accepted at {count} of {steps}", count=bio.accepted_count, steps=_counted(bio.steps)), _remelted(bio)]
    if bio.held_from is not None and bio.fits:
        said.append(tr("pinned from step {step} on, as it fits", step=step_number(bio.held_from)))
    elif bio.held_from is not None:
        said.append(tr("pinned from step {step} on", step=step_number(bio.held_from)))
    settled = quoted(piece(int(bio.argmax[-1])))
    if bio.final is None:
        said.append(tr("best guess since step {step}: {text}", step=step_number(bio.settled_at), text=settled))
    else:
        said.append(tr("settled at step {step} as {text}", step=step_number(bio.settled_at), text=settled))
    sentence = tr("{facts}.", facts=", ".join(said))
    if bio.causal:
        read = [
            tr("{share} at step {step}", share=probability(share), step=step_number(step)) for step, share in bio.causal
        ]
        sentence += " " + tr("Causal probability: {list}.", list=tr(", ").join(read))
    if bio.padding:
        sentence += " " + tr("It is padding behind the end of the text.")
    return sentence


def moment_in_words(bio: History, step: int, piece: Piece) -> str:
    """One step of it in words; ``step`` -1 is the noise before the first, ``bio.steps`` the commit."""
    if step < 0 or not bio.steps:
        if bio.has_masks:
            return tr("Before the first step.")
        return tr("Before the first step: the position holds noise.")
    if step >= bio.steps:
        if bio.final is None:
            return ""
        return tr("Committed as {text}.", text=quoted(piece(bio.final)))
    guess, sample = int(bio.argmax[step]), int(bio.candidates[step])
    if bio.held[step]:
        fate = tr("pinned, as it fits") if bio.fits else tr("given")
    elif bio.accepted[step]:
        fate = tr("accepted")
    elif bio.remelted[step]:
        fate = tr("re-noised, which is a remelt")
    elif bio.has_masks:
        fate = tr("not written")
    else:
        fate = tr("re-noised")
    if bio.has_masks and not bio.accepted[step] and not bio.entropy[step]:
        return tr("Step {step}: nothing was predicted here yet.", step=step_number(step))
    entropy = tr("entropy {entropy} nats", entropy=f"{bio.entropy[step]:.3f}")
    if guess == sample:
        said = tr("argmax and sampled {text}, {fate}", text=quoted(piece(guess)), fate=fate)
    else:
        said = tr(
            "argmax {guess}, sampled {text}, {fate}", guess=quoted(piece(guess)), text=quoted(piece(sample)), fate=fate
        )
    return tr("Step {step}: {said}; {entropy}.", step=step_number(step), said=said, entropy=entropy)


def _counted(number: int) -> str:
    return trn("{count} step", "{count} steps", number)


def _remelted(bio: History) -> str:
    match bio.remelt_count:
        case 0:
            return tr("never remelted")
        case 1:
            return tr("remelted once")
        case 2:
            return tr("remelted twice")
        case count:
            return tr("remelted {count} times", count=count)


# --- two runs --------------------------------------------------------------------------------------------------------


def run_title(header: TraceHeader) -> str:
    """Names a run by its model, the adapter on it, and its seed where it followed one."""
    model = model_words(header)
    return model if header.seed is None else tr("{model}, seed {seed}", model=model, seed=header.seed)


def model_words(header: TraceHeader) -> str:
    """A run's model, and the adapter on it."""
    model, adapter = model_title(header), header.model.adapter
    return tr("{model} with {adapter}", model=model, adapter=adapter) if adapter else model


def asked_in_words(one: TraceHeader, other: TraceHeader, piece: Piece | None = None) -> str:
    """What was asked otherwise, and whether one was made from the other, with what was changed for it."""
    found = differences(one, other)
    told = tr("; ").join(_difference(difference) for difference in found)
    kinship = _kinship(one, other, piece)
    if kinship and not found:  # what a fork changes is no setting that it began with
        return " ".join(kinship)
    said = tr("What differs: {list}.", list=told) if found else tr("The same model, prompt, seed and settings.")
    return " ".join([said, *kinship])


def short_difference(one: TraceHeader, other: TraceHeader) -> str:
    """What the other run has otherwise, as a hint to choose by."""
    found = differences(one, other)
    if other.parent is not None and other.parent.id == one.id:
        return tr("made from this run")
    if one.parent is not None and one.parent.id == other.id:
        return tr("what this run was made from")
    if not found:
        return tr("the same model, prompt, seed and settings")
    return tr(", ").join(
        _name(difference.name)
        if difference.name in NAMED_ONLY
        else tr("{name} {value}", name=_name(difference.name), value=_value(difference.name, difference.other))
        for difference in found
        if difference.name != "prompt"
    )


def _difference(difference: Difference) -> str:
    name = _name(difference.name)
    if difference.name in NAMED_ONLY:
        return name
    one, other = (_value(difference.name, value) for value in (difference.one, difference.other))
    return tr("{name}: {one} and {other}", name=name, one=one, other=other)


def _name(name: str) -> str:
    labels = {setting.name: tr(setting.label).lower() for setting in SAMPLER}
    labels |= {
        "model": tr("model"),
        "weights": tr("the files of the model"),
        "adapter": tr("adapter"),
        "adapter_weights": tr("the files of the adapter"),
        "prompt": tr("the prompt"),
        "thinking": tr("thinking"),
        "seed": tr("seed"),
        "pinned": tr("pinned cells"),
        "banned_tokens": tr("banned tokens"),
        "allowed_tokens": tr("allowed tokens"),
        "canvas_length": tr("canvas length"),
        "eos_token_ids": tr("the end tokens"),
        "seed_canvas": tr("the first canvas"),
        "format": tr("the format of the answer"),
        "decoder": tr("decoding"),
        "thought_decoder": tr("decoding of thoughts"),
        "answer_decoder": tr("decoding of answers"),
        REMASKING.name: tr(REMASKING.label).lower(),
        "rescue": tr("rescue"),
        "verify": tr("verify"),
    }
    return labels.get(name, name)


def _value(name: str, value: object) -> str:
    if name in COUNTED:
        return str(len(value)) if isinstance(value, Sized) else tr("all")
    if name == "adapter":
        return str(value) or tr("none")
    if name == REMASKING.name:
        return remasking_title(str(value))
    if name in asdict(OWN_DECODING) and isinstance(value, str):
        none = tr("the model's own") if name == "decoder" else tr("as the rest")
        return decoder_title(value) if value else none
    if isinstance(value, bool):
        return tr("on") if value else tr("off")
    if name == "thinking_tokens":
        return trn("{count} token", "{count} tokens", value) if isinstance(value, int) else tr("no bound")
    if value is None:
        return tr("the model's own")
    unit = next((setting.unit for setting in SAMPLER if setting.name == name), "")
    return f"{value:g} {tr(unit)}".strip() if isinstance(value, int | float) and name != "seed" else str(value)


def _kinship(one: TraceHeader, other: TraceHeader, piece: Piece | None) -> list[str]:
    for header, parent in ((one, other), (other, one)):
        of = header.parent
        if of is None or of.id != parent.id:
            continue
        if header.marks:
            which = (tr("left"), tr("right")) if header is one else (tr("right"), tr("left"))
            return [tr("The {one} run writes spans of the {other} one anew.", one=which[0], other=which[1])]
        place = {"block": of.block + 1, "step": step_number(of.step)}
        if header is one:
            said = tr("The left run goes on from the right one at block {block}, step {step}", **place)
        else:
            said = tr("The right run goes on from the left one at block {block}, step {step}", **place)
        changed = change_in_words(header.changes[-1], piece) if header.changes else ""
        return [tr("{sentence}: {changes}.", sentence=said, changes=changed) if changed else f"{said}."]
    return []


# --- what a fork changes ---------------------------------------------------------------------------------------------


def made_in_words(header: TraceHeader, piece: Piece | None = None) -> str:
    """Where and how a run was made from another one; of a run that was not, its prompt."""
    if header.marks:
        blocks = ", ".join(str(block) for block in sorted({mark.block + 1 for mark in header.marks}))
        spans = tr(", ").join(_span(mark) for mark in header.marks)
        return tr("Block {blocks}, written anew: {spans}", blocks=blocks, spans=spans)
    if not header.changes:
        return prompt_in_line(header)
    newest = header.changes[-1]
    where = tr("Block {block}, step {step}", block=newest.block + 1, step=step_number(newest.step))
    changed = change_in_words(newest, piece) or tr("nothing changed")
    return tr("{where}: {changes}", where=where, changes=changed)


def prompt_in_line(header: TraceHeader) -> str:
    """A run's prompt, cut to a line; a puzzle by how much of it is given, a decision by its questions."""
    if header.decision is not None:
        return tr(" · ").join(question_words(one) for one in header.decision.questions)[:MOST_TITLE]
    puzzle = puzzle_in(header.prompt) if is_puzzle(header.prompt) else None
    if puzzle is not None:
        return tr("Sudoku, {count} givens", count=sudoku.givens(puzzle))
    return " ".join(header.prompt[:MOST_PROMPT].split())[:MOST_TITLE]


def change_in_words(change: Fork, piece: Piece | None = None) -> str:
    """What a fork changes; empty where that is nothing. Tokens are left out where nobody knows how they are written."""

    def told(token: int) -> str:
        return "" if piece is None else piece(token)

    if len(change.pinned) > MOST_PINS:
        said = [trn("{count} cell pinned", "{count} cells pinned", len(change.pinned))]
    else:
        said = [pinned_in_words(position, told(token)) for position, token in change.pinned]
    said += [put_in_words(position, told(token)) for position, token in change.edits]
    said += [banned_in_words(told(token)) for token in change.banned]
    said += [share_in_words(position, told(token), share) for position, token, share in change.mixed]
    said += [tr("{name} {value}", name=_name(name), value=_value(name, value)) for name, value in change.settings]
    if change.seed is not None:
        said.append(tr("seed {seed}", seed=change.seed))
    return tr(", ").join(said)


def pinned_in_words(position: int, text: str) -> str:
    """A pin; ``text`` is its token's, empty where that is not known."""
    if not text:
        return tr("cell {position} pinned", position=position)
    return tr("cell {position} pinned to {token}", position=position, token=quoted(text))


def put_in_words(position: int, text: str) -> str:
    """A token that is put on the canvas and may change again."""
    if not text:
        return tr("another token put into cell {position}", position=position)
    return tr("{token} put into cell {position}", position=position, token=quoted(text))


def banned_in_words(text: str) -> str:
    return tr("{token} banned", token=quoted(text)) if text else tr("a token banned")


def share_in_words(position: int, text: str, share: float) -> str:
    """A token's share in the prediction that is fed back."""
    given = {"position": position, "share": probability(share)}
    if not text:
        return tr("a token of cell {position} fed back with {share}", **given)
    return tr("{token} fed back with {share} in cell {position}", token=quoted(text), **given)


def _span(mark: Mark) -> str:
    if mark.stop - mark.start == 1:
        return tr("position {first}", first=mark.start)
    return tr("positions {first} to {last}", first=mark.start, last=mark.stop - 1)


def divergence_in_words(found: Frame | None, one: Replay, other: Replay) -> str:
    """Where the two runs part, or that they do not."""
    if found is None:
        return tr("The two runs are the same throughout.")
    in_one, in_other = has(one, found), has(other, found)
    if in_one != in_other:
        which = tr("left") if in_one else tr("right")
        return tr("They are the same as far as both go; the {which} one goes on.", which=which)
    if found.step == NOISE:
        if any(run.snapshot(run.place(found)).has_masks for run in (one, other)):
            return tr("They first differ where block {block} begins.", block=found.block + 1)
        return tr("They first differ in the noise of block {block}.", block=found.block + 1)
    return tr("They first differ at block {block}, step {step}.", block=found.block + 1, step=step_number(found.step))


def here_in_words(count: int, length: int, parts: Sequence[str] = ()) -> str:
    """How many cells differ at the frame on show, and what else is to be said."""
    if not count:
        return " ".join([tr("No cell differs here."), *parts])
    differ = trn(
        "{count} of {length} cells differs here, in brackets.",
        "{count} of {length} cells differ here, in brackets.",
        count,
        length=length,
    )
    return " ".join([differ, *parts])
