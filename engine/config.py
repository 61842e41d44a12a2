"""The shape of a model and the settings of a run: frozen, flat, validated once. Knows no tensors.

Field names follow the checkpoint's ``config.json`` and ``generation_config.json``. Errors are one line, whatever those
files hold. Sizes are bounded so that no product of them exceeds 64 bits. Each family in ``models`` reads its own form
of ``config.json``; layers, caches and the memory plan take the shape alone.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Literal

from engine.declared import Flag, Share, check_fields, check_real, check_whole, ids, one_of, real, whole
from engine.decoders import BLOCK_DIFFUSION, DenoisingSettings, MaskSettings, SamplingSettings, able
from engine.errors import SafelightError, quoted
from engine.settings import Choice, CliOption, Setting

LayerKind = Literal["sliding_attention", "full_attention"]
Activation = Literal["silu", "gelu_pytorch_tanh"]
GELU: Final[Activation] = "gelu_pytorch_tanh"

MAX_LAYERS = 160  # Llama 405B has 126
MAX_VOCABULARY = 2**21  # of a vocabulary
MAX_POSITIONS = 2**24
MAX_CANVAS = 65_536
MAX_HEADS, MAX_HEAD_DIM, MAX_EXPERTS = 4_096, 16_384, 4_096
MAX_TILE = 128  # pixels along a side of a soft token: 1120 of them are 18 megapixels
MAX_THREADS = 256  # of a processor
MAX_NAME = 64  # characters of a decoder's name
USUAL_HOLE = 16  # tokens of a hole whose length is not given
GAP_LENGTHS = (8, 16, 32)  # of a gap's hole, in tokens, in models that were trained to pad it
SMALLEST_CANVAS = 64  # of answers whose length is asked for, or that have a format; as mlx-vlm has it
LARGEST_SEED = 2**63 - 1  # of a run; the least is 0
IMAGE_TOKENS = (70, 140, 280, 560, 1120)  # budgets of an image that the published model was trained with
DENSE_EXPERTS = 8  # up to this many experts, computing all of them is faster than sorting tokens
_DECODER = re.compile(r"[a-z0-9_]{0,64}")


def is_decoder(name: Any) -> bool:
    """Returns True if a decoder may have this name; the empty name stands for the model's own decoder."""
    return isinstance(name, str) and _DECODER.fullmatch(name) is not None


def _check_decoder(name: str, value: Any) -> None:
    if not is_decoder(value):
        raise SafelightError(f"{name} must be a name of at most {MAX_NAME} characters, not {quoted(value)}")


Width = Annotated[int, whole(1, 2**17)]  # this and the next: several times what published models have
Inner = Annotated[int, whole(1, 2**20)]
Heads = Annotated[int, whole(1, MAX_HEADS)]
Positions = Annotated[int, whole(1, MAX_POSITIONS)]
Canvas = Annotated[int, whole(1, MAX_CANVAS)]
Token = Annotated[int, whole(0, MAX_VOCABULARY)]
Tokens = Annotated[tuple[int, ...], ids(MAX_VOCABULARY, MAX_VOCABULARY)]
Positive = Annotated[float, real(0.0, exclusive=True)]


@dataclass(frozen=True)
class LayerConfig:
    """The settings in which sliding and full attention layers differ."""

    kind: LayerKind
    head_dim: Annotated[int, whole(2, MAX_HEAD_DIM)]
    num_key_value_heads: Heads
    rope_theta: Positive
    partial_rotary_factor: Share  # 1.0 rotates the whole head, 0.0 nothing
    is_dense: Flag = False  # without experts, in a model whose other layers have them

    @property
    def is_sliding(self) -> bool:
        return self.kind == "sliding_attention"


@dataclass(frozen=True)
class ExpertRouting:
    """The rule by which a token chooses its experts, and their weights.

    Args:
        scores: a softmax over all experts, or a sigmoid of each.
        groups, chosen_groups: experts are chosen from those of ``groups`` equal groups whose two best have the largest
            sums; 1 and 1: from all.
        has_bias: whether a number of each expert is added to its score for the choice alone.
        is_normed: whether the chosen scores are divided by their sum.
        scale: factor of the weights.
        shared_width: inner width of an MLP that every token takes besides; 0: there is none.
    """

    scores: Annotated[str, one_of(("softmax", "sigmoid"))] = "softmax"
    groups: Annotated[int, whole(1, MAX_EXPERTS)] = 1
    chosen_groups: Annotated[int, whole(1, MAX_EXPERTS)] = 1
    has_bias: Flag = False
    is_normed: Flag = True
    scale: Positive = 1.0
    shared_width: Annotated[int, whole(0, 2**20)] = 0

    def check(self, experts: int, chosen: int) -> None:
        """Checks that so many experts can be chosen of so many.

        Raises:
            SafelightError: they cannot.
        """
        check_fields(self, "config.json: ")
        each = experts // self.groups
        if each * self.groups != experts or (self.groups > 1 and each < 2):
            raise SafelightError(f"config.json: {experts} experts do not make {self.groups} groups of two or more")
        if self.chosen_groups > self.groups or not 1 <= chosen <= each * self.chosen_groups:
            raise SafelightError(
                f"config.json: {chosen} experts cannot be chosen from {self.chosen_groups} of {self.groups} groups of "
                f"{each}"
            )


@dataclass(frozen=True)
class VisionConfig:
    """Shape of the tower that reads images, and the tokens of an image in a prompt.

    patch_size: pixels along a side. pooling_kernel_size: patches along a side of one soft token.
    position_embedding_size: patches along a side that have position embeddings. An image is the begin token, its image
    tokens, and the end token.
    """

    hidden_size: Width
    intermediate_size: Inner
    num_hidden_layers: Annotated[int, whole(1, MAX_LAYERS)]
    num_attention_heads: Heads
    num_key_value_heads: Heads
    head_dim: Annotated[int, whole(1, MAX_HEAD_DIM)]
    patch_size: Annotated[int, whole(1, MAX_TILE)]
    pooling_kernel_size: Annotated[int, whole(1, MAX_TILE)]
    position_embedding_size: Annotated[int, whole(1, 2**17)]
    begin_token_id: Token
    image_token_id: Token
    end_token_id: Token
    rope_theta: Positive = 100.0
    rms_norm_eps: Positive = 1e-6
    standardize: Flag = True  # with the checkpoint's mean and scale

    def __post_init__(self) -> None:
        check_fields(self, "config.json: vision_config.")
        if self.head_dim % 4:
            raise SafelightError(f"config.json: vision_config.head_dim {self.head_dim} is not a multiple of 4")
        if self.num_attention_heads % self.num_key_value_heads:
            raise SafelightError(
                f"config.json: vision_config has {self.num_key_value_heads} key-value heads, which do not divide "
                f"{self.num_attention_heads} query heads"
            )
        check_whole("config.json: vision_config: pixels along a side of a token", self.tile_size, 1, MAX_TILE)

    @property
    def tile_size(self) -> int:
        """Pixels along a side of one soft token."""
        return self.patch_size * self.pooling_kernel_size


@dataclass(frozen=True)
class ModelConfig:
    """Shape of a model, as its family reads it from the checkpoint's ``config.json``.

    num_experts: 0 if the MLPs are dense; top_k_experts and moe_intermediate_size are then 0, too. sliding_window: of
    sliding layers. canvas_length: positions of a block. vision: None if the model reads no images. reads_whole: whether
    a pass may read all of a text, in both directions. pads_gaps: whether the model was trained to write a gap's text
    into a hole that may be longer, of ``GAP_LENGTHS``, and padding behind it. A family may add fields in a subclass.
    """

    denoises: ClassVar[bool] = True
    """True if the network has DiffusionGemma's denoising step: self-conditioning, and full layers whose keys also serve
    as values. Else it has prefill and prediction only, and every layer has its own values.
    """

    vocab_size: Annotated[int, whole(1, MAX_VOCABULARY)]
    hidden_size: Width
    intermediate_size: Inner
    num_attention_heads: Heads
    layers: tuple[LayerConfig, ...]
    sliding_window: Positions
    num_experts: Annotated[int, whole(0, MAX_EXPERTS)]
    top_k_experts: Annotated[int, whole(0, MAX_EXPERTS)]
    moe_intermediate_size: Annotated[int, whole(0, 2**20)]
    canvas_length: Canvas
    max_position_embeddings: Positions
    rms_norm_eps: Positive = 1e-6
    final_logit_softcapping: Positive = 30.0
    bos_token_id: Token = 2
    pad_token_id: Token = 0
    vision: VisionConfig | None = None
    reads_whole: bool = False
    pads_gaps: bool = False

    def __post_init__(self) -> None:
        check_fields(self, "config.json: ")
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
        check_whole("config.json: num_hidden_layers", len(self.layers), 1, MAX_LAYERS)
        for index, layer in enumerate(self.layers):
            where = f"config.json: layer {index}:"
            check_fields(layer, f"{where} ")
            if layer.head_dim % 2:
                raise SafelightError(f"{where} has head_dim {layer.head_dim}; it must be even")
            if self.num_attention_heads % layer.num_key_value_heads:
                raise SafelightError(
                    f"{where} has {layer.num_key_value_heads} key-value heads, which do not divide "
                    f"{self.num_attention_heads} query heads"
                )

    @property
    def runs_all_experts(self) -> bool:
        """True if every expert is computed for every token, provided that the experts are not packed."""
        return self.num_experts <= DENSE_EXPERTS

    def dense_width(self, _layer: LayerConfig, /) -> int:
        """Returns the inner width of the MLP that all tokens take in a layer; 0: there is none."""
        return self.intermediate_size

    @property
    def largest_image(self) -> int:
        """The most tokens that an image takes, which are read at once; 0 if the model sees no images."""
        return 0 if self.vision is None else min(IMAGE_TOKENS[-1], self.max_position_embeddings)


@dataclass(frozen=True)
class GenerationConfig(MaskSettings, SamplingSettings, DenoisingSettings):
    """The settings of a run: those of the decoders, and what all of them have. Defaults are DiffusionGemma's own.

    Args:
        max_new_tokens: upper bound on generated tokens, rounded up to whole canvases.
        thinking_tokens: number of generated tokens after which the end of a thought is written, if it is still open;
            None sets no bound. For the decoders that bound thoughts; see ``decoding.thoughts``.
        eos_token_ids: tokens that end the text. pad_token_id fills what follows one.
        canvas_length: tokens in a block; None takes the model's own.
        smallest_canvas: tokens of the smallest canvas of block diffusion. Where few new tokens are left, a canvas has
            this length, or two, four, eight … times it, and at most the model's own; see ``canvas``. None: always the
            model's own. All canvases of a run have one length if it has a format.
        pinned: (position, token id) pairs of the first canvas that never change.
        top_k: how many of the likeliest tokens each step reports for a position; 0 reports none.
        banned_tokens: token ids that never appear, not even as noise; only a pinned one stays.
        decoder: a name of ``decoders.DECODERS`` that the model's family has; "" takes the family's own.
        image_tokens: the most tokens that an image of the prompt becomes, one of ``IMAGE_TOKENS``.
    """

    thinking_tokens: Annotated[
        int | None,
        whole(0, MAX_POSITIONS),
        Setting("Thinking", "tokens", "The longest thought. For models that think.", 1, 65536, 256, none="No limit"),
    ] = None
    max_new_tokens: Annotated[
        int,
        whole(1, MAX_POSITIONS),
        Setting("Length", "tokens", "The longest answer, rounded up to whole blocks.", 1, 65536, 64, rank=5),
        CliOption("--max-new-tokens", "most tokens to write, rounded up to whole canvases"),
    ] = 256
    eos_token_ids: Tokens = (1, 106, 50)
    pad_token_id: Token = 0
    canvas_length: Annotated[
        int | None,
        whole(1, MAX_CANVAS),
        CliOption("--canvas-length", "tokens in a canvas (default: the model's own)", "canvas_length"),
    ] = None
    smallest_canvas: Annotated[
        int | None,
        whole(1, MAX_CANVAS),
        CliOption(
            "--smallest-canvas",
            "give an answer of few new tokens a canvas of N tokens, or 2, 4, 8 … times N (default: the model's own; "
            "64 if the answer's format bounds its length)",
            "min_canvas_length",
        ),
    ] = None
    pinned: tuple[tuple[int, int], ...] = ()
    top_k: Annotated[int, whole(0, 64)] = 0
    banned_tokens: Tokens = ()
    decoder: Annotated[
        str,
        _check_decoder,
        Choice("Decoding", "How the model writes its answer.", ()),  # the loaded model gives the options
        CliOption("--decoder", "how the text is written; an unknown name lists the model's decoders", is_decoding=True),
    ] = ""
    image_tokens: Annotated[int, one_of(IMAGE_TOKENS)] = 280

    def __post_init__(self) -> None:
        check_real("t_min", self.t_min, 0.0, exclusive=True)  # first: t_max may have been lowered to it
        check_fields(self)
        if self.t_max < self.t_min:
            raise SafelightError(f"t_max ({self.t_max}) must not be below t_min ({self.t_min})")
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
        return self.denoises and not self.token_thoughts

    @property
    def denoises(self) -> bool:
        """True if some blocks begin as uniform noise."""
        return self.decoder in ("", BLOCK_DIFFUSION)

    @property
    def grows(self) -> bool:
        """True if some blocks do not begin as uniform noise, and all of these hold growing text."""
        return able(self.decoder, "grows") or (self.denoises and self.token_thoughts)

    @property
    def has_equal_blocks(self) -> bool:
        """True if all canvases of a run have one length."""
        return self.smallest_canvas is None

    def canvas(self, model_canvas: int, written: int = 0) -> int:
        """Returns the tokens of a run's first canvas, for a model whose own have ``model_canvas``; none later has more.

        An end token takes no place of its own: a text of that many tokens is cut by its length.

        Args:
            written: tokens of the text before the canvas, whose length is returned in place of the first one's.
        """
        size = self.smallest_canvas
        if self.canvas_length or size is None or not self.is_block_diffusion:
            return self.canvas_length or model_canvas
        pins = max((position + 1 for position, _ in self.pinned), default=0)
        while size < min(max(self.max_new_tokens - written, pins), model_canvas):
            size *= 2
        return min(size, model_canvas)

    def for_format(self, model_canvas: int) -> GenerationConfig:
        """Returns settings with small canvases, where an answer in a format takes a processor less time.

        Args:
            model_canvas: tokens of the model's canvas.
        """
        if self.canvas_length or self.pinned or not self.is_block_diffusion:
            return self
        return self.replace(canvas_length=min(SMALLEST_CANVAS, self.canvas(model_canvas)))

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


def _drawing(raw: dict[str, Any]) -> dict[str, Any]:
    """Reads the settings for drawing tokens as transformers has them. Its ``top_k`` is ``sampling_top_k`` here."""
    known = {f"sampling_{name}": raw[name] for name in ("top_k", "top_p", "min_p") if raw.get(name) is not None}
    if raw.get("do_sample") is True:
        known["sampling_temperature"] = 1.0 if raw.get("temperature") is None else raw["temperature"]
    elif known or not {"do_sample", "temperature"}.isdisjoint(raw):  # transformers samples only if do_sample is set
        known["sampling_temperature"] = 0.0
    penalty = raw.get("repetition_penalty")
    return known if penalty is None else known | {"repetition_penalty": penalty}


def _check_pinned(pinned: Any) -> None:
    pairs = isinstance(pinned, tuple) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in pinned)
    if not pairs or len(pinned) > MAX_CANVAS:
        raise SafelightError(f"pinned must be a tuple of (position, token id) pairs, not {quoted(pinned)}")
    for position, token in pinned:
        check_whole("a pinned position", position, 0, MAX_CANVAS - 1)
        check_whole("a pinned token", token, 0, MAX_VOCABULARY)
    if len(dict(pinned)) < len(pinned):
        raise SafelightError("a position is pinned twice; pin each one once")
