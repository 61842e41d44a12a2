"""Published quantised checkpoints: the packing that one declares, and the tensors that it must hold.

Kept packed: compressed-tensors' int4, int8 and NVFP4, modelopt's NVFP4, which may be declared in a separate file, int4
of AutoRound and GPTQ, and bitsandbytes' nf4, fp4 and int8. Read as values, and kept or packed like those of a bf16
checkpoint: FP8 of compressed-tensors, modelopt, DeepSeek, Qwen and Mistral, and int8 in groups.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from engine.errors import SafelightError, quoted
from engine.files import read_json
from engine.quant import INT8, NVFP4, Precision, Scheme
from engine.weights import bitsandbytes, compressed_tensors, floats
from engine.weights.layout import Expected, Layout, Names, State, TensorSource
from engine.weights.matrices import Matrix, matrices, put_values, released
from engine.weights.safetensors import FLOATING

MODELOPT_FILE = "hf_quant_config.json"
UNUSED = re.compile(r".+\.(input_scale|input_global_scale|activation_scale|[qkv]_scale|[kv]_cache\.scale)")
"""Scales of activations and of a cache in 8 bits."""
ATTENTION = re.compile(r"\.(self_attn|attention)\.")
DENSE = re.compile(r"\.mlp\.(?!experts\.)")

Tensors: TypeAlias = Callable[[State, Matrix, TensorSource], Layout]
"""Returns the tensors that a checkpoint holds for a packed matrix."""


@dataclass(frozen=True)
class Published:
    """The packing that a checkpoint declares."""

    scheme: Scheme | None  # of the weights as kept in memory; None: they are read as values
    tensors: Tensors | None  # None: bitsandbytes', which packs each layer, or leaves it as it is
    scales: tuple[str, ...] = (".weight_scale",)  # suffixes of the scales' names
    has_small_cache: bool = False  # keys and values in 8 bits or fewer are asked for, which is not done

    @staticmethod
    def read(folder: Path, config: dict[str, Any]) -> Published | None:
        """Reads the declaration in the folder's config.json, or in modelopt's own file; None: there is none.

        Raises:
            SafelightError: a packing that is not known, or several mixed.
        """
        source, declared = "config.json", config.get("quantization_config")
        if declared is None and (folder / MODELOPT_FILE).exists():
            source, inner = MODELOPT_FILE, read_json(folder / MODELOPT_FILE).get("quantization")
            declared = {**inner, "quant_method": "modelopt"} if isinstance(inner, dict) else inner
        elif declared is None:
            return None
        declared = declared if isinstance(declared, dict) else {}
        has_small_cache = any(declared.get(name) for name in ("kv_cache_scheme", "kv_cache_quant_algo"))
        return replace(_declared(declared, source), has_small_cache=has_small_cache)

    @property
    def expected(self) -> Precision | None:
        """The packing to expect before the weights are there; None: nothing is packed."""
        if self.scheme is None:
            return None
        if self.tensors is None:
            return Precision(self.scheme, self.scheme, self.scheme)
        attention = INT8 if self.scheme == NVFP4 else self.scheme
        return Precision(self.scheme, attention, INT8, INT8, INT8)

    def precision(self, checkpoint: TensorSource) -> Precision | None:
        """Returns the packing of the loaded weights; None: nothing stays packed.

        What the checkpoint packs stays unchanged; the rest of what we pack takes eight bits.

        Raises:
            SafelightError: it packs nothing.
        """
        scales = [name for name in checkpoint.headers if name.endswith(self.scales)]
        if not scales:
            kind = "8-bit" if self.scheme is None else str(self.scheme)
            raise SafelightError(
                f"{checkpoint.folder}: {kind} weights are declared, and no tensor holds scales ({self.scales[0]}); "
                "download the model again"
            )
        if self.scheme is None:
            return None

        has_experts = any(".experts." in name for name in scales)
        if self.tensors is None:
            kept = self.scheme
            return Precision(kept if has_experts else None, kept, kept, kept, kept)
        attention, dense = (self.scheme if any(map(part.search, scales)) else INT8 for part in (ATTENTION, DENSE))
        return Precision(self.scheme if has_experts else None, attention, dense, INT8, INT8)

    def layout(self, state: State, names: Names, checkpoint: TensorSource) -> Layout:
        """Returns the layout for a network in which ``precision`` is installed.

        Of a part that is packed, a weight that the checkpoint left plain is packed like the others.
        """
        if self.tensors is None:
            return bitsandbytes.layout(state, names, checkpoint)
        layout = released(state, names)
        for path, shape in self._weights(state).items():
            name = names.released(path)
            own = list(matrices(path, name, shape))
            stored = {f"{matrix.name}.{part}" for matrix in own for part in ("weight", "weight_packed")}
            is_left = self.scheme is None and stored.isdisjoint(checkpoint.headers)
            if is_left or _is_plain(checkpoint, name):
                continue
            layout.pop(name, None)
            for matrix in own:
                weight = f"{matrix.name}.weight"
                if not (weight in layout and _is_plain(checkpoint, weight)):
                    layout.pop(weight, None)
                    layout |= self._matrix(state, matrix, checkpoint)
        return layout

    def _weights(self, state: State) -> dict[str, tuple[int, ...]]:
        """Returns the shapes of the weights that may be quantised in the checkpoint, by their paths."""
        packed = {path: module.shape for path, module in state.packed.items() if self.scheme in (None, module.scheme)}
        if self.scheme is not None:
            return packed
        return packed | {path: tuple(plain.shape) for path, plain in state.plain.items() if plain.dim() > 1}

    def _matrix(self, state: State, matrix: Matrix, checkpoint: TensorSource) -> Layout:
        """Returns the tensors of a matrix. It may be plain if matrices are read as values."""
        name = f"{matrix.name}.weight"
        header = checkpoint.headers.get(name)
        if self.scheme is None and header is not None and header.dtype in FLOATING:
            return {name: Expected(matrix.shape, FLOATING, matrix.path, partial(put_values, state, matrix))}
        assert self.tensors is not None
        return self.tensors(state, matrix, checkpoint)

    def with_ignored(self, names: Names) -> Names:
        """Returns ``names`` that also ignore the scales that are not used here."""
        patterns = [each.pattern for each in (names.ignored, UNUSED) if each is not None]
        if self.tensors is None:
            patterns = [f"({'|'.join(patterns)}){bitsandbytes.PARTS}", bitsandbytes.SHARED]
        return replace(names, ignored=re.compile("|".join(patterns)))


def _is_plain(checkpoint: TensorSource, name: str) -> bool:
    """Returns True if a checkpoint has a tensor that is not quantised."""
    header = checkpoint.headers.get(name)
    return header is not None and header.dtype in FLOATING


def _declared(declared: dict[str, Any], source: str) -> Published:
    """Reads a declaration.

    Raises:
        SafelightError: a packing that is not known, or several mixed.
    """
    method, layout = declared.get("quant_method"), declared.get("format")
    match method, layout:
        case "compressed-tensors", "pack-quantized":
            scheme, size = compressed_tensors.read_scheme(declared, source)
            return Published(scheme, partial(compressed_tensors.packed_tensors, scheme=scheme, size=size))
        case "compressed-tensors", "int-quantized" | "naive-quantized" if not _are_floats(declared, source):
            if compressed_tensors.read_scheme(declared, source)[0] == INT8:
                return Published(INT8, compressed_tensors.plain_int8_tensors)
        case "compressed-tensors", "nvfp4-pack-quantized":
            floats.check_compressed_tensors(declared, source)
            return Published(NVFP4, partial(floats.nvfp4_tensors, names=floats.COMPRESSED_TENSORS))
        case ("compressed-tensors", "float-quantized" | "naive-quantized") | ("fp8" | "fbgemm_fp8", _):
            return _of_fp8(declared, source)
        case "modelopt", _:
            if str(declared.get("quant_algo")).startswith("FP8"):
                return _of_fp8(declared, source)
            floats.check_modelopt(declared, source)
            return Published(NVFP4, partial(floats.nvfp4_tensors, names=floats.MODELOPT))
        case "auto-round" | "gptq", _:
            scheme, size = compressed_tensors.read_gptq_scheme(declared, source)
            return Published(scheme, partial(compressed_tensors.gptq_tensors, scheme=scheme, size=size), (".scales",))
        case "bitsandbytes", _:
            return Published(bitsandbytes.read_scheme(declared, source), None, bitsandbytes.SCALES)
    raise SafelightError(
        f"{source}: weights quantised as {quoted(method)} ({quoted(layout)}) cannot be read; use a checkpoint in bf16, "
        "in FP8, in compressed-tensors' int4, int8 or NVFP4, AutoRound's or GPTQ's int4, or bitsandbytes' nf4, fp4 "
        "or int8"
    )


def _of_fp8(declared: dict[str, Any], source: str) -> Published:
    tensors = partial(floats.fp8_tensors, block=floats.read_block(declared, source))
    return Published(None, tensors, tuple(f".{name}" for name in floats.SCALES))


def _are_floats(declared: dict[str, Any], source: str) -> bool:
    return compressed_tensors.weights_kind(declared, source)[1] == "float"
