"""Memory plans: a model's bytes by part, compared with the free memory, and advice if they do not fit.

Reads no files; ``models.folder`` plans for those. ``footprint`` does the arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psutil
import torch

from engine import kernels, windows
from engine.config import IMAGE_TOKENS, GenerationConfig, ModelConfig, VisionConfig
from engine.errors import SafelightError, quoted
from engine.kernels.cpu import has_bf16_units
from engine.memory import footprint
from engine.memory.device import Placement
from engine.quant import DEFAULT, PRECISIONS, Precision

LEAST_IN_BF16 = 2**24  # numbers of a model from which products in bf16 gain more on a CPU than their conversions cost
DESKTOP = 2_000_000_000  # bytes of a card that Windows' desktop and a browser take sooner or later
OWN_MEMORY = ("cuda", "xpu")  # devices with memory of their own; Apple's is the machine's
CONTEXT = 32_768  # tokens planned for by default, or the model's positions if it has fewer


@dataclass(frozen=True)
class Plan:
    """The bytes of a model by part, on a device as it is now."""

    model: str
    device: str
    dtype: str
    quantization: str  # a name of PRECISIONS, or "as stored"
    precision: Precision
    context: int  # tokens of committed text; a canvas comes on top
    parts: dict[str, int]
    free_bytes: int  # on CUDA including the least that this process's context takes
    device_bytes: int  # memory of the device in all
    longest: int  # tokens of context that would fit; 0 if none do
    advice: str  # in sentences: that it fits, or what to change
    notes: tuple[str, ...]  # what the numbers leave out or assume
    copy_bytes: int = 0  # on disk, of the packed copy that an import writes

    @property
    def total_bytes(self) -> int:
        return sum(self.parts.values())

    @property
    def released_bytes(self) -> int:
        """Bytes that unloading the model frees; the program itself and its context on a card stay."""
        return self.total_bytes - self.parts["process"] - self.parts["cuda_context"]

    @property
    def bits(self) -> int:
        """Bits of a code of most of the weights; 0 if they are not packed."""
        return 0 if self.precision.bulk is None else self.precision.bulk.bits

    @property
    def fits(self) -> bool:
        return self.total_bytes <= self.free_bytes

    def as_dict(self) -> dict[str, Any]:
        """Returns the plan as the command line prints it with ``--json``."""
        return {
            "model": self.model,
            "device": self.device,
            "dtype": self.dtype,
            "quantization": self.quantization,
            "precision": self.precision.as_dict(),
            "context": self.context,
            "total_bytes": self.total_bytes,
            "parts": self.parts,
            "free_bytes": self.free_bytes,
            "device_bytes": self.device_bytes,
            "fits": self.fits,
            "longest_context": self.longest,
            "advice": self.advice,
            "notes": list(self.notes),
            "copy_bytes": self.copy_bytes,
        }


@dataclass(frozen=True)
class Subject:
    """A model that is planned for."""

    name: str
    config: ModelConfig
    build: footprint.Build
    stored: Precision | None  # the packing of its stored weights; None: they are not packed
    is_bf16: bool = False  # unpacked weights are stored in bf16
    notes: tuple[str, ...] = ()  # remarks on its checkpoint
    draft: int = 0  # numbers of the adapter that it drafts with
    has_fp32_sums: bool = False  # "auto" keeps its activations fp32, also where it is packed
    repacks: bool = False  # stored weights that do not fit may take the default precision


def count(model: Subject, place: Placement, context: int | None, quantization: str, dtype: str) -> Plan:
    """Counts the memory that a model would take on a device.

    Args:
        context: tokens of committed text, 1 or more; None takes 32 768, or what the model has.
        quantization: "auto" keeps packed weights as they are. Others stay unpacked if they fit, and else take the
            default precision, as do packed ones of a model that ``repacks``. Or a name of ``PRECISIONS``.
        dtype: as requested. "auto" is bf16 for packed weights, and for large bf16 models on a CPU that multiplies bf16
            fast; else the place's type.

    Raises:
        SafelightError: the context is out of range, or the precision does not suit the shape.
    """
    config, notes = model.config, list(model.notes)
    context = _context_of(config, context)
    is_cpu, plain = place.device.type == "cpu", kernels.why_plain(place.device)
    by_halves = is_cpu and model.is_bf16 and has_bf16_units() and _numbers(model) >= LEAST_IN_BF16

    def mode(precision: Precision) -> footprint.Mode:
        in_bf16 = dtype == "auto" and (precision.is_packed or by_halves) and not model.has_fp32_sums
        number = torch.bfloat16 if in_bf16 else place.dtype
        return footprint.Mode.on_device(place.device, number, precision)

    def parts(precision: Precision, tokens: int) -> dict[str, int]:
        return footprint.parts(model.build, config, mode(precision), tokens, model.draft)

    def total(precision: Precision, tokens: int) -> int:
        return sum(parts(precision, tokens).values())

    free, whole = _free_and_whole(place)
    stored = None if model.stored is None else _of(model.stored, config)
    choices = {"as stored": stored} if stored is not None else {}
    choices |= _packable(model, place.dtype) if stored is None or model.repacks else {}
    name, first = quantization, "none" if stored is None else "as stored"
    if name == "auto" or stored is not None:
        name = first if DEFAULT not in choices or total(choices[first], context) <= free else DEFAULT
    if name not in choices:  # raises, naming the layer that cannot be packed
        footprint.weights(model.build, config, PRECISIONS[name], place.dtype)
    chosen = choices[name]
    notes += _of_place(is_cpu, plain if chosen.is_packed and (config.denoises or not is_cpu) else None)
    counted = parts(chosen, context)
    if config.vision is not None and not is_cpu:
        tower = footprint.weights(model.build, config, chosen, mode(chosen).dtype)["vision"]
        notes.append(_of_images(config.vision, tower, mode(chosen).dtype.itemsize, sum(counted.values())))
    most = config.max_position_embeddings
    room = _Choices(total, choices, min(config.canvas_length, most), most, free)
    longest = room.longest(name)
    return Plan(
        model=model.name,
        device=str(place.device) if place.card is None else place.card.name,
        dtype=str(mode(chosen).dtype).removeprefix("torch."),
        quantization=name,
        precision=chosen,
        context=context,
        parts=counted,
        free_bytes=free,
        device_bytes=whole,
        longest=longest,
        advice=_advice(room, name, context, longest),
        notes=tuple(notes),
    )


def _context_of(config: ModelConfig, asked: int | None) -> int:
    most = config.max_position_embeddings
    context = min(CONTEXT, most) if asked is None else asked
    if not 1 <= context <= most:
        many = quoted(context)
        raise SafelightError(f"the context must be from 1 to {most} tokens, this model's positions, not {many}")
    return context


def _free_and_whole(place: Placement) -> tuple[int, int]:
    """Returns the bytes that a model may take on a device, and all bytes of it."""
    if place.card is not None:
        whole = place.card.total_bytes
        return whole - kept_for_desktop(whole, whole, 0), whole
    context = 0 if place.device.type == "cpu" else footprint.LEAST_CUDA_CONTEXT  # taken as soon as it is asked
    return free_bytes(place.device) + context, total_bytes(place.device)


def require_room(plan: Plan) -> None:
    """Refuses a model that does not fit, before anything is loaded.

    Raises:
        SafelightError: the plan does not fit; says what to do.
    """
    if not plan.fits:
        raise SafelightError(
            f"{plan.model} needs {_gb(plan.total_bytes)} with a context of {plan.context} tokens and {plan.device} has "
            f"{_gb(plan.free_bytes)} free. {plan.advice}"
        )


def free_bytes(device: torch.device) -> int:
    """Returns memory that a model could take now, including this process's own: of a card, or of the machine."""
    spare = spare_bytes(device)
    if device.type in OWN_MEMORY:
        return spare
    own: int = psutil.Process().memory_info().rss  # type: ignore[no-untyped-call, unused-ignore]
    return spare + min(own, footprint.PROCESS)


def spare_bytes(device: torch.device) -> int:
    """Returns memory that this process could take now in addition: of a card, or of the machine."""
    if device.type in OWN_MEMORY:
        card = torch.get_device_module(device)
        (free, total), own = card.mem_get_info(device), card.memory_reserved(device)
        idle = own - card.memory_allocated(device)  # torch's own, taken and unused
        return max(0, int(free + idle) - kept_for_desktop(free, total, own + footprint.LEAST_CUDA_CONTEXT))
    available: int = psutil.virtual_memory().available  # type: ignore[no-untyped-call, unused-ignore]
    return available


def kept_for_desktop(free: int, total: int, own: int) -> int:
    """Returns bytes of a card's free memory that plans leave out: on Windows ``DESKTOP``, less what others have taken.

    When a card is full, Windows moves a program's memory to the machine's instead of refusing it, and the program
    becomes many times slower.
    """
    return max(0, DESKTOP - (total - free - own)) if windows.IS_WINDOWS else 0


def total_bytes(device: torch.device) -> int:
    """Returns the total memory of a card, or of the machine."""
    total: int
    if device.type in OWN_MEMORY:
        _, total = torch.get_device_module(device).mem_get_info(device)
        return total
    total = psutil.virtual_memory().total  # type: ignore[no-untyped-call, unused-ignore]
    return total


def device_memory(device: torch.device) -> tuple[int, int] | None:
    """Returns the bytes of a device that all programs together have taken, and its total; None for a CPU."""
    if device.type != "cuda":
        return None
    free, total = torch.cuda.mem_get_info(device)
    return total - free, total


def _numbers(model: Subject) -> int:
    return sum(footprint.weights(model.build, model.config, Precision(), torch.bfloat16).values()) // 2


def _packable(model: Subject, dtype: torch.dtype) -> dict[str, Precision]:
    """Returns the precisions that a shape can be packed in, by name."""
    packable = {}
    for name, precision in PRECISIONS.items():
        with suppress(SafelightError):
            footprint.weights(model.build, model.config, precision, dtype)
            packable[name] = _of(precision, model.config)
    return packable


def _of(precision: Precision, config: ModelConfig) -> Precision:
    return precision if config.num_experts else precision.for_dense()


def _of_place(is_cpu: bool, plain: str | None) -> list[str]:
    """Returns notes on a place, where packed weights are computed without kernels for the reason ``plain``."""
    notes = []
    if plain:
        slow = "a step takes seconds" if is_cpu else "the plain path is slow and needs more workspace"
        notes.append(f"{plain}: with packed weights {slow}")
    if windows.IS_WINDOWS and not is_cpu:
        notes.append(f"{_gb(DESKTOP)} of the card are left for the desktop")
    return notes


def _of_images(vision: VisionConfig, tower: int, itemsize: int, others: int) -> str:
    """Returns a note on what images take of a card while the tower's bytes wait in the computer's memory.

    others: bytes of the card that are taken besides.
    """
    few, most = GenerationConfig.image_tokens, IMAGE_TOKENS[-1]
    lent = footprint.lent_bytes(vision, tower, itemsize)
    least, all_in = (_gb(others + lent + footprint.image_pass(vision, itemsize, count)) for count in (few, most))
    return (
        f"the vision tower, {_gb(tower)}, stays in the computer's memory. To read an image, its layers go to the card "
        f"one at a time: {least} in total with {few} tokens an image, {all_in} with {most}. If that does not fit, the "
        "processor reads it"
    )


@dataclass(frozen=True)
class _Choices:
    """The possible choices: precisions by name, and contexts from ``least`` to ``most`` tokens."""

    total: Callable[[Precision, int], int]  # bytes
    precisions: dict[str, Precision]
    least: int
    most: int
    free: int

    def fits(self, name: str, context: int) -> bool:
        return self.total(self.precisions[name], context) <= self.free

    def longest(self, name: str) -> int:
        """Returns the longest context that fits; 0 if none does. More tokens never need less."""
        low, high = self.least - 1, self.most + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.fits(name, middle) else (low, middle)
        return low if low >= self.least else 0


def _advice(choices: _Choices, name: str, context: int, longest: int) -> str:
    """Says how it fits, or what to change: the context, the quantization, both, or other programs."""
    spare = choices.free - choices.total(choices.precisions[name], context)
    if spare >= 0:
        return f"It fits, with {_gb(spare)} to spare; up to {longest} tokens of context fit."
    changes = [f"reduce the context to {longest} tokens"] if longest else []
    others = [other for other in (DEFAULT, *choices.precisions) if other in choices.precisions and other != name]
    if other := next((other for other in others if choices.fits(other, context)), None):
        changes.append(f"use quantization {other}")
    if not changes:
        smallest = min(choices.precisions, key=lambda other: choices.total(choices.precisions[other], choices.least))
        best = next((other for other in others if choices.longest(other)), smallest)
        also = "" if best == name else f"use quantization {best} and "
        changes.append(f"{also}reduce the context to {choices.longest(best) or choices.least} tokens")
        if not choices.longest(best):
            missing = choices.total(choices.precisions[best], choices.least) - choices.free
            changes[0] += f", and close other programs to free {_gb(missing)} more"
    return f"{_gb(-spare)} are missing: {' or '.join(changes)}."


def _gb(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"
