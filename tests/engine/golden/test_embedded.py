"""The embedded models are DiffusionGemma, all but one: transformers reads their files and computes the same."""

from __future__ import annotations

import json

import pytest
import torch
from transformers import DiffusionGemmaConfig, DiffusionGemmaForBlockDiffusion, PreTrainedTokenizerFast

from engine import EMBEDDED, EmbeddedModel, Fork, Model, StepFinished, fork, load_model
from engine.models.diffusion_gemma.config import PROJECTOR, TOWER, read_config
from engine.weights.safetensors import Checkpoint
from tests.engine.golden.reference import VISION, Reference

TOLERANCE = 1e-3  # logits of a trained model reach 30
PROMPTS = {
    "safelight-gaps": "What is 47 + 38?",
    "safelight-base": "What is 47 + 38?",
    "safelight-sight": "What is 47 + 38?",  # of images: ``test_sight``
    "safelight-mini": "The number is 58.\n\nQuestion: Is the number even?\nAnswer with y or n only.",
    "safelight-sudoku": "\n".join(
        ["530070000", "600195000", "098000060", "800060003", "400803001"] + ["000000000"] * 4
    ),
}


DIFFUSION_GEMMAS = [model for model in EMBEDDED if model.id in PROMPTS]


@pytest.fixture(scope="module", params=DIFFUSION_GEMMAS, ids=lambda embedded: embedded.id)
def embedded(request: pytest.FixtureRequest) -> EmbeddedModel:
    chosen: EmbeddedModel = request.param
    return chosen


@pytest.fixture(scope="module")
def ours(embedded: EmbeddedModel) -> Model:
    return load_model(embedded.id, device="cpu", dtype="float32")


@pytest.fixture(scope="module")
def theirs(embedded: EmbeddedModel) -> DiffusionGemmaForBlockDiffusion:
    """Our files in transformers' model; only the vision tower, which most do not have, keeps its random weights."""
    raw = json.loads((embedded.folder / "config.json").read_text())
    model = DiffusionGemmaForBlockDiffusion(DiffusionGemmaConfig.from_dict({"vision_config": VISION, **raw})).eval()
    left = dict(model.state_dict(keep_vars=True))
    filled = set()
    checkpoint = Checkpoint(embedded.folder)
    for name, header in checkpoint.headers.items():
        assert tuple(left[name].shape) == header.shape
        filled.add(left[name].data_ptr())
        with torch.no_grad():
            left.pop(name).copy_(checkpoint.read(name))
    # Whatever else there is in the model is the vision tower, or tied to a tensor that was filled.
    rest = [name for name, tensor in left.items() if tensor.data_ptr() not in filled]
    assert all(name.startswith((TOWER, PROJECTOR)) for name in rest), rest
    return model


def test_transformers_reads_the_config(embedded: EmbeddedModel, ours: Model) -> None:
    config = DiffusionGemmaConfig.from_pretrained(embedded.folder)
    assert config.canvas_length == ours.config.canvas_length
    # What transformers writes back is what we read in the first place.
    assert read_config(json.loads(config.to_json_string(use_diff=False))) == ours.config


def test_every_step_of_a_generation_gives_the_same_logits(ours: Model, theirs: DiffusionGemmaForBlockDiffusion) -> None:
    ids = ours.chat_ids([{"role": "user", "content": PROMPTS[ours.name]}])
    reference, cache = Reference(theirs), ours.new_cache()
    hidden = ours.prefill(ids, cache)
    assert (reference.prefill(torch.tensor(ids)) - hidden).abs().max() <= TOLERANCE
    canvas = torch.randint(
        ours.config.vocab_size, (ours.config.canvas_length,), generator=torch.Generator().manual_seed(0)
    )
    conditioning = None
    config = ours.generation_defaults.replace(max_denoising_steps=3, max_new_tokens=1)
    begun = (Fork(0, 0, edits=tuple(enumerate(canvas.tolist()))),)
    steps = [event for event in fork(ours, ids, config, 0, [], [], begun) if isinstance(event, StepFinished)]
    for step in steps:
        logits = ours.denoise(canvas, cache, conditioning)
        assert (reference.denoise(canvas, conditioning) - logits).abs().max() <= TOLERANCE, step.step
        assert (logits.argmax(dim=-1).numpy() == step.argmax_canvas).all()
        conditioning = logits / step.temperature
        canvas = torch.from_numpy(step.next_canvas).long()


def test_transformers_tokenizes_as_we_do(embedded: EmbeddedModel, ours: Model) -> None:
    theirs = PreTrainedTokenizerFast.from_pretrained(embedded.folder)
    messages = [{"role": "user", "content": PROMPTS[embedded.id]}]
    ids = ours.chat_ids(messages)
    assert theirs.apply_chat_template(messages, add_generation_prompt=True)["input_ids"] == ids
    assert theirs.decode(ids) == ours.tokenizer.decode(ids, skip_special=False)
