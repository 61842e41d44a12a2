"""``adapter_config.json`` as PEFT writes it for LoRA, and the names of what lies beside it. Knows no tensors."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import SafelightError
from engine.files import read_json

CONFIG, TENSORS = "adapter_config.json", "adapter_model.safetensors"
BASE_FINGERPRINT = "base_fingerprint"  # our own entry in the tensors' header
TENSOR = re.compile(r"base_model\.model\.(.+)\.lora_([AB])\.weight")
MOST_ALPHA = 1e6  # above it, and below its negative, something is wrong
ENDING = r"(.*\.)?({})"
STARTS = (True, False, None, "gaussian", "eva", "orthogonal")  # of training, that leave the base as it was
# Options that change what LoRA adds, or add something else; PEFT writes those that are off as null, false or empty.
OTHERS = {
    "use_dora": "DoRA",
    "use_qalora": "QA-LoRA",
    "use_bdlora": "BD-LoRA",
    "kasa_config": "KaSA",
    "monteclora_config": "MonteCLoRA",
    "arrow_config": "Arrow",
    "alora_invocation_tokens": "activated LoRA",
    "lora_bias": "a bias beside the low-rank matrices",
    "modules_to_save": "whole modules beside the low-rank matrices",
    "trainable_token_indices": "trained tokens",
    "target_parameters": "LoRA over parameters, such as experts,",
    "layer_replication": "layers that run twice",
}


def tensor_name(module: str, letter: str) -> str:
    """The name of a module's matrix in the file; A goes down to the rank, B up from it."""
    return f"base_model.model.{module}.lora_{letter}.weight"


@dataclass(frozen=True)
class LoraConfig:
    """What of the config matters here: ranks, scalings and the base."""

    path: Path
    rank: int
    alpha: float
    is_rank_stabilised: bool = False
    rank_pattern: Sequence[tuple[str, int]] = ()
    alpha_pattern: Sequence[tuple[str, float]] = ()
    base: str = ""  # as training was told it: an id or a folder

    def rank_of(self, module: str) -> int:
        """The rank of a module's matrices, by transformers' name."""
        return next((rank for key, rank in self.rank_pattern if _matches(key, module)), self.rank)

    def scaling_of(self, module: str) -> float:
        """What a module's product is multiplied by: alpha / rank, or alpha / sqrt(rank) if it is rank-stabilised."""
        alpha = next((alpha for key, alpha in self.alpha_pattern if _matches(key, module)), self.alpha)
        rank = self.rank_of(module)
        return alpha / (math.sqrt(rank) if self.is_rank_stabilised else rank)

    @staticmethod
    def read(folder: Path) -> LoraConfig:
        """
        Raises:
            SafelightError: it is missing or damaged, or describes something other than plain LoRA.
        """
        path = folder / CONFIG
        raw = read_json(path)
        kind = raw.get("peft_type")
        if kind != "LORA":
            raise SafelightError(f"{path}: peft_type {kind!r} is not supported; train the adapter as LoRA")
        for option, title in OTHERS.items():
            if raw.get(option):
                raise SafelightError(f"{path}: {title} is not supported; train the adapter without {option}")
        if raw.get("bias", "none") != "none":
            raise SafelightError(f"{path}: bias {raw['bias']!r} is not supported; train the adapter with bias 'none'")
        start = raw.get("init_lora_weights", True)
        if start not in STARTS:
            raise SafelightError(
                f"{path}: init_lora_weights {start!r} changes the base's own weights; save the adapter with PEFT's "
                "path_initial_model_for_weight_conversion, or train it with init_lora_weights true"
            )
        return LoraConfig(
            path=path,
            rank=_rank(path, "r", raw.get("r")),
            alpha=_alpha(path, "lora_alpha", raw.get("lora_alpha")),
            is_rank_stabilised=raw.get("use_rslora") is True,
            rank_pattern=tuple((key, _rank(path, key, rank)) for key, rank in _pattern(path, raw, "rank_pattern")),
            alpha_pattern=tuple((key, _alpha(path, key, alpha)) for key, alpha in _pattern(path, raw, "alpha_pattern")),
            base=str(raw.get("base_model_name_or_path") or ""),
        )


def _matches(key: str, module: str) -> bool:
    """PEFT's rule for the keys of a pattern: the end of a module's name, as a regular expression."""
    return re.fullmatch(ENDING.format(key), module) is not None


def _pattern(path: Path, raw: dict[str, Any], name: str) -> list[tuple[str, Any]]:
    found = raw.get(name) or {}
    try:
        if not isinstance(found, dict):
            raise SafelightError(f"{path}: {name} is no object; save the adapter again")
        for key in found:
            re.compile(ENDING.format(key))
    except re.error as error:
        raise SafelightError(f"{path}: {name} has the key {key!r}, which is no pattern ({error})") from None
    return list(found.items())


def _rank(path: Path, name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise SafelightError(f"{path}: the rank {name} must be a whole number of 1 or more, not {value!r}")
    return value


def _alpha(path: Path, name: str, value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= MOST_ALPHA:
        raise SafelightError(f"{path}: the alpha {name} must be a number up to {MOST_ALPHA:.0f}, not {value!r}")
    return value
