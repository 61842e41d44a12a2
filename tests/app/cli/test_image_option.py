"""``safelight generate --image``: pictures before the prompt, and what cannot be one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine import MINI
from engine.service import LocalBackend
from tests.app.cli.calling import Capture, refused, run
from tests.engine.seeing import picture, seeing
from tests.engine.server.served import KEY, serving

ASK = ("generate", "what?", "--max-steps", "2", "--max-new-tokens", "1")


def test_pictures_are_before_the_prompt(capsys: Capture, tmp_path: Path) -> None:
    folder, files = seeing(tmp_path / "seeing"), [tmp_path / "one.png", tmp_path / "two.png"]
    for seed, file in enumerate(files):
        file.write_bytes(picture(40, 9, seed).data)
    shown = [part for file in files for part in ("--image", file)]
    (seen, plain, alone) = (
        json.loads(run(capsys, *ask, "--model", folder, "--json")[1])
        for ask in ((*ASK, *shown), ASK, ("generate", "", *ASK[2:], *shown))
    )
    assert [0 < count <= 70 for count in seen["images"]] == [True, True]
    assert "images" not in plain
    assert alone["images"] == seen["images"]


def test_a_model_on_another_machine_sees_them_too(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAFELIGHT_API_KEY", KEY)
    folder, file = seeing(tmp_path / "seer", canvas_length=16), tmp_path / "one.png"
    file.write_bytes(picture(40, 9).data)
    asked = (*ASK, "--image", file, "--json", "--seed", 3)
    here = json.loads(run(capsys, *asked, "--model", folder)[1])
    with serving(LocalBackend(), str(folder)) as served:
        code, out, err = run(capsys, *asked, "--model", f"{served.server.url}/v1#seer")
        watched = run(capsys, *ASK, "--model", f"{served.server.url}/v1#seer", "--watch")
        refused(capsys, "has no model other", *ASK, "--model", f"{served.server.url}/v1#other")
    there = json.loads(out)
    assert (code, err) == (0, "")
    same = ("text", "tokens", "steps", "blocks", "reason", "decoder", "seed", "images", "model")
    assert {name: there[name] for name in same} == {name: here[name] for name in same}
    assert watched[0] == 0
    assert "steps" in watched[2]


def test_what_is_none_is_one_line(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "drawing.svg").write_text("<svg/>")
    (tmp_path / "good.png").write_bytes(picture(5, 5).data)
    for name, message in (
        ("nowhere.png", "cannot be read: No such file"),
        ("drawing.svg", "is an SVG, which is not supported"),
        ("good.png", f"{MINI} cannot see images; remove them, or choose a model that can"),
    ):
        refused(capsys, message, *ASK, "--model", MINI, "--image", tmp_path / name)
