"""Runs the candidates of ``safelight tune`` on their prompts, and keeps the runs. Knows no torch."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import engine
from app.cli import running, terminal
from app.state.race.prompts import RacePrompt
from app.state.tuning.candidates import VARIED
from app.state.tuning.plan import TuningPlan
from app.state.tuning.progress import FILE, RunLog, TuningHeader
from app.state.tuning.result import FOLDER
from app.state.tuning.scores import TunedRun, TuningScores
from app.state.tuning.tasks import TuningTask
from app.system.folders import ensure, folders
from app.system.locks import locked
from app.system.windows_start import load_torch_before_qt
from engine import GenerationConfig
from engine.config import LARGEST_SEED, THRESHOLD_OF
from engine.files import stem_of
from engine.text.message import message_of

if TYPE_CHECKING:
    from app.settings.preferences import Preferences
    from app.settings.values import SettingsValues
    from engine import Model


def run_all(
    model: Model, plan: TuningPlan, task: TuningTask, scores: TuningScores, log: RunLog, stop: threading.Event
) -> None:
    """Runs what is missing of a plan, until ``stop`` is set."""
    prompt_of, done = task.prompts(plan.count), scores.done(plan.tried(scores), plan.count)
    with terminal.progress("Tuning") as show:
        for candidate, index in plan.pairs(scores):
            config = model.generation_defaults.replace(**candidate.changes)
            prompt = prompt_of(index)
            seed = (task.seed + index) % (LARGEST_SEED + 1)  # the same noise for all candidates
            outcome = _ask(model, prompt, config, seed, stop)
            if stop.is_set():
                return
            run = TunedRun(candidate, index, bool(prompt.is_right(outcome.text)), outcome.steps)
            scores.add(run)
            log.add(run)
            done += 1
            show(min(1.0, done / plan.runs))


def _ask(
    model: Model, prompt: RacePrompt, config: GenerationConfig, seed: int, stop: threading.Event
) -> running.Outcome:
    messages = [message_of(prompt.text, prompt.pictures)]
    ids = model.chat_ids(messages, image_tokens=config.image_tokens)
    asked = model.with_images(ids, messages, prompt.pictures, config.image_tokens) if prompt.pictures else ids
    outcome = running.follow(engine.generate(model, asked, config, seed, stop), config)
    outcome.text = model.tokenizer.decode(outcome.tokens)
    return outcome


def header_of(model: Model, task: TuningTask) -> TuningHeader:
    """Returns what the runs of a model on a task have in common."""
    found, defaults = engine.identify_model(model, model.folder), model.generation_defaults
    fields = ("max_new_tokens", "max_denoising_steps", "stability_threshold", "confidence_threshold", *VARIED)
    settings = {field: getattr(defaults, field) for field in (*fields, *dict.fromkeys(THRESHOLD_OF.values()))}
    return TuningHeader(
        found.name,
        found.fingerprint,
        found.adapter_fingerprint,
        " ".join(filter(None, (found.dtype, found.packing))),
        task.title,
        task.digest,
        task.seed,
        json.dumps(settings),
    )


@contextmanager
def placed(out: str | None, header: TuningHeader) -> Iterator[Path]:
    """Yields the folder of the runs and the result, locked against another tuning in it.

    Args:
        out: the user's own folder; None takes one in the data folder, by the header.

    Raises:
        SafelightError: it cannot be used, or another tuning runs in it.
    """
    if out is not None:
        folder = Path(out)
    else:
        digest = hashlib.sha256(json.dumps(dataclasses.asdict(header)).encode()).hexdigest()[:8]
        folder = data_folder() / FOLDER / f"{stem_of(f'{header.model} {header.task}', 'tuning')} {digest}"
    with locked(ensure(folder) / f"{FILE}.lock"):
        yield folder


def data_folder() -> Path:
    """Returns the user's data folder, as the window has it."""
    return folders(user_preferences().data_folder).data


def user_preferences() -> Preferences:
    """Returns the user's preferences in the window."""
    load_torch_before_qt()
    from app.settings.store import default_settings, read_preferences  # Qt

    return read_preferences(default_settings())


def user_values() -> SettingsValues:
    """Returns the settings that the user has made in the window."""
    load_torch_before_qt()
    from app.settings.store import default_settings, read_values  # Qt

    return read_values(default_settings(), reduced_motion=False)
