"""The known families of models, by the ``model_type`` of their ``config.json``. To add one, add a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from engine.adapters.lora import Targets
from engine.config import GenerationConfig, ModelConfig
from engine.decoders import BLOCK_DIFFUSION
from engine.errors import SafelightError, quoted
from engine.files import read_json
from engine.models.causal import families, llada, llada2
from engine.models.causal.config import CausalConfig
from engine.models.causal.layout import EXPERTS, SEEING, TEXT
from engine.models.causal.network import build as build_causal
from engine.models.diffusion_gemma import config as diffusion_gemma
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.models.network import Network
from engine.text.tokenizer import Tokenizer
from engine.weights.layout import Names

_ANSWER = GenerationConfig(max_new_tokens=1024, eos_token_ids=())
_MASKED = _ANSWER.replace(max_new_tokens=128, max_denoising_steps=32, remasking="low_confidence_static")
_CHAT_ENDS = ("<|im_end|>", "<|endoftext|>")

AUTHORS_ONLY = "layout and authors' code only"
"""Marks a family whose published files were never available here. Their layout was tested with files without content,
network and decoding against the code that its authors published, on small models.
"""
LAYOUT_ONLY = "layout and oracle only"
"""Marks a family whose published files were never available here. Their layout was tested with files without content,
the network against ``transformers`` or its authors' code on small models.
"""


@dataclass(frozen=True)
class Family:
    """An architecture: its config reader, its network, and its decoders."""

    model_type: str
    reader: Callable[[dict[str, Any]], ModelConfig]  # of a parsed config.json; see ``read_config``
    build: Callable[[ModelConfig], Network]  # weights not filled
    names: Names  # of the tensors in released checkpoints
    targets: Targets  # of adapters
    decoders: tuple[str, ...]  # names of ``decoders.DECODERS`` that ``generate`` may be asked for, the default first
    defaults: GenerationConfig  # if a checkpoint does not say; without end tokens: those of its other files
    tried: str = LAYOUT_ONLY  # or the published weights that ``tests/real`` holds to ``transformers``
    starts_with_bos: bool = False  # of a text without a template as well, if its tokenizer's files do not say
    ends: tuple[str, ...] = ()  # texts of tokens that always end a text, if the tokenizer has them

    @property
    def has_masks(self) -> bool:
        """True if it was trained with a token for positions that are not written yet."""
        return not {BLOCK_DIFFUSION, "autoregressive"}.issuperset(self.decoders)

    def read_config(self, raw: dict[str, Any]) -> ModelConfig:
        """Returns the shape that a parsed ``config.json`` describes.

        Raises:
            SafelightError: a field is missing, of another type, or of a value that this engine does not implement.
        """
        try:
            return self.reader(raw)
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
            said = f"{type(error).__name__}: {error}"
            raise SafelightError(f"config.json is malformed ({quoted(said)})") from error

    def read_in(self, folder: Path, raw: dict[str, Any]) -> ModelConfig:
        """Returns the shape of a model in a folder, by its parsed ``config.json``.

        If that does not name the mask token, the tokenizer's files do.

        Raises:
            SafelightError: a file is damaged.
        """
        if self.has_masks and raw.get("mask_token_id") is None:
            raw = {**raw, "mask_token_id": mask_token_in(folder)}
        return self.read_config(raw)


def _autoregressive(
    model_type: str,
    read_config: Callable[[dict[str, Any]], ModelConfig],
    layout: tuple[Names, Targets] = TEXT,
    tried: str = LAYOUT_ONLY,
) -> Family:
    """Returns a family of dense causal models that were trained to write a token at a time."""
    return Family(model_type, read_config, build_causal, *layout, ("autoregressive",), _ANSWER, tried)


def _from_autoregression(model_type: str, read_config: Callable[[dict[str, Any]], CausalConfig]) -> Family:
    """Returns a family of dllm's: its files do not say whether it was trained on whole texts or on blocks."""
    decoders, defaults = ("bidirectional", "block_causal"), _MASKED
    ends = ("<|im_end|>", "<|eot_id|>", "<|endoftext|>")
    reader = partial(families.read_dllm, like=read_config)
    return Family(model_type, reader, build_causal, *TEXT, decoders, defaults, AUTHORS_ONLY, ends=ends)


FAMILIES = {
    family.model_type: family
    for family in (
        Family(
            "diffusion_gemma",
            diffusion_gemma.read_config,
            DiffusionGemma,
            diffusion_gemma.NAMES,
            diffusion_gemma.TARGETS,
            decoders=("block_diffusion", "autoregressive"),
            defaults=GenerationConfig(),
            starts_with_bos=True,
        ),
        _autoregressive("qwen2", families.read_qwen2, tried="Qwen2.5-Coder 0.5B and 1.5B"),
        _autoregressive("qwen3", families.read_qwen3),
        _autoregressive("llama", families.read_llama, tried="SmolLM2 135M"),
        _autoregressive("smollm3", families.read_smollm3),
        _autoregressive("mistral", families.read_mistral),
        _autoregressive("ministral", families.read_mistral),
        _autoregressive("ministral3", families.read_ministral3),
        _autoregressive("mistral3", families.read_mistral3, SEEING),
        _autoregressive("gemma3_text", families.read_gemma3_text, tried="Gemma 3 270M"),
        _autoregressive("gemma3", families.read_gemma3, SEEING),
        Family(
            "wedlm",
            families.read_wedlm,
            build_causal,
            *TEXT,
            decoders=("causal_parallel", "autoregressive"),
            defaults=_ANSWER.replace(sampling_temperature=0.2),
            ends=_CHAT_ENDS,
        ),
        Family(
            "sdar",
            families.read_sdar,
            build_causal,
            *TEXT,
            decoders=("block_causal",),
            defaults=_ANSWER.replace(accept_probability=0.85, entropy_bound=0.35),
            tried=AUTHORS_ONLY,
        ),
        Family(
            "Fast_dLLM_Qwen",
            families.read_fast_dllm,
            build_causal,
            *TEXT,
            decoders=("sub_blocks",),
            defaults=_ANSWER.replace(accept_probability=0.9, sampling_top_p=0.95),
            ends=("<|im_end|>",),
            tried=AUTHORS_ONLY,
        ),
        Family(
            "llada2_moe",
            llada2.read_llada2,
            build_causal,
            llada2.NAMES,
            llada2.TARGETS,
            decoders=("block_causal",),
            defaults=_ANSWER.replace(accept_probability=0.7, edit_probability=0.5),  # LLaDA2.1's for quality
            tried=AUTHORS_ONLY,
        ),
        Family(
            "nemotron_labs_diffusion",
            families.read_nemotron,
            build_causal,
            *families.NEMOTRON,
            decoders=("masked_diffusion", "autoregressive", "self_speculation"),
            defaults=_ANSWER,
        ),
        Family(
            "llada",
            llada.read_llada,
            build_causal,
            llada.NAMES,
            llada.TARGETS,
            decoders=("bidirectional",),
            defaults=_MASKED,
            ends=("<|eot_id|>", "<|endoftext|>"),
            tried=AUTHORS_ONLY,
        ),
        Family(
            llada.MODEL_TYPE,
            llada.read_moe,
            build_causal,
            *EXPERTS,
            decoders=("bidirectional",),
            defaults=_MASKED,
            ends=("<|role_end|>", "<|endoftext|>"),
        ),
        Family(
            "Dream",
            families.read_dream,
            build_causal,
            *TEXT,
            decoders=("bidirectional",),
            defaults=_ANSWER.replace(
                max_new_tokens=512,
                max_denoising_steps=512,
                remasking="entropy",
                sampling_temperature=0.2,
                sampling_top_p=0.95,
            ),
            ends=_CHAT_ENDS,
            tried=AUTHORS_ONLY,
        ),
        Family(
            "rnd1",
            families.read_rnd1,
            build_causal,
            *EXPERTS,
            decoders=("bidirectional",),
            defaults=_MASKED.replace(max_new_tokens=256, max_denoising_steps=256, remasking="entropy"),
            ends=_CHAT_ENDS,
            tried=AUTHORS_ONLY,
        ),
        _from_autoregression("a2d-qwen3", partial(families.read_qwen3, mask=families.QWEN3_MASK)),
        _from_autoregression("a2d-qwen2", partial(families.read_qwen2, mask=families.QWEN2_MASK)),
        _from_autoregression("a2d-llama", families.read_llama),
    )
}


def family_of(raw: dict[str, Any]) -> Family:
    """Returns the family of a parsed ``config.json``.

    Raises:
        SafelightError: none that is known.
    """
    model_type = raw.get("model_type")
    if model_type == "llada" and raw.get("num_experts"):
        model_type = llada.MODEL_TYPE
    family = FAMILIES.get(model_type) if isinstance(model_type, str) else None
    if family is None:
        raise SafelightError(
            f"config.json: model_type is {quoted(model_type)}, of no family that this engine runs; "
            "engine/models/README.md lists them"
        )
    return family


def mask_token_in(folder: Path) -> int | None:
    """Returns the id of ``mask_token`` in a folder's ``tokenizer_config.json``; None if its files do not say.

    The id stands in the same file, or is the tokenizer's, which is slow to read.

    Raises:
        SafelightError: a file is damaged.
    """
    path = folder / "tokenizer_config.json"
    settings = read_json(path) if path.exists() else {}
    token = _content(settings.get("mask_token"))
    known = settings.get("added_tokens_decoder")
    for number, entry in known.items() if isinstance(known, dict) else ():
        if token is not None and _content(entry) == token and number.isdecimal() and len(number) < 10:
            return int(number)
    if token is None or not (folder / "tokenizer.json").exists():
        return None
    return Tokenizer.from_folder(folder).token_id(token)


def _content(token: Any) -> str | None:
    """Returns a token's text, given by itself or in an object."""
    token = token.get("content") if isinstance(token, dict) else token
    return token if isinstance(token, str) else None
