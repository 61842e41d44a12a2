"""The header of a trace: the model, the prompt, the settings, and the run from which it was forked."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from engine.clock import this_moment
from engine.config import LARGEST_SEED, GenerationConfig
from engine.decoders import BLOCK_DIFFUSION
from engine.errors import SafelightError
from engine.files import parse_json, storable
from engine.forks import Fork, Mark
from engine.tasks.decisions.forms import decision_from_json, decision_to_json
from engine.tasks.decisions.layout import Slot
from engine.tasks.decisions.questions import Decision
from engine.text.message import Message, image_digests, read_images
from engine.text.output_format import OutputFormat
from engine.trace.format import (
    MOST_ANSWER,
    MOST_BLOCKS,
    MOST_POSITIONS,
    MOST_STEPS,
    MOST_TOKENS,
    MOST_VALUES,
    PayloadError,
)

MODEL_TEXTS = ("name", "title", "path", "fingerprint", "device", "dtype", "packing")
LATER_TEXTS = ("adapter", "adapter_fingerprint")  # missing in runs recorded by older versions
ID = re.compile(r"[0-9a-f]{32}")
MOST_LABEL = 8  # token ids that count as one label
MOST_NAME = 4096  # characters of a name or a path
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
MOST_WHOLE = 2**31 - 1  # of a number that a spin box may show


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


@dataclass(frozen=True)
class ModelIdentity:
    """The identity of the model that ran. ``fingerprint`` is that of its files, empty if they could not be read."""

    name: str
    title: str = ""
    path: str = ""  # the folder or embedded model's id that it was loaded by
    fingerprint: str = ""
    canvas_length: int = 0  # its own; 0 if unknown
    vocab_size: int = 0  # 0 if unknown
    eos_token_ids: tuple[int, ...] = ()
    device: str = ""
    dtype: str = ""
    packing: str = ""  # the packing of its experts; empty if they are not packed
    adapter: str = ""  # the title of the adapter; empty if there was none
    adapter_fingerprint: str = ""  # of the adapter's files


@dataclass(frozen=True)
class Parent:
    """The fork point of a run: it shares everything before this step with another run."""

    id: str
    block: int
    step: int


@dataclass(frozen=True)
class TraceHeader:
    """All facts that are fixed before a run's first event."""

    model: ModelIdentity
    prompt: str  # the last message
    config: GenerationConfig
    seed: int | None  # None: the model ran elsewhere and used no seed
    messages: tuple[Message, ...] = ()  # role, content and images, as they were sent to the model
    prompt_ids: tuple[int, ...] = ()  # the messages as token ids
    think: bool = False
    parent: Parent | None = None
    changes: tuple[Fork, ...] = ()  # all changes made since the first run, including the parent's
    marks: tuple[Mark, ...] = ()  # spans of the parent's text that this run rewrote
    decision: Decision | None = None  # the decision that the run made
    slots: tuple[Slot, ...] = ()  # the positions of its answers on the canvas, a slot a question
    output_format: OutputFormat | None = None  # the format of the answer
    id: str = field(default_factory=new_id)
    created: str = field(default_factory=_now)  # ISO 8601, UTC
    app_version: str = field(default_factory=app_version)

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

    def to_json(self) -> bytes:
        """Returns the HEAD record's payload."""
        messages = tuple(map(dict[str, Any], self.messages))
        bare = dataclasses.replace(self, messages=messages, decision=None, output_format=None)
        raw = dataclasses.asdict(bare)
        for name in ("decision", "slots", "output_format"):  # missing in other runs
            del raw[name]
        if self.decision is not None:
            raw["decision"] = decision_to_json(self.decision)
            raw["slots"] = [dataclasses.asdict(slot) for slot in self.slots]
        if self.output_format is not None:
            raw["output_format"] = self.output_format.to_json()
        return json.dumps(raw).encode()

    @staticmethod
    def from_json(payload: bytes) -> tuple[TraceHeader, tuple[str, ...]]:
        """Reads a header, and the names of settings in it that this version does not know.

        Raises:
            PayloadError: it is not a header.
        """
        raw = read_object(payload)
        model, parent = raw.get("model"), raw.get("parent")
        if not isinstance(model, dict) or not isinstance(parent, dict | None):
            raise PayloadError("its header has no model")
        config, unknown = read_config(raw.get("config"))
        changes, begun = raw.get("changes", []), raw["config"].get("seed_canvas")
        if begun and isinstance(begun, list) and isinstance(changes, list):  # of an earlier version
            config = config.replace(canvas_length=len(begun))
            changes = [{"block": 0, "step": 0, "edits": [list(pair) for pair in enumerate(begun)]}, *changes]
        canvas_length = whole(model, "canvas_length", 0, MOST_POSITIONS)
        header = TraceHeader(
            model=ModelIdentity(
                canvas_length=canvas_length,
                vocab_size=whole(model, "vocab_size", 0, MOST_TOKENS),
                eos_token_ids=read_tokens(model, "eos_token_ids"),
                **{name: text(model, name, MOST_NAME) for name in MODEL_TEXTS},
                **{name: text(model, name, MOST_NAME) for name in LATER_TEXTS if name in model},
            ),
            prompt=text(raw, "prompt"),
            config=config,
            seed=None if raw.get("seed", 0) is None else whole(raw, "seed", 0, LARGEST_SEED),
            messages=_read_messages(raw.get("messages")),
            prompt_ids=read_tokens(raw, "prompt_ids"),
            think=raw.get("think") is True,
            parent=None if parent is None else Parent(_id(parent), *(whole(parent, of, 0) for of in ("block", "step"))),
            changes=read_changes(changes),
            marks=read_marks(raw.get("marks", [])),
            **_read_task(raw, config.canvas(canvas_length)),
            id=_id(raw),
            created=text(raw, "created", MOST_NAME),
            app_version=text(raw, "app_version", MOST_NAME),
        )
        try:
            is_dated = header.created_at.tzinfo is not None and 1970 < header.created_at.year < 9999
        except ValueError:
            is_dated = False
        if not is_dated:
            raise PayloadError("its date is not a date")
        return header, unknown


def read_object(payload: bytes) -> dict[str, Any]:
    """Reads a JSON object.

    Raises:
        PayloadError: it is none.
    """
    try:
        raw = parse_json(payload.decode(), "its JSON", values=MOST_VALUES, surrogates=True)
    except (SafelightError, UnicodeDecodeError) as error:
        raise PayloadError(str(error)) from None
    if not isinstance(raw, dict):
        raise PayloadError("it is not a JSON object")
    return raw


def text(raw: Mapping[str, Any], name: str, most: int | None = None) -> str:
    """Reads a text of ``most`` characters at most. Lone surrogates, which no file or screen accepts, are replaced."""
    value = raw.get(name)
    if not isinstance(value, str):
        raise PayloadError(f"its {name} is not a text")
    if most is not None and len(value) > most:
        raise PayloadError(f"its {name} is longer than {most:,} characters")
    return storable(value)


def whole(raw: Mapping[str, Any], name: str, low: int, high: int = MOST_WHOLE) -> int:
    """Reads a whole number within bounds."""
    value = raw.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise PayloadError(f"its {name} is out of bounds")
    return value


def _id(raw: Mapping[str, Any]) -> str:
    value = text(raw, "id")
    if not ID.fullmatch(value):  # it becomes a file's name
        raise PayloadError("its id is not valid")
    return value


def read_tokens(raw: Mapping[str, Any], name: str) -> tuple[int, ...]:
    value = raw.get(name)
    if not isinstance(value, list) or len(value) > MOST_ANSWER or not all(map(_is_token, value)):
        raise PayloadError(f"its {name} are not tokens")
    return tuple(value)


def _is_token(value: Any) -> bool:
    return type(value) is int and 0 <= value < MOST_TOKENS


def _are_cells(pairs: Iterable[tuple[int, int]]) -> bool:
    """Returns True if positions and tokens are within bounds."""
    return all(position < MOST_POSITIONS and token < MOST_TOKENS for position, token in pairs)


def read_marks(raw: Any) -> tuple[Mark, ...]:
    try:
        marks = tuple(Mark(one["block"], one["start"], one["stop"]) for one in raw)
    except (SafelightError, TypeError, KeyError) as error:
        raise PayloadError(f"its marks are not valid: {error}") from None
    if any(mark.block >= MOST_BLOCKS or mark.stop > MOST_POSITIONS for mark in marks):
        raise PayloadError("its marks are out of bounds")
    return marks


def _read_task(raw: Mapping[str, Any], canvas_length: int) -> dict[str, Any]:
    """Reads what a run had to decide or to fit, as fields of the header."""
    found: dict[str, Any] = {}
    try:
        if raw.get("decision") is not None:
            found["decision"] = decision_from_json(raw["decision"])
            found["slots"] = _read_slots(raw.get("slots"), found["decision"], canvas_length)
        if raw.get("output_format") is not None:
            found["output_format"] = OutputFormat.from_json(raw["output_format"])
    except SafelightError as error:
        raise PayloadError(str(error)) from None
    return found


def _read_slots(raw: Any, decision: Decision, canvas_length: int) -> tuple[Slot, ...]:
    """Reads the slots of a decision's canvas: one a question, or none if no canvas was reported."""
    if not isinstance(raw, list) or len(raw) not in (0, len(decision.questions)):
        raise PayloadError("its slots do not match its questions")
    slots = []
    for slot, question in zip(raw, decision.questions, strict=False):
        if not isinstance(slot, dict) or not isinstance(slot.get("labels"), list):
            raise PayloadError("its slots are not valid")
        labels = tuple(read_tokens({"labels": ids}, "labels") for ids in slot["labels"])
        if len(labels) != len(question.options) or not all(1 <= len(ids) <= MOST_LABEL for ids in labels):
            raise PayloadError("its slots do not match its questions")
        slots.append(Slot(whole(slot, "position", 0, canvas_length - 1), labels))
    return tuple(slots)


def _read_messages(raw: Any) -> tuple[Message, ...]:
    if not isinstance(raw, list) or not all(isinstance(message, dict) for message in raw):
        raise PayloadError("its messages are not valid")
    return tuple(map(_read_message, raw))


def _read_message(raw: Mapping[str, Any]) -> Message:
    message: dict[str, Any] = {"role": text(raw, "role"), "content": text(raw, "content")}
    if raw.get("images"):
        try:
            message["images"] = read_images(raw["images"], message["content"])
        except SafelightError as error:
            raise PayloadError(str(error)) from None
    return message


def read_changes(raw: Any) -> tuple[Fork, ...]:
    if not isinstance(raw, list):
        raise PayloadError("its changes are not valid")
    try:
        changes = tuple(Fork.from_dict(change) for change in raw)
    except SafelightError as error:
        raise PayloadError(f"its changes are not valid: {error}") from None
    for change in changes:
        numbers = [value for _, value in change.settings]
        if not all(type(value) in (int, float) and abs(value) <= MOST_WHOLE for value in numbers):
            raise PayloadError("its changes have settings that are not numbers")
        is_within = change.block <= MOST_BLOCKS and change.step <= MOST_STEPS and all(map(_is_token, change.banned))
        if not (is_within and _are_cells((*change.pinned, *change.edits))):
            raise PayloadError("its changes are out of bounds")
    return changes


def read_config(raw: Any) -> tuple[GenerationConfig, tuple[str, ...]]:
    """Reads the settings that this version knows, and the names of others.

    Raises:
        PayloadError: they are none.
    """
    if not isinstance(raw, dict):
        raise PayloadError("its settings are missing")
    raw = _renamed(raw)
    known = {setting.name: setting.default for setting in dataclasses.fields(GenerationConfig)}
    given = {name: _tuples(value) for name, value in raw.items() if name in known}
    for name, value in given.items():
        if isinstance(known[name], tuple) != isinstance(value, tuple) and not (
            known[name] is None and isinstance(value, tuple)
        ):
            raise PayloadError(f"its setting {name} is of the wrong kind")
    try:
        config = GenerationConfig(**given)
    except (SafelightError, TypeError, ValueError, OverflowError, ArithmeticError) as error:
        raise PayloadError(f"its settings are not valid: {error}") from None
    lists = (config.eos_token_ids, config.banned_tokens)
    if config.max_new_tokens > MOST_WHOLE or not all(map(_is_token, (config.pad_token_id, *chain(*lists)))):
        raise PayloadError("its settings are out of bounds")
    if not _are_cells(config.pinned):
        raise PayloadError("its pinned positions are out of bounds")
    gone = OF_GONE.union(name for name, off in GONE.items() if raw.get(name) == off)
    return config, tuple(sorted(raw.keys() - known.keys() - gone))


def _renamed(raw: dict[str, Any]) -> dict[str, Any]:
    """Returns settings of an earlier version under today's names; what is gone keeps its name."""
    raw = dict(raw)
    if raw.get("acceptance") == "margin":
        raw |= {"acceptance": "entropy_bound_kept", "acceptance=margin": True}
    if raw.get("head_steps") and raw.get("smallest_canvas") is None:
        raw["smallest_canvas"] = MOST_POSITIONS  # canvases may differ in length
    own = raw.get("decoder") or ""
    thought, answer = (raw.pop(name, "") or own for name in ("thought_decoder", "answer_decoder"))
    if thought == "autoregressive" and answer in ("", BLOCK_DIFFUSION):
        raw |= {"decoder": answer, "token_thoughts": True}
    elif thought != answer:
        raw["thought_decoder"] = thought
    elif answer:
        raw["decoder"] = answer
    return raw


def _tuples(value: Any) -> Any:
    """Converts lists to tuples, as the settings have them."""
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
