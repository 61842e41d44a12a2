"""The inspector's texts: frames, figures, tokens, histories of positions, comparisons of runs. Without widgets."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence, Sized
from dataclasses import asdict

from app.board.words import cell_name
from app.canvas.glyphs import glyph_of
from app.canvas.words import token_words
from app.settings.values import ACCEPTANCE, OWN_DECODING, SAMPLER, decoder_title, rule_title
from app.state.adapters import with_adapter
from app.state.chat.attachment import apart
from app.state.run.answers import question_words, share_words
from app.state.run.canvas import BlockState
from app.state.run.cell_history import History
from app.state.run.comparison import Difference, differences, has, model_title
from app.state.run.replay import NOISE, Frame, Replay
from app.state.run.stats import block_end_words
from app.state.sudoku.placing import Placed, is_puzzle, puzzle_in
from app.state.sudoku.solve_frame import POSITIONS
from app.system.i18n import tr, trn
from engine import Fork, Mark, TraceHeader, step_number
from engine.tasks import sudoku

Piece = Callable[[int], str]
Name = Callable[[int], str]
"""Returns the name of a cell by its position."""
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
NAMED_ONLY = ("weights", "adapter_weights", "prompt", "format", "eos_token_ids")
"""Differences that are shown by name only: their values mean nothing to people."""
MAX_PROMPT = 1_000  # characters of a prompt that are read for its title
MAX_TITLE = 200  # most characters of a title
MAX_FORKED = 40  # characters of the prompt in the title of a fork
LITTLE = 0.001  # a probability below this is shown by its logarithm
MAX_PINS = 6  # most pins of a fork that are named one by one
COUNTED = ("pinned", "banned_tokens")


def capital(words: str) -> str:
    """Returns words with a capital letter, to begin a sentence."""
    return words[:1].upper() + words[1:]


def in_nats(value: float) -> str:
    """Returns a value without its unit: three decimals, whole numbers from 100 on, powers of ten below 0.001."""
    if value == 0 or value >= 0.001:
        return f"{value:.3f}" if value < 100 else f"{value:.0f}"
    power = math.floor(math.log10(value))
    return tr("{digits} × 10{power}", digits=f"{value / 10.0**power:.1f}", power=str(power).translate(_SUPERSCRIPT))


def written(piece: str, special: bool) -> str:
    """Returns a token's text for charts, with signs for invisible characters; a control token in words."""
    return token_words(piece) if special else glyph_of(piece, False).text or piece


def frame_words(frame: Frame, steps: int, snapshot: BlockState | None, reads: int = 0) -> str:
    """Describes a frame: block, step and temperature. ``steps`` is the block's number of steps.

    ``reads`` is the number of reads of a decision, 0 for other runs.
    """
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
        if snapshot.reason == "converged":
            return tr("Block {block}, finished after step {steps}: sure enough to stop", block=block, steps=steps)
        if ended := block_end_words(snapshot):
            return tr("Block {block}, {ended}", block=block, ended=ended)
        return tr("Block {block}, stopped at the limit of {steps} steps", block=block, steps=steps)
    if snapshot is None or snapshot.temperature is None:
        return tr("Block {block}, step {step} of {steps}", block=block, step=step_number(frame.step), steps=steps)
    figures = {"step": step_number(frame.step), "steps": steps, "temperature": f"{snapshot.temperature:.2f}"}
    if snapshot.round is None:
        return tr("Block {block}, step {step} of {steps}, temperature {temperature}", block=block, **figures)
    return tr(
        "Block {block}, step {step} of {steps}, round {round}, temperature {temperature}",
        block=block,
        round=snapshot.round.number + 1,
        **figures,
    )


def history_in_words(bio: History, piece: Piece) -> str:
    """Describes a position's whole history in one to three sentences."""
    if bio.pinned:
        stands = bio.final if bio.final is not None else int(bio.following[-1]) if bio.steps else None
        if stands is None:
            return tr("Given: it was pinned from the start.")
        return tr("Given: pinned as {text} from the start.", text=token_words(piece(stands)))
    if not bio.steps:
        return tr("No step was taken yet.")
    backs = bio.taken_back_count
    said = [
        tr(
            "Accepted at {count} of {steps}",
            count=bio.accepted_count,
            steps=trn("{count} step", "{count} steps", bio.steps),
        ),
        trn("taken back once", "taken back {count} times", backs) if backs else tr("never taken back"),
    ]
    if bio.held_from is not None and bio.fits:
        said.append(tr("pinned from step {step} on, as it fits", step=step_number(bio.held_from)))
    elif bio.held_from is not None:
        said.append(tr("pinned from step {step} on", step=step_number(bio.held_from)))
    settled = token_words(piece(int(bio.argmax[-1])))
    if bio.final is None:
        said.append(tr("best guess since step {step}: {text}", step=step_number(bio.settled_at), text=settled))
    else:
        said.append(tr("settled at step {step} as {text}", step=step_number(bio.settled_at), text=settled))
    sentence = tr("{facts}.", facts=", ".join(said))
    if bio.causal is not None:
        sentence += " " + tr("Causal probability: {share}.", share=share_words(bio.causal))
    if bio.padding:
        sentence += " " + tr("It is padding after the end of the block's text.")
    return sentence


def moment_in_words(bio: History, step: int, piece: Piece) -> str:
    """Describes one step of a position's history. ``step`` -1 is the noise, ``bio.steps`` the commit."""
    if step < 0 or not bio.steps:
        if bio.has_masks:
            return tr("Before the first step.")
        return tr("Before the first step: a random token.")
    if step >= bio.steps:
        return "" if bio.final is None else tr("Finished as {text}.", text=token_words(piece(bio.final)))
    guess, sample = int(bio.argmax[step]), int(bio.candidates[step])
    if bio.held[step]:
        fate = tr("pinned, as it fits") if bio.fits else tr("given")
    elif bio.accepted[step]:
        fate = tr("accepted")
    elif bio.taken_back[step]:
        fate = tr("taken back")
    elif bio.has_masks:
        fate = tr("not written")
    else:
        fate = tr("not accepted")
    if bio.has_masks and not bio.accepted[step] and not bio.entropy[step]:
        return tr("Step {step}: nothing was predicted here yet.", step=step_number(step))
    entropy = tr("entropy {entropy} nats", entropy=f"{bio.entropy[step]:.3f}")
    if guess == sample:
        said = tr("best guess and sampled {text}, {fate}", text=token_words(piece(guess)), fate=fate)
    else:
        said = tr(
            "best guess {guess}, sampled {text}, {fate}",
            guess=token_words(piece(guess)),
            text=token_words(piece(sample)),
            fate=fate,
        )
    return tr("Step {step}: {said}; {entropy}.", step=step_number(step), said=said, entropy=entropy)


def what_comes_first(needed: str, reason: str) -> str:
    """Returns which model is ``needed`` and will be loaded, or the reason why nothing can be run; empty for neither."""
    return tr("{model} will be loaded first.", model=needed) if needed else reason


def run_title(header: TraceHeader) -> str:
    """Returns a run's title: its model, its adapter, and its seed if it has one."""
    model = model_words(header)
    return model if header.seed is None else tr("{model}, seed {seed}", model=model, seed=header.seed)


def model_words(header: TraceHeader) -> str:
    """Returns the title of a run's model, with its adapter."""
    return with_adapter(model_title(header), header.model.adapter)


def asked_in_words(one: TraceHeader, other: TraceHeader, piece: Piece | None = None) -> str:
    """Describes the differences of two runs' requests. If one is a fork of the other, its change is described, too."""
    different = differences(one, other)
    listed = tr("; ").join(_difference(difference) for difference in different)
    kinship = _kinship(one, other, piece)
    if kinship and not different:  # a fork's changes are not among the settings compared
        return " ".join(kinship)
    said = tr("What differs: {list}.", list=listed) if different else tr("The same model, prompt, seed and settings.")
    return " ".join([said, *kinship])


def _difference(difference: Difference) -> str:
    name = _name(difference.name)
    if difference.name in NAMED_ONLY:
        return name
    one, other = (_value(difference.name, value) for value in (difference.one, difference.other))
    return tr("{name}: {one} and {other}", name=name, one=one, other=other)


def _name(name: str) -> str:
    labels = {name: tr(setting.label).lower() for name, setting in SAMPLER.items()}
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
        "canvas_length": tr("canvas length"),
        "eos_token_ids": tr("the end tokens"),
        "format": tr("the format of the answer"),
        "decoder": tr("decoding"),
        "token_thoughts": tr("thinking token by token"),
        ACCEPTANCE.name: tr(ACCEPTANCE.label).lower(),
    }
    return labels.get(name, name)


def _value(name: str, value: object) -> str:
    if name in COUNTED:
        return str(len(value)) if isinstance(value, Sized) else tr("all")
    if name == "adapter":
        return str(value) or tr("none")
    if name == ACCEPTANCE.name:
        return rule_title(str(value))
    if name in asdict(OWN_DECODING) and isinstance(value, str):
        return decoder_title(value) if value else tr("the model's own")
    if isinstance(value, bool):
        return tr("on") if value else tr("off")
    if name == "thinking_tokens":
        return trn("{count} token", "{count} tokens", value) if isinstance(value, int) else tr("no limit")
    if value is None:
        return tr("the model's own")
    unit = SAMPLER[name].unit if name in SAMPLER else ""
    return f"{value:g} {tr(unit)}".strip() if isinstance(value, int | float) and name != "seed" else str(value)


def _kinship(one: TraceHeader, other: TraceHeader, piece: Piece | None) -> list[str]:
    for header, parent in ((one, other), (other, one)):
        of = header.parent
        if of is None or of.id != parent.id:
            continue
        if header.marks:
            which = (tr("left"), tr("right")) if header is one else (tr("right"), tr("left"))
            return [tr("The {one} run rewrites parts of the {other} one.", one=which[0], other=which[1])]
        place = {"block": of.block + 1, "step": step_number(of.step)}
        if header is one:
            said = tr("The left run goes on from the right one at block {block}, step {step}", **place)
        else:
            said = tr("The right run goes on from the left one at block {block}, step {step}", **place)
        changed = change_in_words(header.changes[-1], piece, cell_names(header)) if header.changes else ""
        return [tr("{sentence}: {changes}.", sentence=said, changes=changed) if changed else f"{said}."]
    return []


def made_in_words(header: TraceHeader, piece: Piece | None = None) -> str:
    """Describes where and how a run was made from another one; returns the prompt for other runs."""
    if header.marks:
        blocks = ", ".join(str(block) for block in sorted({mark.block + 1 for mark in header.marks}))
        spans = tr(", ").join(_span(mark) for mark in header.marks)
        return tr("Block {blocks}, rewritten: {spans}", blocks=blocks, spans=spans)
    if header.parent is None or not header.changes:  # a text with gaps has changes of its own
        return prompt_in_line(header)
    newest = header.changes[-1]
    where = tr("Block {block}, step {step}", block=newest.block + 1, step=step_number(newest.step))
    changed = change_in_words(newest, piece, cell_names(header)) or tr("nothing changed")
    return tr("{where}: {changes}", where=where, changes=changed)


def cell_names(header: TraceHeader) -> Name:
    """Returns the names of a run's cells; the answer to a prompt that is a puzzle and nothing else is a Sudoku."""
    grid = Placed(header.prompt, POSITIONS) if is_puzzle(header.prompt) else None
    return lambda position: cell_name(position, grid)


def title_in_words(header: TraceHeader) -> str:
    """Returns the title of a run: its prompt; of one that was made from another run also what was changed."""
    prompt = prompt_in_line(header)
    if header.parent is None or not (header.marks or header.changes):
        return prompt
    short = prompt if len(prompt) <= MAX_FORKED else f"{prompt[:MAX_FORKED].rstrip()}…"
    if header.marks:
        changed = trn("rewrote {count} place", "rewrote {count} places", len(header.marks))
    else:
        changed = change_in_words(header.changes[-1], name=cell_names(header)) or tr("nothing changed")
    return tr("Fork of “{prompt}”, {changes}", prompt=short, changes=changed)


def chance_words(share: float) -> str:
    """Returns a token's probability; the logarithm of one under 0.1 %."""
    return tr("log p {log}", log=log_words(share)) if 0 < share < LITTLE else share_words(share)


def log_words(share: float) -> str:
    """Returns the natural logarithm of a probability above 0, with two digits."""
    return f"{math.log(share):.2f}".replace("-", "−")


def prompt_in_line(header: TraceHeader) -> str:
    """Returns a run's prompt as one line; the number of givens for a Sudoku, the questions for a decision. Files in it
    are named.
    """
    if header.decision is not None:
        return tr(" · ").join(question_words(one) for one in header.decision.questions)[:MAX_TITLE]
    puzzle = puzzle_in(header.prompt) if is_puzzle(header.prompt) else None
    if puzzle is not None:
        return tr("Sudoku, {count} givens", count=sudoku.givens(puzzle))
    names, prompt = apart(header.prompt)
    return tr(" · ").join(filter(None, (" ".join(prompt[:MAX_PROMPT].split()), *names)))[:MAX_TITLE]


def change_in_words(change: Fork, piece: Piece | None = None, name: Name = str) -> str:
    """Describes the changes of a fork; empty if there are none. Without ``piece`` tokens are left out."""

    def text_of(token: int) -> str:
        return "" if piece is None else piece(token)

    if len(change.pinned) > (1 if piece is None else MAX_PINS):
        said = [trn("{count} cell pinned", "{count} cells pinned", len(change.pinned))]
    else:
        said = [pinned_in_words(name(position), text_of(token)) for position, token in change.pinned]
    said += [put_in_words(name(position), text_of(token)) for position, token in change.edits]
    if piece is None and change.banned:
        said.append(trn("{count} token banned", "{count} tokens banned", len(change.banned)))
    else:
        said += [banned_in_words(text_of(token)) for token in change.banned]
    said += [
        tr("{name} {value}", name=_name(setting), value=_value(setting, value)) for setting, value in change.settings
    ]
    said += [] if change.seed is None else [tr("seed {seed}", seed=change.seed)]
    return tr(", ").join(said)


def pinned_in_words(cell: str, text: str) -> str:
    """Describes a pinned cell, which is given by its name. ``text`` is the token's, empty if it is not known."""
    return (
        tr("{cell} pinned to {token}", cell=cell, token=token_words(text)) if text else tr("{cell} pinned", cell=cell)
    )


def put_in_words(cell: str, text: str) -> str:
    """Describes a token that a fork writes into a cell without pinning it. ``text`` as in ``pinned_in_words``."""
    if not text:
        return tr("another token put into {cell}", cell=cell)
    return tr("{token} put into {cell}", cell=cell, token=token_words(text))


def banned_in_words(text: str) -> str:
    return tr("{token} banned", token=token_words(text))


def _span(mark: Mark) -> str:
    if mark.stop - mark.start == 1:
        return tr("position {first}", first=mark.start)
    return tr("positions {first} to {last}", first=mark.start, last=mark.stop - 1)


def divergence_in_words(divergence: Frame | None, one: Replay, other: Replay) -> str:
    """Describes the first frame at which two runs differ; ``divergence`` None if they are equal."""
    if divergence is None:
        return tr("The two runs are the same throughout.")
    in_one, in_other = has(one, divergence), has(other, divergence)
    if in_one != in_other:
        which = tr("left") if in_one else tr("right")
        return tr("They are the same as far as both go; the {which} one goes on.", which=which)
    if divergence.step == NOISE:
        if any(run.snapshot(run.place(divergence)).has_masks for run in (one, other)):
            return tr("They first differ where block {block} begins.", block=divergence.block + 1)
        return tr("They first differ in the noise of block {block}.", block=divergence.block + 1)
    return tr(
        "They first differ at block {block}, step {step}.",
        block=divergence.block + 1,
        step=step_number(divergence.step),
    )


def here_in_words(count: int, length: int, parts: Sequence[str] = ()) -> str:
    """Describes the number of cells that differ at the current frame, followed by ``parts``."""
    if not count:
        return " ".join([tr("No cell differs here."), *parts])
    differ = trn(
        "{count} of {length} cells differs here, in brackets.",
        "{count} of {length} cells differ here, in brackets.",
        count,
        length=length,
    )
    return " ".join([differ, *parts])
