"""The calls whose times ``products`` takes: each is the engine's own code on made-up numbers of a size.

A maker takes inputs and outputs of a matrix and returns a function of the rows, which returns the call. Calls with
weights go round several copies, since a model's next matrix is never in the nearest cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import cycle
from typing import Any, cast

import torch
from torch import Tensor, nn

from engine.benchmarks.measuring import bytes_of
from engine.benchmarks.random_network import randomised
from engine.config import GenerationConfig, LayerConfig, ModelConfig
from engine.decoding.drawing import Drawing
from engine.decoding.sampler import Sampler
from engine.kernels import cpu, cpu_vocabulary, cpu_w4a8, measured
from engine.layers.adapted import linear
from engine.layers.packed_linear import PackedLinear, PackedWeight, for_processor
from engine.memory.device import Placement
from engine.memory.reference_pass import (
    CHOSEN,
    EXPERTS,
    HEAD,
    LAYERS,
    TEXT,
    WINDOW,
    Family,
    Kind,
    expert_width,
    key_heads,
)
from engine.models.causal.config import CausalConfig
from engine.models.causal.network import CausalNetwork
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.quant import INT4, INT8, UINT4, Packed, Precision, Scheme

Call = Callable[[], object]
OfRows = Callable[[int], Call]
Make = Callable[[int, int], OfRows]

COPIES_BYTES, MOST_COPIES = 1 << 27, 32  # of the copies of a matrix together: more than most caches hold
STACK, OF_TOKEN = 16, 8  # experts of a stack, and of a token
FEW_LAYERS = 4  # of a network whose products are left out
SMALL = 0.01  # of what stands for weights and activations; its products stay finite in every number type


def unpacked(dtype: torch.dtype) -> Make:
    """Returns a maker of products with plain matrices."""

    def make(inputs: int, outputs: int) -> OfRows:
        def matrix() -> nn.Linear:
            weight = nn.Parameter(torch.full((outputs, inputs), SMALL, dtype=dtype), requires_grad=False)
            layer = nn.Linear(1, 1, bias=False)
            layer.weight = weight
            return layer

        return _by_layers(_copies(matrix), inputs, dtype)

    return make


def packed(scheme: Scheme, limits: dict[str, int] | None = None) -> Make:
    """Returns a maker of products with packed weights, as loaded models have them.

    limits: set by ``measured.forced``, for the product that is meant.
    """

    def make(inputs: int, outputs: int) -> OfRows:
        return _by_layers(_copies(lambda: _layer(scheme, (outputs, inputs))), inputs, torch.bfloat16, limits)

    return make


def _by_layers(
    layers: Iterator[nn.Module], inputs: int, dtype: torch.dtype, limits: dict[str, int] | None = None
) -> OfRows:
    def of_rows(rows: int) -> Call:
        x = torch.full((1, rows, inputs), SMALL, dtype=dtype)

        def call() -> Tensor:
            with measured.forced(limits) if limits is not None else nullcontext():
                return linear(next(layers), x, 0)

        return call

    return of_rows


def by_our_int4(scheme: Scheme) -> Make:
    """Returns a maker of products by the kernel in C, rounding of the activations included."""

    def make(inputs: int, outputs: int) -> OfRows:
        weights = _copies(lambda: _weight(scheme, (1, outputs, inputs)))

        def of_rows(rows: int) -> Call:
            x = torch.full((rows, inputs), SMALL, dtype=torch.bfloat16)
            return lambda: cpu_w4a8.multiply(cpu_w4a8.rounded(x, scheme.group_size), next(weights), 0, [rows])

        return of_rows

    return make


def experts(scheme: Scheme) -> Make:
    """Returns a maker of passes through ``STACK`` experts (outputs: gate, up and down), ``rows`` rows for each."""

    def make(inputs: int, outputs: int) -> OfRows:
        inner = outputs // 3
        gate_up, down = (_weight(scheme, shape) for shape in ((STACK, 2 * inner, inputs), (STACK, inputs, inner)))

        def of_rows(rows: int) -> Call:
            tokens = rows * STACK // OF_TOKEN
            x = torch.full((tokens, inputs), SMALL, dtype=torch.bfloat16)
            chosen = (torch.arange(tokens)[:, None] % 2 * OF_TOKEN + torch.arange(OF_TOKEN)) % STACK
            weights = torch.full(chosen.shape, 1 / OF_TOKEN)
            return lambda: cpu.experts(x, weights, chosen, gate_up, down)

        return of_rows

    return make


def attention(dtype: torch.dtype) -> Make:
    """Returns a maker of attention to ``inputs`` keys, with heads of ``outputs`` numbers together, two to a key's."""

    def make(inputs: int, outputs: int) -> OfRows:
        shape = 1, key_heads(outputs // HEAD), inputs, HEAD
        keys = _copies(lambda: torch.full(shape, SMALL, dtype=dtype))

        def of_rows(rows: int) -> Call:
            queries = torch.full((1, outputs // HEAD, rows, HEAD), SMALL, dtype=dtype)
            return lambda: cpu.attend(queries, next(keys), next(keys), None)

        return of_rows

    return make


def vocabulary(inputs: int, outputs: int) -> OfRows:
    """Makes vocabulary stages of a step program, with an int8 table of ``outputs`` tokens."""
    table = _weight(INT8, (outputs, inputs))

    def of_rows(rows: int) -> Call:
        hidden = torch.full((rows, inputs), SMALL, dtype=torch.bfloat16)
        settings: dict[str, Any] = {"temperature": torch.ones(1), "draw": torch.tensor([1, 1])}
        return lambda: cpu_vocabulary.vocabulary_stage(hidden, table, **settings, cap=30.0, embed_scale=1.0)

    return of_rows


def sampler(_inputs: int, outputs: int) -> OfRows:
    """Makes what a plain denoising step does with its logits, products left out."""

    def of_rows(rows: int) -> Call:
        config = GenerationConfig()
        shape = replace(reference_config("diffusion", HEAD, 2), vocab_size=outputs, canvas_length=rows)
        made = Sampler.from_settings(shape, config, torch.device("cpu"), 0)
        logits, canvas, kept = _logits(rows, outputs), torch.zeros(rows, dtype=torch.long), torch.zeros(rows) > 0

        def call() -> object:
            scaled = made.scale(torch.tanh(logits / 30.0) * 30.0, 0.8, 0, 1)
            found, accepted, _ = made.step(scaled, canvas, kept, 1)
            made.stop([found.argmax], found.entropy)
            return accepted, torch.softmax(scaled, dim=-1)

        return call

    return of_rows


def drawing(_inputs: int, outputs: int) -> OfRows:
    """Makes draws of a token from logits of each row."""

    def of_rows(rows: int) -> Call:
        config = GenerationConfig().replace(sampling_temperature=0.7, sampling_top_p=0.9, repetition_penalty=1.1)
        made, logits = Drawing(config, outputs, torch.device("cpu"), 0), _logits(rows, outputs)

        def call() -> object:
            drawn = made.draw(made.allowed(logits))
            return made.predicted(logits, drawn)

        return call

    return of_rows


def rest_of(family: Family, dtype: torch.dtype) -> Make:
    """Returns a maker of passes through the layers of a reference network without their products and attention."""

    def make(inputs: int, _outputs: int) -> OfRows:
        with torch.device("meta"):  # its matrices would take a second to fill, and are dropped
            built = _build(reference_config(family, inputs, FEW_LAYERS))
        network = _without_products(built, dtype)
        return lambda rows: _pass(network, rows, 0, dtype, _NoAttention())

    return make


def layers_of(family: Family, kind: Kind) -> Make:
    """Returns a maker of passes through the layers of a reference network."""

    def make(inputs: int, _outputs: int) -> OfRows:
        precision, dtype = reference_precision(family, kind)
        made = _filled(reference_config(family, inputs), precision, dtype)
        return lambda rows: _pass(made, rows, TEXT, dtype, None)

    return make


def few_rows(kind: str) -> Make:
    """Returns a maker of passes of few rows through all layers of a causal reference network, without its head."""
    return lambda inputs, _outputs: _few(kind, inputs, TEXT)


def few_keys(inputs: int, outputs: int) -> OfRows:
    """Makes passes of few rows behind ``inputs`` tokens, through layers whose heads have ``outputs`` numbers."""
    return _few("int4", outputs, inputs)


def _few(kind: str, hidden: int, length: int) -> OfRows:
    scheme, dtype = (UINT4, torch.float32) if kind == "int4" else (INT8, torch.bfloat16)
    config = reference_config("causal", hidden, FEW_LAYERS)
    made = cast(CausalNetwork, _filled(config, Precision(attention=scheme, dense=scheme), dtype))
    text = made.new_cache()
    made.prefill(torch.zeros(length, dtype=torch.long), text)
    return lambda rows: lambda: made.decode(torch.zeros(rows, dtype=torch.long), text, 0, rows)


def _filled(config: ModelConfig, precision: Precision, dtype: torch.dtype) -> CausalNetwork | DiffusionGemma:
    """Builds a network of a shape with random weights, arranged as loaded ones are."""
    with torch.device("meta"):
        network = _build(config)
    made = randomised(network, precision, Placement(torch.device("cpu"), dtype, "measured"))
    for_processor(made, torch.bfloat16)
    return made


def reference_precision(family: Family, kind: Kind) -> tuple[Precision, torch.dtype]:
    """Returns how the weights of a reference network are packed, and the type of its activations."""
    if kind != "4 bits":
        return Precision(), torch.bfloat16 if kind == "bf16" else torch.float32
    if family == "causal":  # as in GGUF files
        return Precision(attention=UINT4, dense=UINT4), torch.float32
    return Precision(experts=INT4, attention=INT8, dense=INT8), torch.bfloat16


def reference_config(family: Family, hidden: int, layers: int = LAYERS) -> ModelConfig:
    """Returns the shape whose work ``reference_work`` is."""
    heads = hidden // HEAD
    full = LayerConfig("full_attention", HEAD, key_heads(heads), 10_000.0, 1.0)
    if family == "causal":
        return CausalConfig(HEAD, hidden, 3 * hidden, heads, (full,) * layers, 1, 0, 0, 0, 1, 4096, tied=True)
    near = replace(full, kind="sliding_attention")
    own = (near, replace(full, num_key_value_heads=1)) * (layers // 2)
    experts = EXPERTS, CHOSEN, expert_width(hidden)
    return ModelConfig(HEAD, hidden, hidden, heads, own, WINDOW, *experts, 1, 4096)


def _build(config: ModelConfig) -> CausalNetwork | DiffusionGemma:
    return CausalNetwork(config) if isinstance(config, CausalConfig) else DiffusionGemma(config)


def _pass(network: CausalNetwork | DiffusionGemma, rows: int, text: int, dtype: torch.dtype, mask: Any) -> Call:
    """Returns a pass of so many rows behind so many tokens. ``mask`` stands for that of every layer."""
    places, kept = torch.arange(text, text + rows), network.new_cache()
    if text:
        network.prefill(torch.zeros(text, dtype=torch.long), kept)
    if isinstance(network, CausalNetwork):
        ids = torch.zeros(1, rows, dtype=torch.long)
        return lambda: network.run(ids, places, mask, kept, mask)
    x = torch.full((1, rows, network.config.hidden_size), SMALL, dtype=dtype)
    masks = dict.fromkeys(("sliding_attention", "full_attention"), mask)
    writers = [kept.writer(index) for index in range(len(network.layers))]
    return lambda: network.run(x, places, masks, writers)


class _Still(nn.Module):
    """Stands for a linear layer: returns numbers of its outputs without a product."""

    def __init__(self, outputs: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.outputs, self.dtype = outputs, dtype
        self.held = torch.zeros(0)

    def forward(self, x: Tensor, *_: object) -> Tensor:
        if self.held.shape[:-1] != x.shape[:-1]:
            self.held = torch.full((*x.shape[:-1], self.outputs), SMALL, dtype=self.dtype)
        return self.held


class _NoAttention:
    """Stands for a mask: returns the queries in place of what they attend to."""

    def attend(self, queries: Tensor, _keys: Tensor, _values: Tensor) -> Tensor:
        return queries.transpose(1, 2).flatten(2)


def _without_products(network: Any, dtype: torch.dtype) -> Any:
    for path, module in list(network.layers.named_modules()):
        parent, _, name = path.rpartition(".")
        if isinstance(module, nn.Linear):
            setattr(network.layers.get_submodule(parent), name, _Still(module.out_features, dtype))
        elif name == "experts":
            setattr(network.layers.get_submodule(parent), name, _Still(network.config.hidden_size, dtype))
    made = network.to_empty(device="cpu").to(dtype).requires_grad_(False).eval()
    for parameter in made.parameters():
        parameter.data.fill_(1.0 if parameter.dim() == 1 else SMALL)
    return made


def _logits(rows: int, tokens: int) -> Tensor:
    return 4.0 * torch.randn(rows, tokens, generator=torch.Generator().manual_seed(0))


def _layer(scheme: Scheme, shape: tuple[int, ...]) -> PackedLinear:
    """Returns a packed layer, arranged as the processor's kernels read it; codes and scales are all alike."""
    layer = PackedLinear(PackedWeight(shape, scheme, "a product"))
    weight = layer.weight
    weight.codes.fill_(17)
    groups = shape[-1] // (scheme.group_size or shape[-1])
    weight.scales.copy_(scheme.store_scales(torch.full((*shape[:-1], groups), SMALL)))
    for_processor(layer, torch.bfloat16)
    return layer


def _weight(scheme: Scheme, shape: tuple[int, ...]) -> Packed:
    return _layer(scheme, shape).weight.packed


def _copies(make: Callable[[], Any]) -> Iterator[Any]:
    """Yields some copies in turn, for ever."""
    first = make()
    size = (
        first.nbytes
        if isinstance(first, Tensor)
        else first.codes.nbytes
        if isinstance(first, Packed)
        else bytes_of(first)
    )
    return cycle([first, *(make() for _ in range(min(MOST_COPIES, COPIES_BYTES // size) - 1))])
