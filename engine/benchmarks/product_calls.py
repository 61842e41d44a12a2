"""The calls whose times ``products`` takes: each is the engine's own code on made-up numbers of a size.

A maker takes inputs and outputs of a matrix and returns a function of the rows, which returns the call. Calls with
weights go round several copies, since a model's next matrix is never in the nearest cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import cycle
from typing import Any

import torch
from torch import Tensor, nn

from engine.benchmarks.measuring import bytes_of
from engine.config import GenerationConfig, LayerConfig, ModelConfig
from engine.decoding.drawing import Drawing
from engine.decoding.sampler import Sampler
from engine.kernels import cpu, cpu_vocabulary, cpu_w4a8, measured
from engine.layers.adapted import linear
from engine.layers.packed_linear import PackedLinear, PackedWeight, for_processor
from engine.models.causal.config import CausalConfig
from engine.models.causal.network import CausalNetwork
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.quant import INT8, Packed, Scheme

Call = Callable[[], object]
OfRows = Callable[[int], Call]
Make = Callable[[int, int], OfRows]

COPIES_BYTES, MOST_COPIES = 1 << 25, 16  # of the copies of a matrix together, if one is not larger than that
HEAD = 64  # numbers of a head
EXPERTS, CHOSEN = 16, 8  # of a stack, and of a token
LAYERS = 4  # of a network whose products are left out
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
    """Returns a maker of passes through ``EXPERTS`` experts (outputs: gate, up and down), ``rows`` rows for each."""

    def make(inputs: int, outputs: int) -> OfRows:
        inner = outputs // 3
        gate_up, down = (_weight(scheme, shape) for shape in ((EXPERTS, 2 * inner, inputs), (EXPERTS, inputs, inner)))

        def of_rows(rows: int) -> Call:
            tokens = rows * EXPERTS // CHOSEN
            x = torch.full((tokens, inputs), SMALL, dtype=torch.bfloat16)
            chosen = (torch.arange(tokens)[:, None] % 2 * CHOSEN + torch.arange(CHOSEN)) % EXPERTS
            weights = torch.full(chosen.shape, 1 / CHOSEN)
            return lambda: cpu.experts(x, weights, chosen, gate_up, down)

        return of_rows

    return make


def attention(dtype: torch.dtype) -> Make:
    """Returns a maker of attention to ``inputs`` keys, with heads of ``outputs`` numbers together, two to a key's."""

    def make(inputs: int, outputs: int) -> OfRows:
        shape = 1, max(1, outputs // HEAD // 2), inputs, HEAD
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
        shape = _diffusion(HEAD, 1, outputs, rows)
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


def rest_of_causal(dtype: torch.dtype) -> Make:
    """Returns a maker of passes through ``LAYERS`` layers without their products and attention."""

    def make(inputs: int, _outputs: int) -> OfRows:
        heads = inputs // HEAD
        layer = LayerConfig("full_attention", HEAD, max(1, heads // 2), 10_000.0, 1.0)
        config = CausalConfig(HEAD, inputs, 3 * inputs, heads, (layer,) * LAYERS, 1, 0, 0, 0, 1, 4096, tied=True)
        network = _without_products(CausalNetwork(config), dtype)

        def of_rows(rows: int) -> Call:
            ids, places, cache = torch.zeros(1, rows, dtype=torch.long), torch.arange(rows), network.new_cache()
            return lambda: network.run(ids, places, _NoAttention(), cache, None)

        return of_rows

    return make


def rest_of_diffusion(dtype: torch.dtype) -> Make:
    """Returns a maker of passes through ``LAYERS`` layers of DiffusionGemma without their products and attention."""

    def make(inputs: int, _outputs: int) -> OfRows:
        network = _without_products(DiffusionGemma(_diffusion(inputs, LAYERS, HEAD, 1)), dtype)

        def of_rows(rows: int) -> Call:
            x, places, cache = (
                torch.full((1, rows, inputs), SMALL, dtype=dtype),
                torch.arange(rows),
                network.new_cache(),
            )
            # an untouched mask: what stands for one takes any place of a mask
            masks: dict[str, Any] = dict.fromkeys(("sliding_attention", "full_attention"), _NoAttention())
            writers = [cache.writer(index) for index in range(LAYERS)]
            return lambda: network.run(x, places, masks, writers)

        return of_rows

    return make


def _diffusion(hidden: int, layers: int, vocabulary: int, canvas: int) -> ModelConfig:
    heads = hidden // HEAD
    kinds = (
        LayerConfig("sliding_attention", HEAD, max(1, heads // 2), 10_000.0, 1.0),
        LayerConfig("full_attention", HEAD, 1, 10_000.0, 0.25),
    )
    own = tuple(kinds[index % 2] for index in range(layers))
    return ModelConfig(vocabulary, hidden, hidden, heads, own, 1024, EXPERTS, CHOSEN, HEAD, canvas, 4096)


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
    return network.to(dtype).requires_grad_(False).eval()


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
