"""SmolLM2 as transformers quantises it with bitsandbytes and saves it: its logits, and its greedy text."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig, PreTrainedModel
from transformers.utils import logging

from engine import load_model
from engine.quant import Precision
from tests.engine.golden.test_bitsandbytes import KINDS
from tests.real import packages
from tests.real.test_gguf_models import CLOSE, LONG, holds_greedy, logits_of, save_folder

pytestmark = pytest.mark.real

logging.disable_progress_bar()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The weights out of the GGUF file in fp32, with their tokenizer."""
    file, made = packages.smollm2_135m(), tmp_path_factory.mktemp("folder")
    theirs = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    save_folder(file, theirs, made)
    return made


@pytest.mark.parametrize("kind", ["nf4, nested", "fp4", "8 bits"])
def test_logits_and_text_are_those_of_transformers(kind: str, folder: Path, tmp_path: Path) -> None:
    settings, scheme = KINDS[kind]
    theirs: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
        folder, quantization_config=BitsAndBytesConfig(**settings), device_map="cpu", dtype=torch.float32
    )
    theirs.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path)
    theirs.train()  # so that the library does not round activations
    ours = load_model(tmp_path, device="cpu", dtype="float32")
    assert ours.precision == Precision(attention=scheme, dense=scheme)
    ids = torch.tensor(ours.tokenizer.encode_prompt(LONG))
    wanted = logits_of(theirs, ids)
    torch.testing.assert_close(ours.decode(ids, ours.new_cache(), 0), wanted, atol=CLOSE, rtol=0)
    for prompt in ("The capital of France is", "def fibonacci(n):\n"):
        assert len(holds_greedy(ours, ours.tokenizer.encode_prompt(prompt), theirs, 16)) == 16
