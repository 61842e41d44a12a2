"""Published quantised checkpoints: which packing one declares, and which tensors it must hold.

Known are compressed-tensors' int4 and NVFP4, and modelopt's NVFP4, which may stand in a file of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.errors import SafelightError, quoted
from engine.files import read_json
from engine.quant import INT8, NVFP4, Precision, Scheme
from engine.weights import compressed_tensors, nvfp4
from engine.weights.layout import Layout, Names, State, TensorSource, released
from engine.weights.matrices import Matrix, matrices
from engine.weights.safetensors import FLOATING

MODELOPT_FILE = "hf_quant_config.json"


@dataclass(frozen=True)
class Published:
    """What a checkpoint declares."""

    scheme: Scheme
    names: nvfp4.NumberNames | None = None  # of NVFP4's tensors
    has_small_cache: bool = False  # it asks for keys and values in 8 bits or fewer, which is not done

    @staticmethod
    def read(folder: Path, config: dict[str, Any]) -> Published | None:
        """What ``config``, the folder's config.json, or a file of modelopt's beside it declares; None: nothing.

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
        match declared.get("quant_method"), declared.get("format"):
            case "compressed-tensors", "pack-quantized":
                return Published(compressed_tensors.read_scheme(declared, source), None, has_small_cache)
            case "compressed-tensors", "nvfp4-pack-quantized":
                nvfp4.check_compressed_tensors(declared, source)
                return Published(NVFP4, nvfp4.COMPRESSED_TENSORS, has_small_cache)
            case "modelopt", _:
                nvfp4.check_modelopt(declared, source)
                return Published(NVFP4, nvfp4.MODELOPT, has_small_cache)
            case method, layout:
                raise SafelightError(
                    f"{source}: weights quantised as {quoted(method)} ({quoted(layout)}) cannot be read; use a "
                    "checkpoint in bf16, in compressed-tensors' pack-quantized int4 or in NVFP4"
                )

    @property
    def expected(self) -> Precision:
        """What is packed, as long as only the config is here."""
        attention = INT8 if self.scheme == NVFP4 else self.scheme
        return Precision(self.scheme, attention, INT8, INT8, INT8)

    def precision(self, checkpoint: TensorSource) -> Precision:
        """What the checkpoint packs stays as it is; of the rest, what we pack goes to eight bits.

        Raises:
            SafelightError: it packs nothing.
        """
        scales = [name for name in checkpoint.headers if name.endswith(".weight_scale")]
        if not scales:
            raise SafelightError(
                f"{checkpoint.folder}: {self.scheme} weights are declared, and no tensor holds scales (.weight_scale); "
                "download the model again"
            )

        def is_there(part: str) -> bool:
            return any(part in name for name in scales)

        attention, dense = (self.scheme if is_there(part) else INT8 for part in (".self_attn.", ".mlp."))
        return Precision(self.scheme if is_there(".experts.") else None, attention, dense, INT8, INT8)

    def layout(self, state: State, names: Names, checkpoint: TensorSource) -> Layout:
        """For a network in which ``precision`` is installed.

        Of a part that is packed, a weight that the checkpoint left plain is packed like the others.
        """
        layout = released(state, names)
        for path, module in state.packed.items():
            name = names.released(path)
            plain = checkpoint.headers.get(name)
            if module.scheme != self.scheme or (plain is not None and plain.dtype in FLOATING):
                continue
            del layout[name]
            for matrix in matrices(path, name, module):
                layout |= self._tensors(state, matrix, checkpoint)
        return layout

    def _tensors(self, state: State, matrix: Matrix, checkpoint: TensorSource) -> Layout:
        if self.names is None:
            return compressed_tensors.tensors(state, matrix, self.scheme)
        number = checkpoint.headers.get(f"{matrix.name}.{self.names.number}")
        return nvfp4.tensors(state, matrix, self.names, () if number is None else number.shape)

    def with_ignored(self, names: Names) -> Names:
        """``names``, which leave out scales that are not used here."""
        patterns = [each.pattern for each in (names.ignored, nvfp4.IGNORED) if each is not None]
        return replace(names, ignored=re.compile("|".join(patterns)))
