"""The scheme of each part of a model."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from engine.errors import SafelightError, quoted
from engine.quant.floats import NF4, NVFP4
from engine.quant.integers import INT4, INT4_G64, INT8
from engine.quant.scheme import SCHEMES, Scheme


@dataclass(frozen=True)
class Precision:
    """The scheme of each part of a model; ``None`` keeps a part in the model's number type.

    Four bits suffice for experts. In attention, dense MLP, self-conditioning and the embedding table they make the
    sampler take many more steps. A model without experts still packs its layers in four bits, see ``for_dense``: most
    of its weights are there. Norms, biases, router and scalars are never packed.
    """

    experts: Scheme | None = None
    attention: Scheme | None = None
    dense: Scheme | None = None  # MLP and self-conditioning
    embedding: Scheme | None = None  # and the head, if it has weights of its own
    vision: Scheme | None = None  # the tower's layers
    others: frozenset[tuple[str, Scheme | None]] = frozenset()  # paths of layers that differ from their part, and how

    @property
    def is_packed(self) -> bool:
        return self != Precision()

    @property
    def bulk(self) -> Scheme | None:
        """The scheme of most of the weights: the experts', or, without experts, the layers'."""
        return self.experts or self.dense

    def for_dense(self) -> Precision:
        """Returns the precision for a model without experts: attention and MLP take the experts' scheme."""
        if self.experts is None:
            return self
        return replace(self, experts=None, attention=self.experts, dense=self.experts)

    @staticmethod
    def part(module: str) -> str:
        """Returns the part that a layer belongs to, by its path in the network; "" if it is never packed."""
        name = f".{module}."
        if name.startswith(".vision."):
            return "vision" if ".layers." in name else ""
        if ".experts." in name:
            return "experts"
        if ".self_attn." in name:
            return "attention"
        if ".mlp." in name or ".self_conditioning." in name:
            return "dense"
        return "embedding" if ".embed_tokens." in name or ".lm_head." in name else ""

    def scheme(self, module: str) -> Scheme | None:
        """Returns the scheme of a layer, by its path in the network."""
        part = self.part(module)
        own: Scheme | None = getattr(self, part) if part else None
        return self._others.get(module, own)

    @cached_property
    def _others(self) -> dict[str, Scheme | None]:
        return dict(self.others)

    def as_dict(self) -> dict[str, str | None]:
        """Returns each part's scheme, by name."""
        names = (field.name for field in fields(self) if field.name != "others")
        return {name: str(scheme) if (scheme := getattr(self, name)) else None for name in names}

    @staticmethod
    def from_dict(raw: object) -> Precision:
        """Reads a stored precision.

        Raises:
            SafelightError: an unknown part or scheme.
        """
        if not isinstance(raw, dict):
            raise SafelightError(f"the weights are packed in a way this version does not know: {quoted(raw)}")
        for part, scheme in raw.items():
            is_known = scheme is None or (isinstance(scheme, str) and scheme in SCHEMES)
            if part not in Precision().as_dict() or not is_known:
                unknown = f"{quoted(part)} as {quoted(scheme)}"
                raise SafelightError(f"the weights are packed in a way this version does not know: {unknown}")
        raw = {"vision": raw.get("embedding"), **raw}  # earlier versions packed the tower in the table's scheme
        parts: dict[str, Any] = {part: SCHEMES[scheme] for part, scheme in raw.items() if scheme is not None}
        return Precision(**parts)


PRECISIONS = {
    "none": Precision(),
    "nf4": Precision(NF4, INT8, INT8, INT8, INT8),
    "int4": Precision(INT4, INT8, INT8, INT8, INT8),
    "int4-g64": Precision(INT4_G64, INT8, INT8, INT8, INT8),
    "nvfp4": Precision(NVFP4, INT8, INT8, INT8, INT8),
    "int8": Precision(INT8, INT8, INT8, INT8, INT8),
}
"""The values of ``quantization``, except "auto"."""
DEFAULT = "int4"  # smaller error than nf4 for a quarter bit more, and half the instructions to decode
