"""Random tiny models in transformers, our reference implementation, and their checkpoints on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import DiffusionGemmaConfig, DiffusionGemmaForBlockDiffusion, DynamicCache
from transformers.utils import logging

from engine.models.vision.reader import Patches
from tests.engine.small import write_tokenizer

logging.disable_progress_bar()  # the bar of save_pretrained leaves a thread behind

VOCABULARY = 128
# transformers' default vision tower has 670 MB; this one has a few KB.
VISION = {
    "model_type": "gemma4_vision",
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "patch_size": 2,
    "position_embedding_size": 210,
    "standardize": True,
}
IMAGE_IDS = {"boi_token_id": 120, "image_token_id": 121, "eoi_token_id": 122}
TEXT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "global_head_dim": 16,
    "num_global_key_value_heads": 1,
    "sliding_window": 20,
    "num_experts": 4,
    "top_k_experts": 2,
    "moe_intermediate_size": 16,
    "max_position_embeddings": 512,
    "use_bidirectional_attention": "vision",
}


@dataclass(frozen=True)
class Shape:
    """A tiny model: what differs from ``TEXT``, and the text it is tried on."""

    text: dict[str, Any] = field(default_factory=dict)
    canvas_length: int = 12
    prompt_length: int = 9
    sharpness: float = 1.0  # scale of the final norm: above 1 the logits grow and the entropy falls
    # Scale of the self-conditioning signal. At full strength a random model is chaotic: over the steps of a block a
    # rounding difference grows by a factor of about ten each. Whole generations are compared at a tenth.
    conditioning: float = 1.0


def build(shape: Shape, seed: int) -> DiffusionGemmaForBlockDiffusion:
    """A model all of whose weights are random, with another ``layer_scalar`` a layer and a mode."""
    config = DiffusionGemmaConfig(
        text_config={**TEXT, **shape.text}, vision_config=dict(VISION), canvas_length=shape.canvas_length, **IMAGE_IDS
    )
    model = DiffusionGemmaForBlockDiffusion(config).eval()
    randomise(model, seed)
    with torch.no_grad():
        model.model.decoder.norm.weight.mul_(shape.sharpness)
        model.model.decoder.self_conditioning.down_proj.weight.mul_(shape.conditioning)
    return model


@torch.no_grad()
def randomise(model: DiffusionGemmaForBlockDiffusion, seed: int) -> None:
    """Matrices with variance 1 / fan-in, norms and scales around 1, layer scalars between 0.6 and 1.4."""
    encoder = model.model.encoder
    draws = torch.Generator().manual_seed(seed)
    for module in (encoder.language_model, model.model.decoder, encoder.vision_tower, encoder.embed_vision):
        randomise_module(module, draws)


@torch.no_grad()
def randomise_module(module: nn.Module, draws: torch.Generator) -> None:
    """Draws the weights of one part as ``randomise`` does."""
    for name, tensor in module.state_dict(keep_vars=True).items():
        if name.endswith("layer_scalar"):
            tensor.uniform_(0.6, 1.4, generator=draws)
        elif "inv_freq" in name or "embed_scale" in name:
            continue
        elif tensor.dim() > 1:
            tensor.normal_(std=tensor.shape[-1] ** -0.5, generator=draws)
        else:
            tensor.normal_(mean=1.0, std=0.3, generator=draws)


def save(model: DiffusionGemmaForBlockDiffusion, folder: Path, shard_size: str = "1GB") -> Path:
    """Write a checkpoint as transformers does, with our test tokenizer and its chat template."""
    model.save_pretrained(folder, max_shard_size=shard_size)
    write_tokenizer(folder)
    return folder


class Reference:
    """The model's two modes as transformers computes them, on one sequence."""

    def __init__(self, model: DiffusionGemmaForBlockDiffusion) -> None:
        self.model = model
        self.cache = DynamicCache(config=model.config.get_text_config(decoder=True))

    @torch.no_grad()
    def prefill(self, ids: Tensor) -> Tensor:
        found: Tensor = self.model.model.encoder(input_ids=ids[None], past_key_values=self.cache).last_hidden_state[0]
        return found

    @torch.no_grad()
    def prefill_images(self, ids: Tensor, images: dict[str, Tensor]) -> Tensor:
        """Reads a whole prompt with images; see ``image_inputs``.

        The masks are given as ``generate`` gives them: without, the encoder's ``forward`` drops those of images.
        """
        encoder = self.model.model.encoder
        masks = encoder.create_masks_for_generate(
            config=self.model.config,
            inputs_embeds=torch.empty(1, len(ids), 0),
            attention_mask=None,
            past_key_values=self.cache,
            position_ids=torch.arange(len(ids))[None],
            mm_token_type_ids=images["mm_token_type_ids"],
        )
        found: Tensor = encoder(
            input_ids=ids[None],
            pixel_values=images["pixel_values"],
            image_position_ids=images["image_position_ids"],
            attention_mask=masks,
            past_key_values=self.cache,
        ).last_hidden_state[0]
        return found

    @torch.no_grad()
    def denoise(self, canvas: Tensor, conditioning: Tensor | None = None) -> Tensor:
        logits: Tensor = self.model(
            decoder_input_ids=canvas[None],
            past_key_values=self.cache,
            self_conditioning_logits=None if conditioning is None else conditioning[None],
        ).logits[0]
        return logits


def image_inputs(ids: Tensor, images: Sequence[Patches]) -> dict[str, Tensor]:
    """Makes what transformers' processor does of a prompt (T,) with images: patches and their places, padded."""
    most = max(len(image.values) for image in images)
    pixels, places = torch.zeros(len(images), most, images[0].values.shape[1]), torch.full((len(images), most, 2), -1)
    for number, image in enumerate(images):
        pixels[number, : len(image.values)] = image.values
        grid = torch.cartesian_prod(torch.arange(image.rows), torch.arange(image.columns)).flip(-1)
        places[number, : len(grid)] = grid
    is_image = (ids == IMAGE_IDS["image_token_id"]).long()[None]
    return {"pixel_values": pixels, "image_position_ids": places, "mm_token_type_ids": is_image}
