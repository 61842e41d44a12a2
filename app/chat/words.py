"""The sentences of the chat about an answer: its figures, its progress and doubts about it. Knows no Qt.

A prompt is clearly not English by its script and a few function words, or it may be.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from app.bridge.remote_access import only_text
from app.settings.values import decoder_explanation
from app.state.chat.conversation import Answer
from app.state.run.canvas import BlockState, CanvasState
from app.state.run.stats import rate_text
from app.system.i18n import tr, trn
from engine import catalog
from engine.catalog import MINI, SMALL, TALK
from engine.service import LoadedModel
from engine.service.small import usual_part
from engine.tasks import skills, wording
from engine.tasks.checking import missing
from engine.tasks.tool_questions import NO_TOOL, tool_for
from engine.text.outline import spans

READ = 2_000  # characters that are looked at
LEAST_FOREIGN_SHARE = 0.2  # share of foreign function words that is enough where there is no English one
_ENGLISH = (
    "the a an are of and to in for what how do does you i my me it this that with on can who where why which "
    "write please make give be have not your about"
)
_OTHERS = (
    "und ist nicht ich ein eine einen wie für mit auf warum bitte mir es sind kannst dir mich wer das der auch "
    "est une je vous que qui dans avec pourquoi quel quelle nous bonjour merci "
    "una qué cómo cuál por para dónde eres puedes hola gracias porque "
    "che è sono perché cosa ciao quale dimmi gli della "
    "uma não você qual obrigado são também "
    "het een niet ik wat hoe waarom zijn voor"
)
"""Function words of German, French, Spanish, Italian, Portuguese and Dutch that are no English words."""


def is_foreign(text: str) -> bool:
    """Returns True if most letters are not Latin, or if foreign function words outnumber the English ones."""
    text = unicodedata.normalize("NFC", text[:READ])
    letters = [letter for letter in text if letter.isalpha()]
    latin = sum(unicodedata.name(letter, "").startswith("LATIN") for letter in letters)
    if 2 * latin < len(letters):
        return True
    words = re.findall(r"[^\W\d_]+", text.casefold())
    foreign, english = (sum(word in known.split() for word in words) for known in (_OTHERS, _ENGLISH))
    return foreign > english and (foreign >= 2 or foreign >= LEAST_FOREIGN_SHARE * len(words))


LONGEST_RIGHT = 60  # characters; a longer right answer is not shown


def introduction(present: str, model: LoadedModel | None, decoder: str) -> tuple[str, str]:
    """Returns a caution about the answers of a model, and how its decoder writes them; both may be empty.

    Args:
        present: its path or id, also while it is being loaded.
    """
    is_small = present == SMALL
    caution = catalog.caution(usual_part() if is_small else present)
    if is_small and caution:
        how = tr("Small tasks and puzzles develop on a canvas; other questions go to {model}.", model=TALK.title)
        return tr("{model} has {said}", model=TALK.title, said=tr(caution)), how
    return tr(caution) if caution else "", "" if model is None else only_text(model) or decoder_explanation(decoder)


def status_line(answer: Answer, share: float = 1.0) -> str:
    """Returns the progress or result of a run in plain words; ``share`` of its latest step is shown (0 to 1)."""
    if answer.is_active and answer.is_stopping:
        return tr("Stopping after the pass that runs")
    if answer.status == "waiting":
        if answer.read is None:
            return tr("Reading the prompt")
        read, total = (f"{count:,}" for count in answer.read)
        return tr("Reading the prompt, {read} of {total} tokens", read=read, total=total)
    if answer.status == "calling":
        asks = any(call.status == "asking" for call in answer.rounds[-1].calls)
        return tr("A call waits for your decision") if asks else tr("A tool is running")
    return _progress(answer, share) if answer.status == "developing" else _result(answer)


def remarks(answer: Answer) -> str:
    """Returns warnings about an answer that has ended, one a line; empty if all went as expected."""
    said = answer.notices()
    if answer.status == "stopped":
        has_text = bool(answer.text.strip())
        said.append(tr("Stopped before the end.") if has_text else tr("Stopped before anything was written."))
    return "\n".join(said)


def wants_retry(answer: Answer) -> bool:
    """Returns True if regenerating should be offered as the main action."""
    return not answer.is_active and (answer.status in ("stopped", "failed") or answer.is_empty)


def _progress(answer: Answer, share: float) -> str:
    if answer.is_plain:
        return tr("Writing")
    block = answer.canvas.current
    number = 1 if block is None else block.block_index + 1
    most = answer.config.max_denoising_steps
    if block is None and not answer.config.is_block_diffusion:
        return tr("Writing")
    if block is not None and block.grows:
        return _growing(answer.canvas, block, share)
    if block is not None and (block.has_masks):
        return _passes(block, share)
    if block is None or not block.steps:
        return tr("Block {number}, starting from noise", number=number) if number > 1 else tr("Starting from noise")
    parts = [
        tr("Block {number}, step {step}, up to {most}", number=number, step=block.steps, most=most)
        if number > 1
        else tr("Step {step}, up to {most}", step=block.steps, most=most),
        tr("{accepted} of {length} sure", accepted=block.partly(share).accepted_count, length=block.length),
        tr("{count} taken back", count=block.taken_back_total) if block.taken_back_total else "",
    ]
    return " · ".join(filter(None, parts))


def _growing(canvas: CanvasState, block: BlockState, share: float) -> str:
    """Returns the progress of a run that appends tokens without filling blocks."""
    count = canvas.written - block.accepted_count + block.partly(share).accepted_count
    steps = sum(one.steps for one in canvas.blocks)
    said = trn("{count} token written", "{count} tokens written", count)
    if steps in (0, canvas.written):
        return said
    return tr("{written} in {steps}", written=said, steps=trn("{count} step", "{count} steps", steps))


def _passes(block: BlockState, share: float) -> str:
    """Returns the progress of a block that is written a few tokens per pass."""
    return tr(
        "Block {number}, step {step} · {written} of {length} written",
        number=block.block_index + 1,
        step=block.steps,
        written=block.partly(share).accepted_count,
        length=block.length,
    )


def _ending(answer: Answer) -> tuple[str, str]:
    """Returns how a run ended, for ``tr``: as a word, and with ``{steps}``."""
    if answer.status != "done":
        is_stopped = answer.status == "stopped"
        return ("Stopped", "Stopped after {steps}") if is_stopped else ("Failed", "Failed after {steps}")
    if answer.figures.is_cut:
        return "Cut off", "Cut off after {steps}"
    is_converged = not (answer.figures.capped_blocks or answer.figures.stalled_blocks)
    return "Done", "Done in {steps}" if is_converged else "Ended after {steps}"


def _result(answer: Answer) -> str:
    figures = answer.figures
    ended, ended_with = _ending(answer)
    if answer.is_plain and figures.seconds is not None:
        return f"{tr(ended)} · {_seconds(figures.seconds)}"
    if not figures.steps:  # unknown, as in an imported answer
        return ""
    steps = trn("{count} step", "{count} steps", figures.steps)
    if figures.blocks > 1 and not answer.config.grows:
        blocks = trn("{count} block", "{count} blocks", figures.blocks)
        steps = tr("{steps} over {blocks}", steps=steps, blocks=blocks)
    most = answer.config.max_denoising_steps
    is_short = figures.blocks == 1 and figures.steps < most and answer.config.is_block_diffusion
    if is_short and ended_with == "Done in {steps}":
        parts = [tr("{steps}, up to {most}", steps=steps, most=most)]
    else:
        parts = [tr(ended_with, steps=steps)]
    if figures.seconds is not None:
        parts.append(_seconds(figures.seconds))
    return " · ".join(parts)


def figures_line(answer: Answer) -> str:
    """Returns a run's technical figures, each with its unit; empty before there are any."""
    if answer.status == "waiting":
        return ""
    parts = _of_block(answer) if answer.status == "developing" else _of_run(answer)
    if not answer.is_plain:  # a remote server may have ignored the seed
        parts.append(tr("Seed {seed}", seed=answer.seed))
    return " · ".join(parts)


def _of_block(answer: Answer) -> list[str]:
    block = answer.canvas.current
    if block is None or block.mean_entropy is None or block.temperature is None:
        return []
    return [
        tr("Mean entropy {entropy} nats", entropy=f"{block.mean_entropy:.2f}"),
        tr("Temperature {temperature}", temperature=f"{block.temperature:.2f}"),
    ]


def _of_run(answer: Answer) -> list[str]:
    figures, parts = answer.figures, []
    if figures.blocks > 1 and figures.seconds is not None and not answer.config.grows:
        parts.append(tr("{time} per block", time=_seconds(figures.seconds / figures.blocks)))
    if answer.status == "done" and figures.tokens_per_forward is not None:
        parts.append(tr("{tokens} tokens per pass", tokens=rate_text(figures.tokens_per_forward)))
    if answer.status == "done" and (figures.tokens_per_second or 0.0) >= 1.0:
        parts.append(tr("{tokens} tokens a second", tokens=f"{figures.tokens_per_second:,.0f}"))
    return parts


def _seconds(seconds: float) -> str:
    return tr("{seconds} s", seconds=f"{seconds:,.1f}") if seconds >= 0.05 else tr("under 0.1 s")


@dataclass(frozen=True)
class Caveat:
    """A warning about an answer in a sentence or two, and the id of a model that was trained on its prompt."""

    text: str
    taught: str = ""


def doubt(prompt: str, answer: Answer) -> Caveat | None:
    """Returns a warning about an answer that ended by itself; None if there is no reason to doubt it.

    A model trained on skills is checked: the prompt must be one of its tasks, in its wording, and the answer right.
    Questions for a tool are not, unless the model says that it has none. Of Talk's answers, sums and sorts are checked.
    Answers of other models cannot be checked; ``Answer.notices`` reports blocks that did not converge.
    """
    if answer.model == TALK.id:
        return _doubt_talk(prompt, answer) if answer.status == "done" else None
    traits = catalog.traits(Path(answer.model).name, answer.adapter)
    is_other = answer.rewriting is not None or any(spans(prompt))  # no program knows what belongs there
    if not traits.wants_wording or answer.status != "done" or answer.figures.is_cut or is_other:
        return None
    if traits.taught == "tools" and tool_for(prompt):
        if answer.text.strip() == NO_TOOL:
            return Caveat(tr("The tool for this is off. Settings, Tools has a button that adds the example tools."))
        if answer.rounds or not wording.is_taught(prompt):
            return None
    untaught = tr(
        "This small model does a few kinds of tasks, each in its own wording, and this is none of them: "
        "what it wrote is a guess."
    )
    text = _wrong(prompt, answer) if wording.is_taught(prompt) else untaught
    return Caveat(text) if text and not answer.is_empty else None  # of an empty one that is said anyway


def _doubt_talk(prompt: str, answer: Answer) -> Caveat | None:
    if is_foreign(prompt):
        return Caveat(tr("{model} writes English only: to this prompt it can only guess.", model=TALK.title))
    right = "" if answer.figures.is_cut else missing(prompt, answer.text)
    return Caveat(_should_be(right), taught=MINI if wording.is_taught(prompt) else "") if right else None


def _wrong(prompt: str, answer: Answer) -> str:
    asked = wording.normal(prompt)  # as the model read it
    right = skills.solve(asked)
    return "" if right is None or skills.check(asked, answer.text) else _should_be(right)


def _should_be(right: str) -> str:
    if "\n" in right or len(right) > LONGEST_RIGHT:
        return tr("Checked by a program: this is wrong.")
    return tr("Checked by a program: this is wrong, it should be “{right}”.", right=right)
