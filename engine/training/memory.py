"""Estimates the memory that training an adapter takes besides the model, from shapes only, before loading."""

from __future__ import annotations

import torch

from engine import catalog
from engine.adapters.lora import size_of
from engine.config import LayerConfig, ModelConfig
from engine.errors import SafelightError
from engine.models.diffusion_gemma.config import TARGETS
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.models.folder import ModelFolder
from engine.training.adapter import AdapterRecipe, AdapterRun
from engine.training.loss import PIECE

PROMPT = 160  # maximum tokens of a puzzle in a chat template


def adapter_parameters(config: ModelConfig, recipe: AdapterRecipe) -> int:
    """Counts the numbers in the adapter's matrices."""
    with torch.device("meta"):
        network = DiffusionGemma(config)
    layers = TARGETS.layers(network).items()
    return recipe.rank * sum(sum(size_of(layer)) * len(TARGETS.modes_of(path)) for path, layer in layers)


def training_bytes(config: ModelConfig, recipe: AdapterRecipe, itemsize: int) -> int:
    """Returns the bytes of a step besides the weights: matrices with their moments, activations, logits.

    Args:
        itemsize: bytes of a number in the activations.
    """
    copies = 4 * 4 + (2 * itemsize if itemsize < 4 else 0)  # values, gradients and two moments
    canvas, length = config.canvas_length, PROMPT + config.canvas_length
    stream = config.hidden_size * itemsize

    def layer_bytes(layer: LayerConfig) -> int:
        """Returns the bytes that backward needs of one layer's pass over a canvas, or over a prompt with its answer."""
        heads = config.num_attention_heads
        attention = heads * length * (length + canvas) * (8 + itemsize) + 6 * length * heads * layer.head_dim * itemsize
        experts = min(config.num_experts, config.top_k_experts) * (4 * config.moe_intermediate_size * itemsize + stream)
        return attention + length * (experts + 12 * max(stream, 4 * config.hidden_size) + 4 * config.intermediate_size)

    kept = sum(2 * layer.num_key_value_heads * layer.head_dim * itemsize * (length + canvas) for layer in config.layers)
    if recipe.recompute:
        kept += len(config.layers) * (length + canvas) * stream + max(map(layer_bytes, config.layers))
    else:
        kept += sum(map(layer_bytes, config.layers))
    pieces = PIECE if recipe.recompute else recipe.batch * canvas
    logits = 4 * 5 * pieces * config.vocab_size
    return adapter_parameters(config, recipe) * copies + recipe.batch * kept + logits


def require_training_memory(run: AdapterRun) -> tuple[int, int]:
    """Checks that a run fits, before it loads anything.

    Returns:
        The bytes that it takes, and the bytes that are free.

    Raises:
        SafelightError: it does not fit, with advice on what to change; or the family has no denoising steps.
    """
    folder = ModelFolder.open(catalog.resolve(run.model))
    config = folder.config
    if not config.denoises:
        raise SafelightError(f"{folder.path} has no denoising steps to train an adapter for; use a DiffusionGemma")
    context = min(PROMPT + config.canvas_length, config.max_position_embeddings)
    plan = folder.plan(context, run.quantization, run.device, run.dtype)
    itemsize = getattr(torch, plan.dtype).itemsize
    for_training = training_bytes(config, run.recipe, itemsize)
    total = plan.total_bytes + for_training
    if total > plan.free_bytes:
        smaller = "" if plan.precision.is_packed else " pack the model first (safelight quantize),"
        raise SafelightError(
            f"training takes about {total / 1e9:.1f} GB ({plan.total_bytes / 1e9:.1f} for the model, "
            f"{for_training / 1e9:.1f} for the step) and {plan.device} has {plan.free_bytes / 1e9:.1f} GB free;"
            f"{smaller} use a smaller batch than {run.recipe.batch}, or close other programs"
        )
    return total, plan.free_bytes
