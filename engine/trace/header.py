"""The header of a trace: the model, the prompt, the settings, and the run from which it was forked."""

from __future__ import annotations

import dataclasses
import functools
import json
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

from engine import catalog
from engine.clock import this_moment
from engine.config import LARGEST_SEED, MAX_CANVAS, GenerationConfig
from engine.declared import Form, ids, plain, read, text, whole
from engine.decoders import BLOCK_DIFFUSION
from engine.errors import SafelightError
from engine.events import MAX_ANSWER
from engine.files import parse_json
from engine.fingerprint import fingerprint
from engine.forks import Fork, Mark, Place
from engine.tasks.decisions.forms import decision_from_json, decision_to_json
from engine.tasks.decisions.layout import Slot
from engine.tasks.decisions.questions import Decision
from engine.text.message import Message, image_digests, read_message
from engine.text.output_format import OutputFormat
from engine.trace.format import MAX_HEADER_VALUES, MAX_TRACED_VOCABULARY, PayloadError

MAX_LABEL = 8  # token ids that count as one label
MAX_NAME = 4096  # characters of a name or a path
Id = Annotated[str, text(32, "[0-9a-f]{32}")]  # it becomes a file's name
T = TypeVar("T")
Name = Annotated[str, text(MAX_NAME)]
Tokens = Annotated[tuple[int, ...], ids(MAX_ANSWER, MAX_TRACED_VOCABULARY - 1)]
Messages = tuple[Annotated[Message, Form(read_message, dict)], ...]
GONE = {
    **{"guidance": 0.0, "rescue": False, "verify": False, "second_tries": 0, "head_steps": 0, "soft_tokens": 0},
    **{"fixes_kept": False, "stall_fall": 0.2, "window": 16, "distance_penalty": 0.02, "choice_temperature": 0.0},
    **{"block_cache": "", "edit_passes": 16, "sub_block": 8, "allowed_tokens": None},
}
"""Settings of earlier versions, and the values at which they changed nothing."""
OF_GONE = {
    *("rescue_probability", "verify_probability", "verify_rewrites", "head_probability", "margin"),
    *("schedule", "gap_padding", "seed_canvas"),
}
"""Settings of those, which say nothing alone, and what is now told by the model's files or is a change."""


def new_id() -> str:
    """Returns a name that no other trace has: 32 hexadecimal digits."""
    return uuid.uuid4().hex


def _now() -> str:
    return datetime.fromtimestamp(this_moment(), UTC).isoformat(timespec="seconds")


@functools.cache
def app_version() -> str:
    from importlib import metadata  # takes a while, as it imports the e-mail package

    try:
        return metadata.version("safelight")
    except metadata.PackageNotFoundError:
        return ""


def _check_date(name: str, value: str) -> None:
    try:
        date = datetime.fromisoformat(value)
        is_dated = date.tzinfo is not None and 1970 < date.year < 9999
    except ValueError:
        is_dated = False
    if not is_dated:
        raise SafelightError(f"{name} is not a date")


def kept(message: Message) -> Message:
    """Returns the part of a message that a header has."""
    return {name: message[name] for name in ("role", "content", "images") if name in message}


def _read_kept(raw: Any) -> Message:
    return kept(read_message(raw))


def read_config(raw: Any) -> GenerationConfig:
    """Reads the settings that this version knows, of this version or an earlier one.

    Raises:
        SafelightError: they are none.
    """
    return read(GenerationConfig, _renamed(raw) if isinstance(raw, dict) else raw, "its settings")


def unknown_settings(raw: dict[str, Any]) -> tuple[str, ...]:
    """Returns the names of settings that this version does not know, unless they changed nothing."""
    raw = _renamed(raw)
    gone = OF_GONE.union(name for name, off in GONE.items() if raw.get(name) == off)
    return tuple(sorted(raw.keys() - {setting.name for setting in dataclasses.fields(GenerationConfig)} - gone))


def _renamed(raw: dict[str, Any]) -> dict[str, Any]:
    """Returns settings of an earlier version under today's names; what is gone keeps its name."""
    raw = dict(raw)
    if raw.get("acceptance") == "margin":
        raw |= {"acceptance": "entropy_bound_kept", "acceptance=margin": True}
    if raw.get("head_steps") and raw.get("smallest_canvas") is None:
        raw["smallest_canvas"] = MAX_CANVAS  # canvases may differ in length
    decoder = raw.get("decoder") or ""
    thought, answer = (raw.pop(name, "") or decoder for name in ("thought_decoder", "answer_decoder"))
    if thought == "autoregressive" and answer in ("", BLOCK_DIFFUSION):
        raw |= {"decoder": answer, "token_thoughts": True}
    elif thought != answer:
        raw["thought_decoder"] = thought
    elif answer:
        raw["decoder"] = answer
    return raw


Config = Annotated[GenerationConfig, Form(read_config, plain)]


@dataclass(frozen=True)
class ModelIdentity:
    """The identity of the model that ran. ``fingerprint`` is that of its files, empty if they could not be read."""

    name: Name
    title: Name = ""
    path: Name = ""  # the folder or embedded model's id that it was loaded by
    fingerprint: Name = ""
    canvas_length: Annotated[int, whole(0, MAX_CANVAS)] = 0  # its own; 0 if unknown
    vocab_size: Annotated[int, whole(0, MAX_TRACED_VOCABULARY)] = 0  # 0 if unknown
    eos_token_ids: Tokens = ()
    device: Name = ""
    dtype: Name = ""
    packing: Name = ""  # the packing of its experts; empty if they are not packed
    adapter: Name = ""  # the title of the adapter; empty if there was none
    adapter_fingerprint: Name = ""  # of the adapter's files


@dataclass(frozen=True)
class Parent:
    """The fork point of a run: it shares everything before this step with another run."""

    id: Id
    block: Place
    step: Place


@dataclass(frozen=True)
class TraceHeader:
    """All facts that are fixed before a run's first event."""

    model: ModelIdentity
    prompt: str  # the last message
    config: Config
    seed: Annotated[int | None, whole(0, LARGEST_SEED)]  # None: the model ran elsewhere and used no seed
    messages: tuple[
        Annotated[Message, Form(_read_kept, dict)], ...
    ] = ()  # role, content and images, as they were sent to the model
    prompt_ids: Tokens = ()  # the messages as token ids
    think: bool = False
    parent: Parent | None = None
    changes: tuple[Fork, ...] = ()  # all changes made since the first run, including the parent's
    marks: tuple[Mark, ...] = ()  # spans of the parent's text that this run rewrote
    decision: Annotated[Decision | None, Form(decision_from_json, decision_to_json)] = None  # that it made
    slots: tuple[Slot, ...] = ()  # the positions of its answers on the canvas, a slot a question
    output_format: OutputFormat | None = None  # the format of the answer
    id: Id = field(default_factory=new_id)
    created: Annotated[str, _check_date] = field(default_factory=_now)  # ISO 8601, UTC
    app_version: Name = field(default_factory=app_version)

    @staticmethod
    def fresh() -> dict[str, Any]:
        """Returns a new identity for a copy: id, time and version."""
        return {"id": new_id(), "created": _now(), "app_version": app_version()}

    @property
    def canvas_length(self) -> int:
        """Positions of the run's canvases, or of the longest."""
        return self.config.canvas(self.model.canvas_length)

    @property
    def created_at(self) -> datetime:
        return datetime.fromisoformat(self.created)

    @property
    def format_version(self) -> int:
        """The oldest format whose readers understand everything in the run.

        Readers of the first format know no filler. Therefore the header names its decoder, unless
        that is block diffusion. Those before the fourth know no end of a block but convergence and the cap, and those
        before the fifth no canvases of another length.
        """
        if not self.config.has_equal_blocks and self.config.denoises:
            return 5
        changed = any(name == "stall_steps" for change in self.changes for name, _ in change.settings)
        if (self.config.stall_steps or changed) and self.config.denoises:
            return 4
        if image_digests(self.messages):
            return 3
        return 1 if self.config.is_block_diffusion else 2

    def to_bytes(self) -> bytes:
        """Returns the HEAD record's payload."""
        return json.dumps(plain(self)).encode()

    @staticmethod
    def from_bytes(payload: bytes) -> tuple[TraceHeader, tuple[str, ...]]:
        """Reads a header, and the names of settings in it that this version does not know.

        Raises:
            PayloadError: it is not a header.
        """
        raw = read_object(payload, dict[str, Any])
        config, changes = raw.get("config"), raw.get("changes")
        begun = config.get("seed_canvas") if isinstance(config, dict) else None
        if begun and isinstance(begun, list) and isinstance(changes, list):  # of an earlier version
            raw["changes"] = [{"block": 0, "step": 0, "edits": list(enumerate(begun))}, *changes]
            raw["config"] = {**raw["config"], "canvas_length": len(begun)}
        if not {"id", "created", "app_version"} <= raw.keys():
            raise PayloadError("its identity is missing")
        try:
            header = read(TraceHeader, raw, "its header")
        except (SafelightError, OverflowError, ArithmeticError) as error:
            raise PayloadError(str(error)) from None
        header._check_slots()
        return header, unknown_settings(raw["config"])

    def _check_slots(self) -> None:
        """Checks the slots of a decision's canvas: one a question, or none if no canvas was reported."""
        questions = () if self.decision is None else self.decision.questions
        fits = len(self.slots) in (0, len(questions))
        for slot, question in zip(self.slots, questions, strict=False):
            fits &= slot.position < self.canvas_length and len(slot.labels) == len(question.options)
            fits &= all(1 <= len(ids) <= MAX_LABEL for ids in slot.labels)
        if not fits:
            raise PayloadError("its slots do not match its questions")


def read_object(payload: bytes, kind: type[T]) -> T:
    """Reads JSON of a type.

    Raises:
        PayloadError: it is none.
    """
    try:
        return read(
            kind, parse_json(payload.decode(), "its JSON", values=MAX_HEADER_VALUES, surrogates=True), "its JSON"
        )
    except (SafelightError, UnicodeDecodeError) as error:
        raise PayloadError(str(error)) from None


def identify_model(model: Any, path_or_id: str | Path, title: str = "") -> ModelIdentity:
    """Returns the identity of a loaded model, for the header of its traces.

    Args:
        model: from ``load_model``.
        path_or_id: the folder or id that it was loaded by.
    """
    try:
        digest = fingerprint(catalog.resolve(path_or_id, files=True))
    except (SafelightError, OSError, ValueError):
        digest = ""  # the model can run without it
    adapter = getattr(model, "adapter", None)
    experts = getattr(getattr(model, "precision", None), "experts", None)
    return ModelIdentity(
        name=str(model.name),
        title=title,
        path=str(path_or_id),
        fingerprint=digest,
        canvas_length=model.config.canvas_length,
        vocab_size=model.config.vocab_size,
        eos_token_ids=tuple(model.generation_defaults.eos_token_ids),
        device=str(model.device),
        dtype=str(getattr(model, "dtype", "")).removeprefix("torch."),
        packing="" if experts is None else str(experts),
        adapter="" if adapter is None else adapter.title,
        adapter_fingerprint="" if adapter is None else adapter.fingerprint,
    )
