"""Captions of a run's frames, as in "Step 5: this 8 is taken back", and its end and doubts in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from app.canvas.words import token_words
from app.inspector.words import Piece, capital
from app.player.player import NOTHING
from app.state.run.answers import answers_of, decision_words, share_words
from app.state.run.replay import NOISE, BlockRecord, Frame
from app.state.run.stats import block_end_words
from app.state.run.story import Doubt, Moment, in_doubt, moment, tokens_before
from app.state.run.task_words import round_words
from app.system.i18n import tr, trn
from engine import GenerationFinished, Recording, step_number
from engine.tasks.decisions.questions import Decision

MAX_NAMED_TOKENS = 3  # most tokens that are named one by one


class Caption(NamedTuple):
    """A caption. ``position`` is the cell it describes, or -1."""

    text: str
    position: int = NOTHING


def caption(record: BlockRecord, frame: Frame, trace: Recording) -> Caption:
    if trace.header.decision is not None:
        return _read_caption(record, frame, trace, trace.header.decision)
    if record.has_masks:
        return _written_caption(record, frame, trace)
    begins = record.round_at(frame.step)
    if frame.step == NOISE or not record.steps:
        return Caption(_beginning(record))
    if frame.step >= record.steps:
        end = _end(record, trace.config.max_denoising_steps)
        return Caption(end if begins is None else tr("{round}. {end}", round=capital(round_words(begins)), end=end))
    changes = moment(record, frame.step)
    clauses = [] if begins is None else [round_words(begins)]
    clauses += [*_taken_back(record, changes, trace), *_returned(record, changes, trace), *_accepted(changes)]
    about = next(iter((*changes.taken_back, *changes.otherwise, *changes.again)), NOTHING)
    said = tr("; ").join(clauses) or _nothing(changes)
    return Caption(tr("Step {step}: {said}.", step=step_number(frame.step), said=said), about)


def _written_caption(record: BlockRecord, frame: Frame, trace: Recording) -> Caption:
    block = record.index + 1
    if frame.step == NOISE or not record.steps:
        before = int(record.begun.sum())
        if not before:
            return Caption(tr("Block {block} begins: nothing is written yet.", block=block))
        return Caption(
            trn(
                "Block {block} begins: {count} cell is written already.",
                "Block {block} begins: {count} cells are written already.",
                before,
                block=block,
            )
        )
    if frame.step >= record.steps:
        return Caption(
            trn(
                "Block {block} is written, after {count} pass.",
                "Block {block} is written, after {count} passes.",
                record.steps,
                block=block,
            )
        )
    changes = moment(record, frame.step)
    return _written_step(record, frame.step, changes.fresh, trace, _returned(record, changes, trace))


def _written_step(
    record: BlockRecord, step: int, fresh: Sequence[int], trace: Recording, replaced: Sequence[str] = ()
) -> Caption:
    """Describes the tokens that a pass wrote; ``fresh`` are their positions, ``replaced`` words on other tokens."""
    tokens = _listed([named(trace, int(record.following[step, place])) for place in fresh[:MAX_NAMED_TOKENS]])
    written = record.accepted[step] & ~(record.accepted[step - 1] if step else record.begun)
    if not fresh:
        said = tr("only padding is written") if written.any() else tr("nothing is written")
    elif len(fresh) <= MAX_NAMED_TOKENS:
        said = trn("{tokens} is written", "{tokens} are written", len(fresh), tokens=tokens)
    else:
        said = tr("{count} cells are written, {tokens} among them", count=len(fresh), tokens=tokens)
    said = tr("; ").join([said, *replaced] if fresh else replaced) or said
    return Caption(tr("Step {step}: {said}.", step=step_number(step), said=said), next(iter(fresh), NOTHING))


def _read_caption(record: BlockRecord, frame: Frame, trace: Recording, decision: Decision) -> Caption:
    """Describes a read of a decision, with the answers of this read alone."""
    read, slots = frame.block + 1, trace.header.slots
    if frame.step == NOISE or record.snapshots[-1].read is None:
        return Caption(
            trn(
                "Read {read} begins: a random token at {count} slot, all else is given.",
                "Read {read} begins: a random token at each of {count} slots, all else is given.",
                len(slots),
                read=read,
            )
        )
    answers = answers_of(decision, [record.snapshots[-1].read])
    return Caption(tr("Read {read}: {answers}.", read=read, answers=decision_words(answers)))


def named(trace: Recording, token: int) -> str:
    """Returns a token's text for people."""
    piece = trace.piece(token)
    if trace.is_special(token):
        return tr("end of the text")
    if not piece.strip():
        return tr("line break") if "\n" in piece else tr("space")
    return tr("“{text}”", text=piece.strip())


def _beginning(record: BlockRecord) -> str:
    block, given_cells = record.index + 1, int(record.pinned.sum())
    if not given_cells:
        return tr("Block {block} begins: a random token in each of {count} cells.", block=block, count=record.length)
    return trn(
        "Block {block} begins: {count} cell is given, a random token in each of the other {others}.",
        "Block {block} begins: {count} cells are given, a random token in each of the other {others}.",
        given_cells,
        block=block,
        others=record.length - given_cells,
    )


def _end(record: BlockRecord, most: int) -> str:
    block, steps, doubts = record.index + 1, record.steps, in_doubt(record)
    if record.reason == "converged":
        return tr(
            "Block {block} ends early, after {steps} of {most} steps: no guess changes any more, and it is sure.",
            block=block,
            steps=steps,
            most=most,
        )
    if ended := block_end_words(record.snapshots[-1]):
        return tr("Block {block}: {ended}.", block=block, ended=ended)
    if not doubts:
        return tr("Block {block} is stopped at the limit of {steps} steps.", block=block, steps=steps)
    return trn(
        "Block {block} is stopped at the limit of {steps} steps, with {count} unsure cell.",
        "Block {block} is stopped at the limit of {steps} steps, with {count} unsure cells.",
        doubts,
        block=block,
        steps=steps,
    )


def _taken_back(record: BlockRecord, changes: Moment, trace: Recording) -> list[str]:
    places = changes.taken_back
    if not places:
        return []
    before = tokens_before(record, changes.step)
    tokens = list(dict.fromkeys(named(trace, int(before[place])) for place in places))
    count, listed = len(places), _listed(tokens[:MAX_NAMED_TOKENS])
    if count == 1:
        return [tr("this {token} is taken back", token=listed)]
    if count == len(tokens) <= MAX_NAMED_TOKENS:
        return [tr("{tokens} are taken back", tokens=listed)]
    if len(tokens) <= MAX_NAMED_TOKENS:
        return [tr("{count} cells are taken back: {tokens}", count=count, tokens=listed)]
    return [tr("{count} cells are taken back, {tokens} among them", count=count, tokens=listed)]


def _returned(record: BlockRecord, changes: Moment, trace: Recording) -> list[str]:
    before, now = tokens_before(record, changes.step), record.candidates[changes.step]
    said = [
        tr("{before} becomes {now}", before=named(trace, int(before[place])), now=named(trace, int(now[place])))
        for place in changes.otherwise[:1]
    ]
    more = len(changes.otherwise) - 1
    if more > 0:
        said.append(trn("{count} more is decided otherwise", "{count} more are decided otherwise", more))
    if len(changes.again) == 1:
        said.append(tr("{token} is accepted again", token=named(trace, int(now[changes.again[0]]))))
    elif changes.again:
        said.append(tr("{count} are accepted again as they were", count=len(changes.again)))
    return said


def _accepted(changes: Moment) -> list[str]:
    everything = changes.accepted == changes.counted
    if changes.fresh and changes.step == 0:
        count = len(changes.fresh)
        if count == changes.counted:
            return [trn("the one cell is accepted at once", "all {count} cells are accepted at once", count)]
        return [tr("{count} of {cells} cells are accepted at once", count=count, cells=changes.counted)]
    said = []
    if changes.fresh:
        said.append(trn("{count} cell is newly accepted", "{count} cells are newly accepted", len(changes.fresh)))
    if everything and changes.settled == changes.counted:
        said.append(tr("every cell is settled"))
    elif everything and changes.fresh:
        said.append(tr("now all are"))
    return said


def _nothing(changes: Moment) -> str:
    if changes.changed:
        return trn(
            "nothing is accepted or taken back; {count} best guess changes",
            "nothing is accepted or taken back; {count} best guesses change",
            len(changes.changed),
        )
    if not changes.accepted:
        return tr("it is sure of nothing yet")
    return tr("nothing changes; {count} of {cells} cells are accepted", count=changes.accepted, cells=changes.counted)


def _listed(tokens: Sequence[str]) -> str:
    if len(tokens) < 2:
        return "".join(tokens)
    return tr("{most} and {last}", most=tr(", ").join(tokens[:-1]), last=tokens[-1])


MAX_DOUBTS = 4  # most doubtful tokens that are named


def end_in_words(result: GenerationFinished | None) -> str:
    """Describes how the text ended; empty for a run that is still running or has failed."""
    match result:
        case None:
            return ""
        case GenerationFinished(reason="eos"):
            return tr("The text is finished: the model wrote its end.")
        case GenerationFinished(reason="cancelled"):
            return tr("The text was stopped before its end.")
        case GenerationFinished(why=str(why)) if why:
            return tr("The text is not finished: {why}.", why=why)
    return tr("The text is not finished: it was cut at the limit of its length.")


def doubts_in_words(doubts: Sequence[Doubt], piece: Piece, *, is_written: bool = False) -> str:
    """Describes the doubtful tokens: their number, and the first of them. ``is_written``: each was written for good."""
    if not doubts:
        return tr("The model was sure of each token.") if is_written else tr("No token was left unsure.")
    named = [_doubt(doubt, piece) for doubt in doubts[:MAX_DOUBTS]]
    if len(doubts) > MAX_DOUBTS:
        named.append("…")
    one, many = "{count} token was left unsure: {list}.", "{count} tokens were left unsure: {list}."
    if is_written:
        one = "The model was unsure of {count} token as it wrote it: {list}."
        many = "The model was unsure of {count} tokens as it wrote them: {list}."
    return trn(one, many, len(doubts), list=tr(", ").join(named))


def _doubt(doubt: Doubt, piece: Piece) -> str:
    token = token_words(piece(doubt.token))
    if doubt.runner is None or doubt.runner == doubt.token:
        return token
    return tr(
        "{token} (or {other}, {share})",
        token=token,
        other=token_words(piece(doubt.runner)),
        share=share_words(doubt.share),
    )


def end_in_short(result: GenerationFinished | None, doubts: int) -> list[str]:
    """Returns two short facts: how the text ended, and the number of unsure tokens."""
    if result is None:
        return []
    ends = {"eos": tr("finished"), "cancelled": tr("stopped"), "length": tr("cut at the limit of its length")}
    unsure = trn("{count} unsure token", "{count} unsure tokens", doubts) if doubts else tr("no unsure token")
    return [ends[result.reason], unsure]
