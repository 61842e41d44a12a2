"""Reads ``adapter_config.json`` as PEFT writes it for LoRA, and names the adapter's files. Knows no tensors."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from engine.errors import SafelightError, quoted
from engine.files import read_json

CONFIG, TENSORS = "adapter_config.json", "adapter_model.safetensors"
BASE_FINGERPRINT = "base_fingerprint"  # our own entry in the tensors' header
TENSOR = re.compile(r"base_model\.model\.(.+)\.lora_([AB])\.weight")
MAX_RANK = 65_536  # a matrix of a higher one is larger than its layer
MAX_ALPHA = 1e6  # values beyond it, in either direction, are errors
STARTS = (True, False, None, "gaussian", "eva", "orthogonal")  # initialisations that leave the base unchanged
Value = TypeVar("Value")
Patterns = tuple[tuple[re.Pattern[str], Value], ...]
"""Values by regular expressions over the end of a module's name, of which the first that matches counts."""
# Options that change what LoRA adds, or add something else; PEFT writes those that are off as null, false or empty.
OTHERS = {
    "use_dora": "DoRA",
    "use_qalora": "QA-LoRA",
    "use_bdlora": "BD-LoRA",
    "kasa_config": "KaSA",
    "monteclora_config": "MonteCLoRA",
    "arrow_config": "Arrow",
    "alora_invocation_tokens": "activated LoRA",
    "lora_bias": "a bias in addition to the low-rank matrices",
    "modules_to_save": "whole modules in addition to the low-rank matrices",
    "trainable_token_indices": "trained tokens",
    "target_parameters": "LoRA over parameters, such as experts,",
    "layer_replication": "layers that run twice",
}


def tensor_name(module: str, letter: str) -> str:
    """Returns the name of a module's matrix in the file; A maps down to the rank, B up from it."""
    return f"base_model.model.{module}.lora_{letter}.weight"


@dataclass(frozen=True)
class LoraConfig:
    """The relevant part of the config: ranks, scalings and the base."""

    path: Path
    rank: int
    alpha: float
    is_rank_stabilised: bool = False
    ranks: Patterns[int] = ()
    alphas: Patterns[float] = ()
    base: str = ""  # as given to the training: an id or a folder

    def rank_of(self, module: str) -> int:
        """Returns the rank of a module's matrices, by transformers' name."""
        return _found(self.ranks, module, self.rank)

    def scaling_of(self, module: str) -> float:
        """Returns the factor of a module's product: alpha / rank, or alpha / sqrt(rank) if it is rank-stabilised."""
        alpha, rank = _found(self.alphas, module, self.alpha), self.rank_of(module)
        return alpha / (math.sqrt(rank) if self.is_rank_stabilised else rank)

    @staticmethod
    def read(folder: Path) -> LoraConfig:
        """Reads a folder's config.

        Raises:
            SafelightError: it is missing or damaged, or describes something other than plain LoRA.
        """
        path = folder / CONFIG
        raw = read_json(path)
        kind = raw.get("peft_type")
        if kind != "LORA":
            raise SafelightError(f"{path}: peft_type {quoted(kind)} is not supported; train the adapter as LoRA")
        for option, title in OTHERS.items():
            if raw.get(option):
                raise SafelightError(f"{path}: {title} is not supported; train the adapter without {option}")
        if raw.get("bias", "none") != "none":
            bias = quoted(raw["bias"])
            raise SafelightError(f"{path}: bias {bias} is not supported; train the adapter with bias 'none'")
        start = raw.get("init_lora_weights", True)
        if start not in STARTS:
            raise SafelightError(
                f"{path}: init_lora_weights {quoted(start)} changes the base's own weights; save the adapter with "
                "PEFT's path_initial_model_for_weight_conversion, or train it with init_lora_weights true"
            )
        return LoraConfig(
            path=path,
            rank=_rank(path, "r", raw.get("r")),
            alpha=_alpha(path, "lora_alpha", raw.get("lora_alpha")),
            is_rank_stabilised=raw.get("use_rslora") is True,
            ranks=_patterns(path, raw, "rank_pattern", _rank),
            alphas=_patterns(path, raw, "alpha_pattern", _alpha),
            base=str(raw.get("base_model_name_or_path") or ""),
        )


def _patterns(path: Path, raw: dict[str, Any], name: str, read: Callable[[Path, str, Any], Value]) -> Patterns[Value]:
    """Returns the entries of ``rank_pattern`` or ``alpha_pattern``, whose keys PEFT takes as regular expressions."""
    given = raw.get(name) or {}
    if not isinstance(given, dict):
        raise SafelightError(f"{path}: {name} is not an object; save the adapter again")
    try:
        return tuple((re.compile(rf"(.*\.)?({key})$"), read(path, key, value)) for key, value in given.items())
    except (re.error, OverflowError, RecursionError) as error:
        raise SafelightError(f"{path}: {name} has a key that is no pattern; save the adapter again") from error


def _found(patterns: Patterns[Value], module: str, default: Value) -> Value:
    return next((value for pattern, value in patterns if pattern.match(module)), default)


def _rank(path: Path, name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_RANK:
        rule = f"must be a whole number from 1 to {MAX_RANK}, not {quoted(value)}"
        raise SafelightError(f"{path}: the rank {name} {rule}")
    return value


def _alpha(path: Path, name: str, value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= MAX_ALPHA:
        rule = f"must be a number up to {MAX_ALPHA:.0f}, not {quoted(value)}"
        raise SafelightError(f"{path}: the alpha {name} {rule}")
    return value
