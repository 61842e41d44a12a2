"""``safelight quantize`` and ``safelight bench --shape`` as their users meet them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

from engine import GAPS, MINI, catalog
from engine.models.diffusion_gemma.config import config_dict
from tests.app.cli.calling import Capture, refused, run
from tests.engine.gguf_files import tiny
from tests.engine.packing import packable


def test_quantize_and_use(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "packed"
    code, out, err = run(capsys, "quantize", MINI, folder, "--to", "nf4", "--device", "cpu", "--json")
    record = json.loads(out)
    assert (code, err) == (0, "")
    assert record["precision"]["experts"] == "nf4-g64"
    assert record["bytes"] == sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    assert record["files"] == len(list(folder.glob("*.safetensors"))) == 7
    code, out, err = run(capsys, "generate", "Spell cat.", "--model", folder, "--device", "cpu", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["text"]
    refused(capsys, "already holds a packed model", "quantize", MINI, folder)


def test_a_gguf_file_is_imported(tmp_path: Path, capsys: Capture) -> None:
    file, folder = tiny(tmp_path / "tiny.gguf", catalog.resolve(GAPS)), tmp_path / "packed"
    code, out, err = run(capsys, "quantize", file, folder, "--tokenizer", GAPS)
    first, second = out.splitlines()
    assert (code, err) == (0, "")
    assert "packed holds tiny with experts in int4-g32: 0.6 MB in" in first
    assert second == "text only: images need the original checkpoint"
    refused(
        capsys, "is a GGUF file; import it first: safelight quantize FILE FOLDER", "generate", "hello", "--model", file
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["quantize", "nowhere.gguf", "packed"], "there is no file nowhere.gguf; give one that exists"),
        (["quantize", MINI, "packed", "--tokenizer", MINI], "--tokenizer is for GGUF files"),
        (["bench", "--shape", "26b-a4b"], "add --random-weights"),
        (["bench", "--shape", "9b", "--random-weights"], "there is no model at 9b"),
        (["bench", "--shape", "26b-a4b", "--random-weights", "--context", "-1"], "the context must be a whole number"),
    ],
)
def test_bad_input(
    arguments: list[str], message: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(capsys, message, *arguments)
    assert not list(tmp_path.iterdir())


def test_too_little_memory_is_said_before(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.memory import plan

    monkeypatch.setattr(plan, "free_bytes", lambda _: 10**9)
    code, out, err = run(capsys, "bench", "--shape", "26b-a4b", "--random-weights", "--device", "cpu")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "26b-a4b needs" in err
    assert "has 1.0 GB free" in err
    monkeypatch.setattr(plan, "free_bytes", lambda _: 30 * 10**9)
    shape = ["bench", "--shape", "26b-a4b", "--random-weights", "--device", "cpu"]
    refused(capsys, "64 runs at once do not fit", *shape, "--parallel", "64")


def test_bench_of_a_small_shape(tmp_path: Path, capsys: Capture) -> None:
    """Also with --json, standard error says what is done; a processor's step may take half a minute."""
    (tmp_path / "config.json").write_text(json.dumps(config_dict(packable().config)))
    shape = ["bench", "--shape", tmp_path, "--random-weights", "--context", 20, "--device", "cpu", "--steps", 2]
    code, out, err = run(capsys, *shape, "--parallel", 2, "--json")
    record = json.loads(out)
    assert (code, out.count("\n")) == (0, 1)
    lines = [line.removeprefix("safelight: ") for line in err.splitlines()]
    assert lines[:2] == ["built 1 of 2 layers", "built 2 of 2 layers"]
    assert lines[2:4] == ["checked its kernels against the oracle", "prefilled 20 tokens"]
    assert [line.rpartition(",")[0] for line in lines[4:6]] == [f"took step {k} of 2, canvas 1 of 1" for k in (1, 2)]
    keys = "device graph plain_reason step_ms_median step_ms_p95 commit_and_step_ms_median prefill_ms parts_ms"
    keys += " oracle_error bandwidth_gb_s floor_share tokens_per_second peak_memory_mb plan_bytes device_memory_mb"
    assert {*keys.split(), "together", "compared"} <= set(record)  # which lists of figures from cards have
    assert [row["runs"] for row in record["together"]] == [1, 2]
    assert 1e-4 < record["oracle_error"]["experts"] < 0.02  # bf16, as a loaded packed model has it
    assert record["plan_bytes"] > 600 * 10**6
    assert (record["context"], record["plain_reason"]) == (20, "the kernels need an NVIDIA GPU")
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)  # fewer are as good as more, and do not wait for each other
    try:
        code, out, _ = run(capsys, *shape, "--context", 8, "--steps", 1, "--threads", before)
        assert (code, torch.get_num_threads()) == (0, before)
    finally:
        torch.set_num_threads(before)
    assert re.search(r"^step ms median +[\d.]+$", out, re.MULTILINE)
    assert "the kernels need an NVIDIA GPU" in out
