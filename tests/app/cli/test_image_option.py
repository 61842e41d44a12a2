"""``safelight generate --image``: pictures before the prompt, and what cannot be one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.cli.main import main
from engine import MINI
from engine.service import LocalBackend
from tests.app.cli.calling import Capture, refused
from tests.engine.seeing import picture, seeing
from tests.engine.server.served import KEY, serving
from tests.engine.service.remote.servers import bodies, models, streamed, words
from tests.engine.service.remote.servers import serving as fake_server

FAST = ["--max-steps", "2", "--max-new-tokens", "1"]


def run(capsys: Capture, *arguments: str, prompt: str = "what?") -> tuple[int, str, str]:
    code = main(["generate", prompt, *arguments, *FAST])
    out, err = capsys.readouterr()
    return code, out, err


def test_pictures_are_before_the_prompt(capsys: Capture, tmp_path: Path) -> None:
    folder, files = seeing(tmp_path / "seeing"), [tmp_path / "one.png", tmp_path / "two.png"]
    for seed, file in enumerate(files):
        file.write_bytes(picture(40, 9, seed).data)
    shown = [part for file in files for part in ("--image", str(file))]
    code, out, _ = run(capsys, "--model", str(folder), *shown, "--json")
    record = json.loads(out)
    assert code == 0
    assert [0 < count <= 70 for count in record["images"]] == [True, True]
    plain = json.loads(run(capsys, "--model", str(folder), "--json")[1])
    assert "images" not in plain
    alone = json.loads(run(capsys, "--model", str(folder), *shown, "--json", prompt="")[1])
    assert alone["images"] == record["images"]


def test_a_model_on_another_machine_sees_them_too(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAFELIGHT_API_KEY", KEY)
    folder, file = seeing(tmp_path / "seer", canvas_length=16), tmp_path / "one.png"
    file.write_bytes(picture(40, 9).data)
    asked = ("--image", str(file), "--json", "--seed", "3")
    here = json.loads(run(capsys, "--model", str(folder), *asked)[1])
    with serving(LocalBackend(), str(folder)) as served:
        address = f"{served.server.url}/v1#seer"
        code, out, err = run(capsys, "--model", address, *asked)
        assert (code, err) == (0, "")
        there = json.loads(out)
        same = ("text", "tokens", "steps", "blocks", "reason", "decoder", "seed", "images", "model")
        assert {name: there[name] for name in same} == {name: here[name] for name in same}
        code, out, err = run(capsys, "--model", address, "--watch")
        assert code == 0
        assert "steps" in err
        assert "has no model other" in run(capsys, "--model", f"{served.server.url}/v1#other")[2]
    with fake_server(v1_models=models("m"), v1_chat_completions=streamed(*words(["red"]))) as server:
        address = f"{server.endpoint}/v1#m"
        plain = ["generate", "what?", "--model", address, "--temperature", "0", "--seed", "3"]
        code = main([*plain, "--image", str(file)])
        assert (code, capsys.readouterr()) == (0, ("red\n", ""))
        [sent] = bodies(server)
        assert (sent["temperature"], sent["seed"]) == (0.0, 3)
        assert main([*plain, "--watch"]) == 2
        assert "no canvas to watch" in capsys.readouterr().err
        code, out, err = run(capsys, "--model", address, "--decoder", "block_diffusion")
        assert (code, out) == (2, "")
        assert "does not follow --decoder, --max-steps with this model; leave them out" in err
    code, out, err = run(capsys, "--model", f"{server.endpoint}/v1#m")
    assert (code, out, err.count("\n")) == (2, "", 1)


def test_what_is_none_is_one_line(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "drawing.svg").write_text("<svg/>")
    (tmp_path / "good.png").write_bytes(picture(5, 5).data)
    for name, message in (
        ("nowhere.png", "cannot be read: No such file"),
        ("drawing.svg", "is an SVG, which is not supported"),
        ("good.png", f"{MINI} cannot see images; remove them, or choose a model that can"),
    ):
        refused(capsys, message, "generate", "what?", "--model", MINI, "--image", tmp_path / name, *FAST)
