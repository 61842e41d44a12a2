"""Two runs beside each other in words: what was asked otherwise, and where they part. Knows no widget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.settings.spec import SAMPLER
from app.state.run.comparison import Difference, differences, has, model_title
from app.state.run.replay import NOISE, Frame, Replay
from app.system.i18n import tr, trn
from engine import TraceHeader

NAMED_ONLY = (
    "weights",
    "adapter_weights",
    "prompt",
    "eos_token_ids",
    "seed_canvas",
)  # whose values say nothing to people
COUNTED = ("pinned", "banned_tokens", "allowed_tokens")


def run_title(header: TraceHeader) -> str:
    """What a run is called where two stand beside each other: its model, the adapter on it, its seed."""
    return tr("{model}, seed {seed}", model=model_words(header), seed=header.seed)


def model_words(header: TraceHeader) -> str:
    """A run's model, and the adapter on it."""
    model, adapter = model_title(header), header.model.adapter
    return tr("{model} with {adapter}", model=model, adapter=adapter) if adapter else model


def asked_in_words(one: TraceHeader, other: TraceHeader) -> str:
    """What was asked otherwise, and whether one was made from the other."""
    found = differences(one, other)
    told = tr("; ").join(_difference(difference) for difference in found)
    said = [tr("What differs: {list}.", list=told)] if found else [tr("The same model, prompt, seed and settings.")]
    return " ".join([*said, *_kinship(one, other)])


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
    }
    return labels.get(name, name)


def _value(name: str, value: Any) -> str:
    if name in COUNTED:
        return tr("all") if value is None else str(len(value))
    if name == "adapter":
        return str(value) or tr("none")
    if isinstance(value, bool):
        return tr("on") if value else tr("off")
    if value is None:
        return tr("the model's own")
    unit = next((setting.unit for setting in SAMPLER if setting.name == name), "")
    return f"{value:g} {tr(unit)}".strip() if isinstance(value, int | float) and name != "seed" else str(value)


def _kinship(one: TraceHeader, other: TraceHeader) -> list[str]:
    for header, parent in ((one, other), (other, one)):
        of = header.parent
        if of is None or of.id != parent.id:
            continue
        if header.marks:
            which = (tr("left"), tr("right")) if header is one else (tr("right"), tr("left"))
            return [tr("The {one} run writes spans of the {other} one anew.", one=which[0], other=which[1])]
        place = {"block": of.block + 1, "step": of.step}
        if header is one:
            return [tr("The left run goes on from the right one at block {block}, step {step}.", **place)]
        return [tr("The right run goes on from the left one at block {block}, step {step}.", **place)]
    return []


def divergence_in_words(found: Frame | None, one: Replay, other: Replay) -> str:
    """Where the two runs part, or that they do not."""
    if found is None:
        return tr("The two runs are the same throughout.")
    in_one, in_other = has(one, found), has(other, found)
    if in_one != in_other:
        which = tr("left") if in_one else tr("right")
        return tr("They are the same as far as both go; the {which} one goes on.", which=which)
    if found.step == NOISE:
        return tr("They first differ in the noise of block {block}.", block=found.block + 1)
    return tr("They first differ at block {block}, step {step}.", block=found.block + 1, step=found.step)


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
