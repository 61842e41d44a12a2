"""The shape of a model and the settings of a run: frozen, flat, validated once. Knows no tensors.

Field names follow the checkpoint's ``config.json`` and ``generation_config.json``. Errors are one line, whatever those
files hold. Sizes are bounded so that no product of them exceeds 64 bits. Each family in ``models`` reads its own form
of ``config.json``; layers, caches and the memory plan take the shape alone.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from engine.errors import SafelightError, quoted

LayerKind = Literal["sliding_attention", "full_attention"]

MOST_LAYERS = 160  # Llama 405B has 126
MOST_TOKENS = 2**21  # of a vocabulary
MOST_POSITIONS = 2**24
MOST_CANVAS = 65_536
MOST_HEADS, MOST_HEAD_DIM = 4_096, 16_384
MOST_TILE = 128  # pixels along a side of a soft token: 1120 of them are 18 megapixels
MOST_THREADS = 256  # of a processor
MOST_NAME = 64  # characters of a decoder's name
LARGEST_SEED = 2**63 - 1  # of a run; the least is 0
MOST_PENALTY = 100  # of a repetition; checkpoints have 1.0 to 1.3
MOST_REWRITES = 16  # of a block's doubtful spans
IMAGE_TOKENS = (70, 140, 280, 560, 1120)  # budgets of an image that the published model was trained with
MOST_REAL = 1e30  # also fits a float on a graphics card
BLOCK_DIFFUSION = "block_diffusion"  # the decoder whose blocks begin as uniform noise
GROWING = frozenset({"autoregressive", "causal_parallel", "self_speculation"})
"""Decoders whose text grows from left to right: a block is a part of the text as recorded, and is never filled in."""
REMASKING = ("low_confidence_dynamic", "low_confidence_static", "sequential", "entropy_bounded")
"""Rules, by SDAR's names, for which masks of a block a pass of block-causal decoding writes."""
DENSE_EXPERTS = 8  # up to this many experts, computing all of them is faster than sorting tokens
_MOST = {
    "vocab_size": MOST_TOKENS,
    "hidden_size": 2**17,
    "intermediate_size": 2**20,
    "num_attention_heads": MOST_HEADS,
    "sliding_window": MOST_POSITIONS,
    "num_experts": 4_096,
    "top_k_experts": 4_096,
    "moe_intermediate_size": 2**20,
    "canvas_length": MOST_CANVAS,
    "max_position_embeddings": MOST_POSITIONS,
}  # several times what published models have
_MOST_VISION = {
    "hidden_size": 2**17,
    "intermediate_size": 2**20,
    "num_hidden_layers": MOST_LAYERS,
    "num_attention_heads": MOST_HEADS,
    "num_key_value_heads": MOST_HEADS,
    "head_dim": MOST_HEAD_DIM,
    "patch_size": MOST_TILE,
    "pooling_kernel_size": MOST_TILE,
    "position_embedding_size": 2**17,
}
_DECODER = re.compile(r"[a-z0-9_]{0,64}")
_OF_EXPERTS = ("num_experts", "top_k_experts", "moe_intermediate_size")  # all 0: there are none


@dataclass(frozen=True)
class LayerConfig:
    """The settings in which sliding and full attention layers differ."""

    kind: LayerKind
    head_dim: int
    num_key_value_heads: int
    rope_theta: float
    partial_rotary_factor: float  # 1.0 rotates the whole head, 0.0 nothing

    @property
    def is_sliding(self) -> bool:
        return self.kind == "sliding_attention"


@dataclass(frozen=True)
class VisionConfig:
    """Shape of the tower that reads images, and the tokens of an image in a prompt.

    patch_size: pixels along a side. pooling_kernel_size: patches along a side of one soft token.
    position_embedding_size: patches along a side that have position embeddings. An image is the begin token, its image
    tokens, and the end token.
    """

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    patch_size: int
    pooling_kernel_size: int
    position_embedding_size: int
    begin_token_id: int
    image_token_id: int
    end_token_id: int
    rope_theta: float = 100.0
    rms_norm_eps: float = 1e-6
    standardize: bool = True  # with the checkpoint's mean and scale

    def __post_init__(self) -> None:
        for name, most in _MOST_VISION.items():
            check_whole(f"config.json: vision_config.{name}", getattr(self, name), 1, most)
        for name in ("begin_token_id", "image_token_id", "end_token_id"):
            check_whole(f"config.json: {name} of images", getattr(self, name), 0, MOST_TOKENS)
        for name in ("rope_theta", "rms_norm_eps"):
            check_real(f"config.json: vision_config.{name}", getattr(self, name), 0.0, exclusive=True)
        if not isinstance(self.standardize, bool):
            raise SafelightError(f"config.json: vision_config.standardize is {quoted(self.standardize)}, not a boolean")
        if self.head_dim % 4:
            raise SafelightError(f"config.json: vision_config.head_dim {self.head_dim} is no multiple of 4")
        if self.num_attention_heads % self.num_key_value_heads:
            raise SafelightError(
                f"config.json: vision_config has {self.num_key_value_heads} key-value heads, which do not divide "
                f"{self.num_attention_heads} query heads"
            )
        check_whole("config.json: vision_config: pixels along a side of a token", self.tile_size, 1, MOST_TILE)

    @property
    def tile_size(self) -> int:
        """Pixels along a side of one soft token."""
        return self.patch_size * self.pooling_kernel_size


@dataclass(frozen=True)
class ModelConfig:
    """Shape of a model, as its family reads it from the checkpoint's ``config.json``.

    num_experts: 0 if the MLPs are dense; top_k_experts and moe_intermediate_size are then 0, too. sliding_window: of
    sliding layers. canvas_length: positions of a block. vision: None if the model reads no images. A family may add
    fields in a subclass.
    """

    denoises: ClassVar[bool] = True
    """True if the network has DiffusionGemma's denoising step: self-conditioning, and full layers whose keys also serve
    as values. Else it has prefill and prediction only, and every layer has its own values.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    layers: tuple[LayerConfig, ...]
    sliding_window: int
    num_experts: int
    top_k_experts: int
    moe_intermediate_size: int
    canvas_length: int
    max_position_embeddings: int
    rms_norm_eps: float = 1e-6
    final_logit_softcapping: float = 30.0
    bos_token_id: int = 2
    pad_token_id: int = 0
    vision: VisionConfig | None = None

    def __post_init__(self) -> None:
        for name, most in _MOST.items():
            least = 0 if name in _OF_EXPERTS else 1
            check_whole(f"config.json: {name}", getattr(self, name), least, most)
        for name in ("bos_token_id", "pad_token_id"):
            check_whole(f"config.json: {name}", getattr(self, name), 0, MOST_TOKENS)
        for name in ("rms_norm_eps", "final_logit_softcapping"):
            check_real(f"config.json: {name}", getattr(self, name), 0.0, exclusive=True)
        if not self.layers:
            raise SafelightError("config.json: the model has no layers")
        if self.vision is not None:
            tokens = (self.vision.begin_token_id, self.vision.image_token_id, self.vision.end_token_id)
            if len(set(tokens)) < len(tokens) or max(tokens) >= self.vocab_size:
                raise SafelightError(
                    f"config.json: the tokens of images {tokens} must differ and be below vocab_size {self.vocab_size}"
                )
        if self.top_k_experts > self.num_experts:
            raise SafelightError(
                f"config.json: top_k_experts {self.top_k_experts} is more than num_experts {self.num_experts}"
            )
        check_whole("config.json: num_hidden_layers", len(self.layers), 1, MOST_LAYERS)
        for index, layer in enumerate(self.layers):
            where = f"config.json: layer {index}:"
            check_whole(f"{where} head_dim", layer.head_dim, 2, MOST_HEAD_DIM)
            check_whole(f"{where} num_key_value_heads", layer.num_key_value_heads, 1, MOST_HEADS)
            check_real(f"{where} rope_theta", layer.rope_theta, 0.0, exclusive=True)
            check_real(f"{where} partial_rotary_factor", layer.partial_rotary_factor, 0.0)
            if layer.head_dim % 2:
                raise SafelightError(f"{where} has head_dim {layer.head_dim}; it must be even")
            if self.num_attention_heads % layer.num_key_value_heads:
                raise SafelightError(
                    f"{where} has {layer.num_key_value_heads} key-value heads, which do not divide "
                    f"{self.num_attention_heads} query heads"
                )
            if layer.partial_rotary_factor > 1.0:
                raise SafelightError(
                    f"{where} partial_rotary_factor must be at most 1, not {layer.partial_rotary_factor}"
                )

    @property
    def runs_all_experts(self) -> bool:
        """True if every expert is computed for every token, provided that the experts are not packed."""
        return self.num_experts <= DENSE_EXPERTS

    @property
    def largest_image(self) -> int:
        """The most tokens that an image takes, which are read at once; 0 if the model sees no images."""
        return 0 if self.vision is None else min(IMAGE_TOKENS[-1], self.max_position_embeddings)


@dataclass(frozen=True)
class GenerationConfig:
    """The settings of the sampler and the canvas. Defaults are DiffusionGemma's own.

    Args:
        max_new_tokens: upper bound on generated tokens, rounded up to whole canvases.
        max_denoising_steps: most denoising steps a canvas may take.
        entropy_bound: budget of the acceptance rule, in nats; also that of the remasking "entropy_bounded".
        t_max, t_min: temperature at the first and towards the last step.
        stability_threshold: how many earlier argmax canvases must equal the current one; 0 switches the test off.
        confidence_threshold: mean entropy (nats) under which a canvas counts as confident; 0 runs every step.
        eos_token_ids: tokens that end the text. pad_token_id fills what follows one.
        canvas_length: tokens in a block; None takes the model's own.
        seed_canvas: token ids the first canvas starts from instead of noise.
        pinned: (position, token id) pairs of the first canvas that never change.
        allowed_tokens: token ids that may be sampled and used as noise; None allows all.
        decoder: a name of ``decoding.generate.DECODERS`` that the model's family has; "" takes the family's own.
        thought_decoder, answer_decoder: the decoders of blocks that begin in a thought, and of all others; "" takes
            ``decoder``. See ``decoding.mixed``.
        rescue: whether to rescue a block of block diffusion that takes all its steps without converging. Its prefix
            that is stable and causally likely is kept, and the rest written autoregressively. Not with formats, infills
            and decisions; runs with it cannot be forked.
        rescue_probability: causal probability from which a rescue keeps a stable token.
        verify: whether finished blocks of block diffusion are read causally, which yields each token's probability by
            the text before it. Not with formats, forks, infills and decisions. See ``decoding.verifying``.
        verify_probability: causal probability under which a token is doubtful.
        verify_rewrites: how many times doubtful spans of a block may be rewritten; 0 only reports. Runs with rewrites
            cannot be forked.
        sampling_temperature, sampling_top_k, sampling_top_p: how a token is drawn by decoders other than block
            diffusion. Temperature 0 takes the likeliest; top_k 0 and top_p 1 leave the distribution as it is. The
            decoder fixes the order of the three; see ``decoding.shares``.
        sampling_min_p: least probability of a token, as a share of the likeliest token's; 0 leaves all.
        repetition_penalty: applied first, to the logit of each token that stands in the prompt or the text: a logit
            above 0 is divided by it, another multiplied. 1 changes nothing. Not in block diffusion.
        window: masks ahead of the text in causal parallel decoding.
        entropy_threshold: nats under which one of them is written; the lowest always is.
        distance_penalty: nats that each position to its right adds to a mask's entropy.
        accept_probability: probability from which a mask is written in masked block diffusion; the likeliest always is.
            In block-causal decoding it must be above that.
        remasking: which masks of a block a pass of block-causal decoding writes, one of ``REMASKING``; see
            ``decoding.block_causal``.
        banned_tokens: token ids that never appear, even if allowed; only a pinned one stays.
        top_k: how many of the likeliest tokens each step reports for a position; 0 reports none.
        image_tokens: the most tokens that an image of the prompt becomes, one of ``IMAGE_TOKENS``.
        thinking_tokens: number of generated tokens after which the end of a thought is written, if it is still open;
            None sets no bound. For the decoders in ``decoding.names.BOUNDING``; see ``decoding.thoughts``.
    """

    max_new_tokens: int = 256
    max_denoising_steps: int = 48
    entropy_bound: float = 0.1
    t_max: float = 0.8
    t_min: float = 0.4
    stability_threshold: int = 1
    confidence_threshold: float = 0.005
    eos_token_ids: tuple[int, ...] = (1, 106, 50)
    pad_token_id: int = 0
    canvas_length: int | None = None
    seed_canvas: tuple[int, ...] | None = None
    pinned: tuple[tuple[int, int], ...] = ()
    allowed_tokens: tuple[int, ...] | None = None
    top_k: int = 0
    banned_tokens: tuple[int, ...] = ()
    decoder: str = ""
    thought_decoder: str = ""
    answer_decoder: str = ""
    rescue: bool = False
    rescue_probability: float = 0.5
    verify: bool = False
    verify_probability: float = 0.1
    verify_rewrites: int = 0
    sampling_temperature: float = 0.0
    sampling_top_k: int = 0
    sampling_top_p: float = 1.0
    sampling_min_p: float = 0.0
    repetition_penalty: float = 1.0
    window: int = 16
    entropy_threshold: float = 0.4
    distance_penalty: float = 0.02
    accept_probability: float = 0.9
    remasking: str = REMASKING[0]
    image_tokens: int = 280
    thinking_tokens: int | None = None

    def __post_init__(self) -> None:
        check_whole("max_new_tokens", self.max_new_tokens, 1, MOST_POSITIONS)
        check_whole("max_denoising_steps", self.max_denoising_steps, 1, 10_000)
        check_whole("stability_threshold", self.stability_threshold, 0, 1_000)
        check_whole("top_k", self.top_k, 0, 64)
        check_real("entropy_bound", self.entropy_bound, 0.0)
        check_real("confidence_threshold", self.confidence_threshold, 0.0)
        check_real("t_min", self.t_min, 0.0, exclusive=True)
        check_real("t_max", self.t_max, 0.0, exclusive=True)
        for name in ("decoder", "thought_decoder", "answer_decoder"):
            if not is_decoder(getattr(self, name)):
                raise SafelightError(
                    f"{name} must be a name of at most {MOST_NAME} characters, not {quoted(getattr(self, name))}"
                )
        for name in ("rescue", "verify"):
            if not isinstance(getattr(self, name), bool):
                raise SafelightError(f"{name} must be true or false, not {quoted(getattr(self, name))}")
        for name in ("rescue_probability", "verify_probability"):
            check_real(name, getattr(self, name), 0.0)
            if getattr(self, name) > 1.0:
                raise SafelightError(f"{name} must be at most 1, not {getattr(self, name)}")
        check_whole("verify_rewrites", self.verify_rewrites, 0, MOST_REWRITES)
        if isinstance(self.image_tokens, bool) or self.image_tokens not in IMAGE_TOKENS:
            budgets = ", ".join(map(str, IMAGE_TOKENS))
            raise SafelightError(f"image_tokens must be one of {budgets}, not {quoted(self.image_tokens)}")
        check_whole("sampling_top_k", self.sampling_top_k, 0, MOST_TOKENS)
        check_whole("window", self.window, 1, 1024)
        check_real("sampling_temperature", self.sampling_temperature, 0.0)
        check_real("sampling_top_p", self.sampling_top_p, 0.0, exclusive=True)
        check_real("sampling_min_p", self.sampling_min_p, 0.0)
        check_real("repetition_penalty", self.repetition_penalty, 0.0, exclusive=True)
        check_real("entropy_threshold", self.entropy_threshold, 0.0)
        check_real("distance_penalty", self.distance_penalty, 0.0)
        check_real("accept_probability", self.accept_probability, 0.0)
        for name in ("sampling_top_p", "sampling_min_p"):
            if getattr(self, name) > 1.0:
                raise SafelightError(f"{name} must be at most 1, not {getattr(self, name)}")
        if self.remasking not in REMASKING:
            raise SafelightError(f"remasking must be one of {', '.join(REMASKING)}, not {quoted(self.remasking)}")
        if self.repetition_penalty > MOST_PENALTY:
            raise SafelightError(f"repetition_penalty must be at most {MOST_PENALTY}, not {self.repetition_penalty}")
        if self.t_max < self.t_min:
            raise SafelightError(f"t_max ({self.t_max}) must not be below t_min ({self.t_min})")
        if self.canvas_length is not None:
            check_whole("canvas_length", self.canvas_length, 1, MOST_CANVAS)
        if self.thinking_tokens is not None:
            check_whole("thinking_tokens", self.thinking_tokens, 0, MOST_POSITIONS)
        check_whole("pad_token_id", self.pad_token_id, 0, MOST_TOKENS)
        _tokens("eos_token_ids", self.eos_token_ids, MOST_TOKENS)
        _tokens("banned_tokens", self.banned_tokens, MOST_TOKENS)
        if self.seed_canvas is not None:
            _tokens("seed_canvas", self.seed_canvas, MOST_CANVAS)
        if self.allowed_tokens is not None:
            _tokens("allowed_tokens", self.allowed_tokens, MOST_TOKENS)
            if not self.allowed_tokens:
                raise SafelightError("allowed_tokens is empty; allow at least one token or leave it out")
        _check_pinned(self.pinned)

    def replace(self, **changes: Any) -> GenerationConfig:
        """Returns a copy with some fields changed, validated again."""
        unknown = changes.keys() - {field.name for field in dataclasses.fields(self)}
        if unknown:
            names = ", ".join(sorted(quoted(name).strip("'") for name in unknown))
            raise SafelightError(f"unknown generation setting: {names}")
        return dataclasses.replace(self, **changes)

    @property
    def is_block_diffusion(self) -> bool:
        """True if all blocks begin as uniform noise, as they do in records that name no decoder."""
        names = (self.decoder, self.thought_decoder, self.answer_decoder)
        return all(name in ("", BLOCK_DIFFUSION) for name in names)

    @property
    def denoises(self) -> bool:
        """True if some blocks begin as uniform noise."""
        names = (self.thought_decoder, self.answer_decoder)
        return any((name or self.decoder) in ("", BLOCK_DIFFUSION) for name in names)

    @property
    def grows(self) -> bool:
        """True if some blocks do not begin as uniform noise, and all of these hold growing text, see ``GROWING``."""
        names = {self.thought_decoder or self.decoder, self.answer_decoder or self.decoder} - {"", BLOCK_DIFFUSION}
        return bool(names) and names <= GROWING

    @property
    def rewrites(self) -> bool:
        """True if doubtful spans may be rewritten."""
        return self.verify and self.verify_rewrites > 0

    def temperature(self, step: int) -> float:
        """Returns the temperature of a denoising step (0 upward): linear in the steps that remain."""
        remaining = self.max_denoising_steps - step
        return self.t_min + (self.t_max - self.t_min) * (remaining / self.max_denoising_steps)

    @staticmethod
    def from_dict(raw: dict[str, Any], base: GenerationConfig | None = None) -> GenerationConfig:
        """Reads a parsed ``generation_config.json``; fields it leaves out are those of ``base``."""
        names = "max_new_tokens max_denoising_steps t_max t_min stability_threshold confidence_threshold pad_token_id"
        known: dict[str, Any] = {name: raw[name] for name in names.split() if raw.get(name) is not None}
        sampler = raw.get("sampler_config") or {}
        if not isinstance(sampler, dict):
            raise SafelightError(f"generation_config.json: sampler_config must be an object, not {quoted(sampler)}")
        if sampler.get("_cls_name", "EntropyBoundSamplerConfig") != "EntropyBoundSamplerConfig":
            raise SafelightError(f"generation_config.json: unknown sampler {quoted(sampler['_cls_name'])}")
        if sampler.get("entropy_bound") is not None:
            known["entropy_bound"] = sampler["entropy_bound"]
        eos = raw.get("eos_token_id")
        if eos is not None:
            known["eos_token_ids"] = tuple(eos) if isinstance(eos, list) else (eos,)
        if not sampler:
            known |= _drawing(raw)
        return (base or GenerationConfig()).replace(**known)


def is_decoder(name: Any) -> bool:
    """Returns True if a decoder may have this name; the empty name stands for the model's own decoder."""
    return isinstance(name, str) and _DECODER.fullmatch(name) is not None


def check_whole(name: str, value: Any, low: int, high: int) -> None:
    """Checks a whole number.

    Raises:
        SafelightError: it is no whole number from ``low`` to ``high``.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise SafelightError(f"{name} must be a whole number between {low} and {high}, not {quoted(value)}")


def check_real(name: str, value: Any, low: float, *, exclusive: bool = False) -> None:
    """Checks a real number.

    Raises:
        SafelightError: it is no finite number of at least ``low``, or, if that is ``exclusive``, above it.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MOST_REAL:
        raise SafelightError(f"{name} must be a finite number, not {quoted(value)}")
    if value < low or (exclusive and value == low):
        raise SafelightError(f"{name} must be {'above' if exclusive else 'at least'} {low:g}, not {quoted(value)}")


def _drawing(raw: dict[str, Any]) -> dict[str, Any]:
    """Reads the settings for drawing tokens as transformers has them. Its ``top_k`` is ``sampling_top_k`` here."""
    known = {f"sampling_{name}": raw[name] for name in ("top_k", "top_p", "min_p") if raw.get(name) is not None}
    if raw.get("do_sample") is True:
        known["sampling_temperature"] = 1.0 if raw.get("temperature") is None else raw["temperature"]
    elif known or not {"do_sample", "temperature"}.isdisjoint(raw):  # transformers samples only if do_sample is set
        known["sampling_temperature"] = 0.0
    penalty = raw.get("repetition_penalty")
    return known if penalty is None else known | {"repetition_penalty": penalty}


def _tokens(name: str, value: Any, most: int) -> None:
    if not isinstance(value, tuple) or len(value) > most:
        raise SafelightError(f"{name} must be a tuple of at most {most} token ids, not {quoted(value)}")
    for token in value:
        check_whole(f"each of {name}", token, 0, MOST_TOKENS)


def _check_pinned(pinned: Any) -> None:
    pairs = isinstance(pinned, tuple) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in pinned)
    if not pairs or len(pinned) > MOST_CANVAS:
        raise SafelightError(f"pinned must be a tuple of (position, token id) pairs, not {quoted(pinned)}")
    for position, token in pinned:
        check_whole("a pinned position", position, 0, MOST_CANVAS - 1)
        check_whole("a pinned token", token, 0, MOST_TOKENS)
    if len(dict(pinned)) < len(pinned):
        raise SafelightError("a position is pinned twice; pin each one once")
