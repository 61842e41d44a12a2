"""The race with llama.cpp: what is read from each program, the turns, the table, and the file of a real shape."""

from __future__ import annotations

import dataclasses
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import llama
import numpy as np
import pytest
import shape_gguf
from compared import Measured, PeerError, Turns, llama_test, safelight_step, safelight_writing, table
from gguf import GGMLQuantizationType as Kind
from gguf.quants import dequantize

from app.cli.main import main
from engine import SafelightError
from engine.models.diffusion_gemma.config import config_dict
from engine.weights.gguf.header import GGUFHeader
from tests.engine.packing import packable

RECORDED = Path(__file__).with_name("llama_bench.json").read_text(encoding="utf-8")  # of the build that it names
ASKED = {"prompt": 0, "new": 256, "depth": 512, "threads": 1}
WRITING = {"dtype": "bfloat16", "precision": {"experts": None, "attention": "int8", "dense": "int8"}}
WRITING |= {"prefill_tokens_per_second": 600.0, "decode_tokens_per_second": 72.760908}
Capture = pytest.CaptureFixture[str]


def changed(**values: Any) -> str:
    return json.dumps([json.loads(RECORDED)[0] | values])


# --- what each program prints ---------------------------------------------------------------------------------------


def test_a_recorded_test_of_llama_bench_is_read() -> None:
    found = llama_test(RECORDED, **ASKED)
    assert (found.model, found.bits, found.rate) == ("llama 256M Q4_1", "Q4_1", 36.380454)
    assert (found.build, found.processor) == ("0c1e570 (1), CPU", "Intel(R) Xeon(R) Processor")
    assert llama_test(changed(model_type="qwen2 1.5B Q4_K - Medium"), **ASKED).bits == "Q4_K - Medium"


@pytest.mark.parametrize(
    ("printed", "reason"),
    {
        "another test": (changed(n_gen=128), "n_gen 128, not 256"),
        "an old one without a depth": (changed(n_depth=None), "take a newer one"),
        "not a number": (changed(avg_ts=float("nan")), "avg_ts nan"),
        "two tests": (json.dumps(json.loads(RECORDED) * 2), "another number of tests"),
        "a table": ("| model | t/s |", "printed no JSON: '| model | t/s |'"),
        "far too much": (" " * 1_000_001, "printed 1000001 characters"),
    }.values(),
)
def test_what_cannot_be_compared_is_an_error(printed: str, reason: str) -> None:
    with pytest.raises(PeerError) as found:
        llama_test(printed, **ASKED)
    assert reason in str(found.value)
    assert "\n" not in str(found.value)


def test_what_safelight_prints_is_read(capsys: Capture, tmp_path: Path) -> None:
    """Runs the program as it is, so that a changed key is found."""
    assert main(shlex.split("bench --prompt-tokens 16 --max-new-tokens 3 --runs 1 --threads 1 --json")) == 0
    printed = capsys.readouterr().out
    found = safelight_writing(printed)
    record = json.loads(printed)
    assert (found.prefill, found.decode) == (record["prefill_tokens_per_second"], record["decode_tokens_per_second"])
    assert (found.bits, found.step) == ("float32", None)
    (tmp_path / "config.json").write_text(json.dumps(config_dict(packable().config)))
    shape = f"bench --shape {tmp_path} --random-weights --quantization int4 --context 20 --steps 1 --device cpu --json"
    assert main(shlex.split(shape)) == 0
    printed = capsys.readouterr().out
    stepped, record = safelight_step(printed), json.loads(printed)
    assert stepped.step == record["step_ms_median"] / 1000
    assert stepped.prefill == pytest.approx(20 / (record["prefill_ms"] / 1000))
    assert (stepped.bits, stepped.decode) == ("int4-g32, int8", None)
    for other in ("{}", "[]", json.dumps(WRITING | {"decode_tokens_per_second": None})):
        with pytest.raises(PeerError, match="safelight printed"):
            safelight_writing(other)


# --- the table ------------------------------------------------------------------------------------------------------


def test_a_ratio_is_the_median_within_the_turns() -> None:
    ours = [Measured("int8", prefill=rate, decode=2 * rate) for rate in (100.0, 50.0, 10.0)]
    theirs = [Measured("Q8_0", prefill=rate, decode=rate) for rate in (50.0, 50.0, 20.0)]
    row = Turns("small", 2, ours, theirs)
    assert row.as_dict()["ratio"] == {"prefill": 1.0, "decode": 2.0, "step": None}
    shape = Turns("26b", 1, [Measured("int4", 8.0, step=6.0)], [Measured("Q4_0", 4.0, step=15.0)])
    assert table([row, shape]).splitlines()[2:] == [
        "| small | int8 / Q8_0 | 2 | 50.0 / 50.0 | **1.00** | 100.0 / 50.0 | **2.00** | - / - | - |",
        "| 26b | int4 / Q4_0 | 1 | 8.0 / 4.0 | **2.00** | - / - | - | 6.00 / 15.00 | **2.50** |",
    ]


# --- the programs ---------------------------------------------------------------------------------------------------


def stand_in(path: Path, code: str) -> None:
    """Writes a program in Python that notes its arguments in ``log`` next to it."""
    noted = f"import json, sys\nopen({str(path.parent / 'log')!r}, 'a').write(' '.join(sys.argv) + '\\n')\n"
    path.write_text(f"#!{sys.executable} -IS\n{noted}{code}\n", encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path) -> list[str]:
    """Both programs, which answer as those that they stand for do; and a file for a model."""
    if sys.platform == "win32":
        pytest.skip("a program in Python needs a first line that Windows does not read")
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    answers = "sys.argv[1:] == ['--version'] and 'safelight 0.1.0'"
    stand_in(tmp_path / "safelight", f"print({answers} or {json.dumps(WRITING)!r})")
    options = "given = dict(zip(sys.argv[1::2], sys.argv[2::2]))\n"
    asked = "{'n_prompt': int(given['-p']), 'n_gen': int(given['-n']), 'n_depth': int(given['-d']), 'n_threads': 1}"
    stand_in(tmp_path / "llama-bench", f"{options}print(json.dumps([json.loads({RECORDED!r})[0] | {asked}]))")
    found = ["--llama", str(tmp_path), "--safelight", str(tmp_path / "safelight"), "--threads", "1"]
    return [*found, str(tmp_path / "model.gguf")]


def test_both_run_in_turn_with_the_same_work(programs: list[str], tmp_path: Path, capsys: Capture) -> None:
    assert llama.main([*programs, "--repeats", "2", "--prompt", "512", "--new", "256", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    lines = (tmp_path / "log").read_text().splitlines()
    assert [Path(line.split()[0]).name for line in lines] == [
        *("safelight", "llama-bench", "llama-bench") * 2,
        "safelight",  # --version
    ]
    ours = "--prompt-tokens 512 --max-new-tokens 256 --runs 1 --quantization auto --threads 1 --device cpu --json"
    assert lines[0].endswith(ours)
    assert "-p 512 -n 0 -d 0 -t 1 -dev none -r 1" in lines[1]
    assert "-p 0 -n 256 -d 512 -t 1 -dev none -r 1" in lines[2]
    (row,) = found["rows"]
    assert (len(row["ours"]), len(row["theirs"])) == (2, 2)
    assert row["ratio"]["decode"] == pytest.approx(2.0)


def test_eight_bits_are_made_once(programs: list[str], tmp_path: Path, capsys: Capture) -> None:
    stand_in(tmp_path / "llama-quantize", "import shutil; shutil.copy(sys.argv[2], sys.argv[3])")
    for _ in range(2):
        assert llama.main([*programs, "--repeats", "1", "--eight", str(tmp_path / "made")]) == 0
    assert "| model | int8, bfloat16 / Q4_1 | 1 |" in capsys.readouterr().out
    lines = (tmp_path / "log").read_text().splitlines()
    assert sum("llama-quantize --allow-requantize" in line for line in lines) == 1
    assert sum("--quantization int8" in line for line in lines) == 2
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["model-Q8_0.gguf"]


def test_a_program_that_fails_is_named_in_a_line(
    programs: list[str], tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path / "llama-bench", "import os; os.abort()")
    assert llama.main([*programs, "--repeats", "1"]) == 2
    assert capsys.readouterr().err.endswith("llama.py: llama-bench was ended by signal 6\n")
    stand_in(tmp_path / "safelight", "sys.exit('safelight: no such model')")
    assert llama.main([*programs, "--repeats", "1"]) == 2
    assert capsys.readouterr().err.endswith("llama.py: safelight failed with status 1: safelight: no such model\n")
    stand_in(tmp_path / "safelight", "import time; time.sleep(60)")
    real = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *of, timeout, **named: real(*of, timeout=timeout / 20, **named))
    assert llama.main([*programs, "--limit", "2"]) == 2
    assert "took more than 2 s" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ([], "give a GGUF file, or --shape-gguf"),
        (["/nowhere/x.gguf"], "there is no file /nowhere/x.gguf"),
        ([__file__], "no llama-bench on PATH; give its folder"),
    ],
)
def test_what_is_missing_is_said(
    given: list[str], reason: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert llama.main(given) == 2
    said = capsys.readouterr().err
    assert reason in said
    assert said.count("\n") == 1


# --- a file of the real shape ---------------------------------------------------------------------------------------


def test_a_shape_is_written_with_its_matrices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, path = packable().config, tmp_path / "shape.gguf"
    shape_gguf.write(path, config)
    header = GGUFHeader.read(path)
    kinds = {name: tensor.type for name, tensor in header.tensors.items()}
    shapes = {name: tensor.shape for name, tensor in header.tensors.items()}
    experts, hidden = config.num_experts, config.hidden_size
    assert shapes["blk.0.ffn_gate_up_exps.weight"] == (experts, 2 * config.moe_intermediate_size, hidden)
    assert kinds["blk.1.ffn_down_exps.weight"] == Kind.Q4_0
    assert (kinds["token_embd.weight"], shapes["token_embd.weight"]) == (Kind.Q8_0, (config.vocab_size, hidden))
    assert (kinds["blk.0.ffn_gate_inp.weight"], kinds["output_norm.weight"]) == (Kind.F32, Kind.F32)
    sliding = [layer.is_sliding for layer in config.layers]
    assert header.values["gemma4.attention.sliding_window_pattern"] == sliding
    assert header.values["gemma4.attention.key_length"] == config.layers[sliding.index(False)].head_dim
    assert header.values["gemma4.rope.freq_base_swa"] == config.layers[sliding.index(True)].rope_theta
    weight = dequantize(shape_gguf.random_blocks((512, 256), Kind.Q4_0), Kind.Q4_0)
    assert float(np.std(weight)) == pytest.approx(256**-0.5, rel=0.03)  # what it multiplies keeps its size
    with pytest.raises(SafelightError, match="no multiple of 32"):
        shape_gguf.write(tmp_path / "odd.gguf", dataclasses.replace(config, intermediate_size=72))
    monkeypatch.setattr(shape_gguf.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    with pytest.raises(SafelightError, match="for which its disk has no room"):
        shape_gguf.write(tmp_path / "other.gguf", config)
