"""Writes a GGUF file with the matrices of DiffusionGemma and random weights, for llama.cpp to be timed with.

``uv run python packaging/peers/shape_gguf.py OUT.gguf [--shape 26b-a4b] [--layers N]``. As published llama.cpp has no
DiffusionGemma, the file is one of Gemma 4, whose layers have the same matrices. It lacks what belongs to denoising: the
self-conditioning block and the scalars of the other mode. The experts are in Q4_0, whose groups and bits are those of
our int4; the other matrices in Q8_0, where ours has int8. The 26B takes 15.4 GB.
"""

from __future__ import annotations

import argparse
import dataclasses
import shutil
import sys
from functools import cache
from pathlib import Path

import numpy as np
import torch
from gguf import GGMLQuantizationType as Kind
from gguf import GGUFWriter, LlamaFileType
from numpy.typing import NDArray

from engine import SafelightError, catalog
from engine.config import ModelConfig
from engine.models.diffusion_gemma.gguf import tensor_name
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.models.folder import ModelFolder
from engine.models.gguf_description import ROPE

ARCHITECTURE = "gemma4"
LEFT_OUT = ("self_cond", "enc_layer_output_scale")  # of the denoising mode
BLOCK = {Kind.Q4_0: 16, Kind.Q8_0: 32}  # bytes of the codes of 32 weights; a scale of 2 bytes stands before them
SPREAD = {Kind.Q4_0: 4.6, Kind.Q8_0: 73.9}  # standard deviation of random codes


def kind_of(name: str, dimensions: int) -> Kind:
    if "_exps.weight" in name:
        return Kind.Q4_0
    return Kind.F32 if dimensions < 2 or "ffn_gate_inp" in name else Kind.Q8_0


@cache  # layers share their values, so that memory holds one of each shape
def random_blocks(shape: tuple[int, ...], kind: Kind) -> NDArray[np.uint8]:
    """Returns random weights of a shape (..., in), of variance 1 / in; the last dimension is in bytes."""
    blocks = np.random.default_rng(0).integers(0, 256, (*shape[:-1], shape[-1] // 32, 2 + BLOCK[kind]), np.uint8)
    scale = np.array([shape[-1] ** -0.5 / SPREAD[kind]], np.float16)
    blocks[..., :2] = scale.view(np.uint8)
    return blocks.reshape(*shape[:-1], -1)


def tensors(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the file's tensors by name; rows first, as torch has them."""
    with torch.device("meta"):
        network = DiffusionGemma(dataclasses.replace(config, vision=None))
    found = {tensor_name(name): tuple(weight.shape) for name, weight in network.state_dict().items()}
    return {name: shape or (1,) for name, shape in found.items() if not any(part in name for part in LEFT_OUT)}


def write(path: Path, config: ModelConfig) -> None:
    """Writes the file.

    Raises:
        SafelightError: the disk has no room for it, or a row is not a whole number of blocks.
    """
    shapes = tensors(config)
    numbers = {name: int(np.prod(shape)) for name, shape in shapes.items()}
    kinds = {name: kind_of(name, len(shape)) for name, shape in shapes.items()}
    for name, kind in kinds.items():
        if kind in BLOCK and shapes[name][-1] % 32:
            raise SafelightError(f"{name} has rows of {shapes[name][-1]} weights, which is no multiple of 32")
    size = sum(count * (2 + BLOCK[kinds[n]]) // 32 if kinds[n] in BLOCK else 4 * count for n, count in numbers.items())
    if shutil.disk_usage(path.resolve().parent).free < 1.05 * size:
        raise SafelightError(f"{path} takes {size / 1e9:.1f} GB, for which its disk has no room")
    writer = GGUFWriter(path, ARCHITECTURE)
    write_keys(writer, config)
    for name, shape in shapes.items():
        if kinds[name] in BLOCK:
            writer.add_tensor(name, random_blocks(shape, kinds[name]), raw_dtype=kinds[name])
        elif len(shape) > 1:
            drawn = np.random.default_rng(0).standard_normal(shape, np.float32) * shape[-1] ** -0.5
            writer.add_tensor(name, drawn.astype(np.float32))
        else:
            writer.add_tensor(name, np.ones(shape, np.float32))
    full = next(layer for layer in config.layers if not layer.is_sliding)
    pairs = np.full(full.head_dim // 2, 1e30, np.float32)
    pairs[: int(len(pairs) * full.partial_rotary_factor)] = 1.0
    writer.add_tensor(ROPE, pairs)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_keys(writer: GGUFWriter, config: ModelConfig) -> None:
    sliding, full = (next(layer for layer in config.layers if layer.is_sliding is kind) for kind in (True, False))
    writer.add_file_type(LlamaFileType.MOSTLY_Q4_0)  # the name that llama-bench prints
    writer.add_tokenizer_model("no_vocab")
    writer.add_vocab_size(config.vocab_size)
    writer.add_block_count(len(config.layers))
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv([layer.num_key_value_heads for layer in config.layers])
    writer.add_sliding_window(config.sliding_window)
    writer.add_sliding_window_pattern([layer.is_sliding for layer in config.layers])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_final_logit_softcapping(config.final_logit_softcapping)
    writer.add_expert_count(config.num_experts)
    writer.add_expert_used_count(config.top_k_experts)
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    writer.add_uint32(f"{ARCHITECTURE}.embedding_length_per_layer_input", 0)
    for suffix, layer in (("", full), ("_swa", sliding)):
        for part in ("attention.key_length", "attention.value_length", "rope.dimension_count"):
            writer.add_uint32(f"{ARCHITECTURE}.{part}{suffix}", layer.head_dim)
        writer.add_float32(f"{ARCHITECTURE}.rope.freq_base{suffix}", layer.rope_theta)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT.gguf")
    parser.add_argument("--shape", default="26b-a4b", metavar="ID_OR_DIR", help="(default: 26b-a4b)")
    parser.add_argument("--layers", type=int, metavar="N", help="the first N layers alone, to try it with")
    options = parser.parse_args()
    try:
        config = ModelFolder.open(catalog.resolve(options.shape, shapes=True)).config
        if options.layers is not None:
            config = dataclasses.replace(config, layers=config.layers[: options.layers])
        write(options.out, config)
    except (SafelightError, OSError, StopIteration) as error:
        print(f"shape_gguf: {error or 'take so many layers that both kinds are among them'}", file=sys.stderr)
        return 2
    print(f"{options.out}: {options.out.stat().st_size / 1e9:.2f} GB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
