"""Passes of few rows of a causal shape with random weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.cli.main import main
from engine import SafelightError
from engine.benchmarks import decode
from engine.benchmarks.decode import ROWS, measure_decoding
from engine.files import write_json
from engine.memory.device import choose
from engine.models.folder import ModelFolder
from engine.quant import PRECISIONS

RAW = {
    "model_type": "wedlm",
    "mask_token_id": 5,
    "vocab_size": 256,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}


def test_a_shape_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:  # type: ignore[type-arg]
    monkeypatch.setattr(decode, "copy_bandwidth", lambda _: 1e9)
    write_json(tmp_path / "config.json", RAW)
    arguments = ["bench", "--shape", str(tmp_path), "--random-weights", "--device", "cpu"]
    assert main([*arguments, "--context", "20", "--steps", "1", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert [one["rows"] for one in record["passes"]] == list(ROWS)
    assert all(one["ms_median"] > 0 for one in record["passes"])
    layers = 2 * (64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 128) * (4 / 8 + 2 / 32)
    norms, biases, head = 5 * 64 * 2, 2 * (64 + 32 + 32) * 2, 256 * 64 + 2 * 256
    assert record["weight_bytes"] == pytest.approx(layers + norms + biases + head, rel=0.02)
    for more in (["--parallel", "2"], ["--int8", "head"], ["--compare", "transformers"]):
        assert main([*arguments, *more]) == 2
        assert "has no denoising steps; leave out" in capsys.readouterr().err
    opened = ModelFolder.open(tmp_path)
    place = choose("cpu", "bfloat16")
    with pytest.raises(SafelightError, match="the context must be between 0 and 224 tokens"):
        measure_decoding("tiny", opened.family, opened.config, PRECISIONS["none"], place, context=225)
