"""``safelight quantize`` and ``safelight bench --shape`` as their users meet them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

from app.cli.main import main
from engine import SKILLS, catalog
from engine.models.diffusion_gemma.writing import config_dict
from tests.engine.gguf_files import tiny
from tests.engine.packing import packable

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def test_quantize_and_use(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "packed"
    code, out, err = run(capsys, "quantize", SKILLS, folder, "--to", "nf4", "--device", "cpu", "--json")
    record = json.loads(out)
    assert (code, err) == (0, "")
    assert record["precision"]["experts"] == "nf4-g64"
    assert record["bytes"] == sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    assert record["relative_error"]["experts"] == pytest.approx(0.08, abs=0.02)
    assert record["files"] == len(list(folder.glob("*.safetensors"))) == 7
    code, out, err = run(capsys, "generate", "Spell cat.", "--model", folder, "--device", "cpu", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["text"]
    code, out, err = run(capsys, "quantize", SKILLS, folder)
    assert (code, out) == (2, "")
    assert "already holds a packed model" in err


def test_quantize_says_what_it_did(tmp_path: Path, capsys: Capture) -> None:
    code, out, err = run(capsys, "quantize", SKILLS, tmp_path / "packed")
    assert (code, err) == (0, "")
    assert "packed holds safelight-skills with experts in int4-g32: 1.4 MB in" in out


def test_a_gguf_file_is_imported(tmp_path: Path, capsys: Capture) -> None:
    file, folder = tiny(tmp_path / "tiny.gguf", catalog.resolve(SKILLS)), tmp_path / "packed"
    code, out, err = run(capsys, "quantize", file, folder, "--tokenizer", SKILLS)
    first, second, third = out.splitlines()
    assert (code, err) == (0, "")
    assert "packed holds tiny with experts in int4-g32: 0.6 MB in" in first
    parts = r"attention 0\.\d\d%, dense 0\.\d\d%, experts \d+\.\d\d%, embedding 0\.\d\d%"
    assert re.fullmatch(f"relative error of packing: {parts}", second)
    assert third == "text only: images need the original checkpoint"
    code, out, err = run(capsys, "generate", "hello", "--model", file)
    assert (code, out) == (2, "")
    assert "is a GGUF file; import it first: safelight quantize FILE FOLDER" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["quantize", "nowhere.gguf", "packed"], "there is no file nowhere.gguf; give one that exists"),
        (["quantize", SKILLS, "packed", "--tokenizer", SKILLS], "--tokenizer is for GGUF files"),
        (["quantize", SKILLS, "packed", "--keep-vision"], "has no vision tower to keep"),
        (["quantize", "nowhere", "packed"], "there is no model at nowhere"),
        (["quantize", SKILLS], "the following arguments are required: DST"),
        (["quantize", SKILLS, "packed", "--to", "q3"], "invalid choice: 'q3'"),
        (["quantize", SKILLS, "packed", "--device", "abacus"], "unknown device 'abacus'"),
        (["bench", "--shape", "26b-a4b"], "add --random-weights"),
        (["bench", "--random-weights"], "go with --shape"),
        (["bench", "--shape", "9b", "--random-weights"], "there is no model at 9b"),
        (["bench", "--shape", "26b-a4b", "--random-weights", "--context", "-1"], "the context must be a whole number"),
        (["bench", "--shape", "26b-a4b", "--random-weights", "--compare", "llama"], "invalid choice: 'llama'"),
    ],
)
def test_bad_input(
    arguments: list[str], message: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
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
    code, out, err = run(capsys, *shape, "--parallel", "64")
    assert (code, out) == (2, "")
    assert "64 runs at once do not fit" in err


def test_bench_of_a_small_shape(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    from app.cli import bench
    from engine.benchmarks import step

    monkeypatch.setattr(bench, "LEAST_PAUSE", 1e9)  # nothing is told
    (tmp_path / "config.json").write_text(json.dumps(config_dict(packable().config)))
    monkeypatch.setattr(step, "ROUNDS", 1)
    made: list[step.ShapeResult] = []
    measure = step.measure_shape

    def once(*arguments: object, **named: object) -> step.ShapeResult:
        made[:] = made or [measure(*arguments, **named)]  # type: ignore[arg-type]
        return made[0]

    monkeypatch.setattr(step, "measure_shape", once)
    arguments = ["bench", "--shape", tmp_path, "--random-weights", "--context", 20, "--device", "cpu", "--steps", 2]
    arguments += ["--parallel", 2]
    code, out, err = run(capsys, *arguments, "--int8", "head", "--int8", "linears", "--json")
    record = json.loads(out)
    assert (code, out.count("\n")) == (0, 1)
    assert all(line.startswith("safelight: ") for line in err.splitlines())  # as many as it was slow
    assert record["int8"] == ["linears", "head"]
    assert min(record["step_ms_median"], record["prefill_ms"]) > 0
    assert [row["runs"] for row in record["together"]] == [1, 2]
    assert 1e-4 < record["oracle_error"]["experts"] < 0.02  # bf16, as a loaded packed model has it
    assert record["plan_bytes"] > 600 * 10**6
    assert record["peak_of_plan"] == pytest.approx(1e6 * record["peak_memory_mb"] / record["plan_bytes"])
    assert (record["context"], record["plain_reason"]) == (20, "the kernels need an NVIDIA GPU")
    assert record["threads"] == torch.get_num_threads()
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    assert re.search(rf"threads +{record['threads']}\b", out)
    assert "plain path: the kernels need an NVIDIA GPU" in out
    assert "denoising step, median" in out
    assert "a step of 2 at once, median" in out
    assert "% of it" in out


def test_bench_of_a_shape_takes_the_threads_asked_for(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config_dict(packable().config)))
    before = torch.get_num_threads()
    shape = "bench", "--shape", tmp_path, "--random-weights", "--context", 20, "--device", "cpu", "--steps", 1, "--json"
    try:
        for count in (before + 1, before):
            code, out, _ = run(capsys, *shape, "--threads", count)
            assert (code, json.loads(out)["threads"], torch.get_num_threads()) == (0, count, count)
    finally:
        torch.set_num_threads(before)


def test_bench_tells_what_it_does(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """On standard error, also with --json; a CPU's step may take half a minute."""
    from app.cli import bench

    (tmp_path / "config.json").write_text(json.dumps(config_dict(packable().config)))
    monkeypatch.setattr(bench, "LEAST_PAUSE", 0.0)
    shape = ["bench", "--shape", tmp_path, "--random-weights", "--context", 20, "--device", "cpu"]
    code, _, err = run(capsys, *shape, "--steps", 2, "--json")
    assert code == 0
    lines = [line.removeprefix("safelight: ") for line in err.splitlines()]
    assert lines[:4] == [
        "built 1 of 2 layers",
        "built 2 of 2 layers",
        "checked its kernels against the oracle",
        "prefilled 20 tokens",
    ]
    assert [line.rpartition(",")[0] for line in lines[4:6]] == [f"took step {k} of 2, canvas 1 of 1" for k in (1, 2)]
    assert lines[6:] == ["took a first step that commits"]
    code, _, err = run(capsys, "bench", "--steps", 2)
    assert (code, err.count("\n")) == (2, 1)
    assert "go with --shape" in err
