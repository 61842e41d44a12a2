"""``safelight plan`` as its users meet it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from app.cli.options import QUANTIZATIONS
from engine import GAPS, MINI, catalog
from engine.memory import plan
from engine.models.gguf_import import import_gguf
from engine.quant import PRECISIONS
from tests.app.cli.calling import Capture, refused, run
from tests.engine import gguf_files

PARTS = ["experts", "attention", "dense", "embedding", "other", "vision", "kv_cache", "activations", "workspace"]
APART = ["process", "cuda_context", "reserve"]  # the first on a CPU alone, the second on a GPU


@pytest.fixture(autouse=True)
def free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "free_bytes", lambda _: 24 * 10**9)
    monkeypatch.setattr(plan, "total_bytes", lambda _: 24 * 2**30)


def test_json_has_these_keys_and_adds_up(capsys: Capture) -> None:
    code, out, err = run(capsys, "plan", "26b-a4b", "--context", "8192", "--json")
    record = json.loads(out)
    assert (code, err, out.count("\n")) == (0, "", 1)
    assert {"total_bytes", "parts", "free_bytes", "fits", "advice"} <= set(record)
    assert list(record["parts"]) == PARTS + APART
    assert [record["parts"][part] > 0 for part in APART] == [True, False, True]
    assert all(isinstance(count, int) for count in record["parts"].values())
    assert record["total_bytes"] == sum(record["parts"].values())
    assert record["free_bytes"] == 24 * 10**9
    assert record["fits"] is (record["total_bytes"] <= record["free_bytes"]) is True
    assert (record["model"], record["context"], record["quantization"]) == ("26b-a4b", 8192, "int4")
    assert record["precision"] == PRECISIONS["int4"].as_dict()


def test_a_gguf_file_is_planned_as_what_its_import_gives(tmp_path: Path, capsys: Capture) -> None:
    file = gguf_files.tiny(tmp_path / "tiny.gguf", catalog.resolve(GAPS))
    options = ("--device", "cpu", "--quantization", "nf4", "--context", "100", "--json")
    planned = json.loads(run(capsys, "plan", str(file), *options)[1])
    assert list(tmp_path.iterdir()) == [file]
    code, out, _ = run(capsys, "plan", str(file), "--device", "cpu")
    assert (code, "To import it" in out, list(tmp_path.iterdir())) == (0, True, [file])
    import_gguf(file, tmp_path / "made", "nf4", torch.device("cpu"))
    imported = json.loads(run(capsys, "plan", str(tmp_path / "made"), *options)[1])
    assert [planned[key] for key in ("precision", "context", "parts")] == [
        imported[key] for key in ("precision", "context", "parts")
    ]
    assert planned["copy_bytes"] > imported["copy_bytes"] == 0
    refused(capsys, "a packed store needs a quantization; use auto, ", "plan", str(file), "--quantization", "none")


def test_the_table_names_every_part_and_what_to_change(capsys: Capture) -> None:
    code, out, _ = run(capsys, "plan", "26b-a4b", "--quantization", "none", "--dtype", "float32")
    assert code == 0  # the answer is no, and that is an answer
    assert all(any(line.startswith(part) for line in out.splitlines()) for part in [*PARTS, "process", "reserve"])
    assert not any(line.startswith("cuda_context") for line in out.splitlines())
    total = next(line for line in out.splitlines() if line.startswith("total"))
    assert "does not fit" in total
    assert float(total.split()[1]) > 100
    assert "GB are missing: use quantization int4." in out
    assert "Note: counted from config.json" in out
    assert "\x1b" not in out
    code, out, _ = run(capsys, "plan", MINI)
    total = next(line for line in out.splitlines() if line.startswith("total"))
    assert (code, total.split()[-1]) == (0, "fits")
    assert "MB" in out.splitlines()[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "there is no model at nowhere"),
        (["26b-a4b", "--context", "0"], "the context must be a whole number of 1 or more, not '0'"),
        (["26b-a4b", "--context", "262145"], "the context must be from 1 to 262144 tokens"),
        (["pyproject.toml"], "pyproject.toml is a file; give the model folder"),
    ],
)
def test_bad_input_is_one_line(capsys: Capture, arguments: list[str], message: str) -> None:
    refused(capsys, message, "plan", *arguments)


def test_the_option_offers_what_the_engine_knows() -> None:
    assert tuple(PRECISIONS) == QUANTIZATIONS
