"""The hosted machines' files: what they call is there, what they take from others is pinned, and they may only read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
SYSTEMS = {"ubuntu", "windows", "macos"}


def jobs(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"])


def runs(path: Path) -> list[str]:
    return [step["run"] for job in jobs(path).values() for step in job["steps"] if "run" in step]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_they_may_only_read_and_use_pinned_actions(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    whole = yaml.safe_load(text)
    assert whole["permissions"] == {"contents": "read"}
    assert "pull_request_target" not in whole[True], "YAML reads 'on' as true"
    for job in jobs(path).values():
        assert job["timeout-minutes"] <= 60
        assert "permissions" not in job
        for step in job["steps"]:
            assert set(step) <= {"name", "uses", "with", "run", "if", "shell"}
            assert ("uses" in step) != ("run" in step)
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"] == {"persist-credentials": False}
    used = re.findall(r"uses: (.*)", text)
    assert used
    for line in used:  # pinned to a commit, with its version
        assert re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)


@pytest.mark.parametrize("name", ["smoke", "bundle"])
def test_the_three_systems_are_built_and_started(name: str) -> None:
    found = set()
    for job in jobs(ROOT / ".github" / "workflows" / f"{name}.yml").values():
        matrix = job.get("strategy", {}).get("matrix", {})
        found |= {str(system).partition("-")[0] for system in matrix.get("os", [])}
        found |= {str(case["os"]).partition("-")[0] for case in matrix.get("include", [])}
    assert found == SYSTEMS
    assert any("packaging/smoke.py" in run for run in runs(ROOT / ".github" / "workflows" / f"{name}.yml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_commands_name_what_is_in_the_repository(path: Path) -> None:
    for run in runs(path):
        assert "${{" not in run, "a value could become a command; give it by the environment"
        for script, arguments in re.findall(r"(packaging/[\w/]+\.py)(.*)", run):
            source = (ROOT / script).read_text(encoding="utf-8")
            for option in re.findall(r" (--[\w-]+)", arguments):
                assert f'"{option}"' in source, f"{script} has no {option}"
        if "install.cmd" in run:
            installer = (ROOT / "packaging" / "windows" / "installer.py").read_text(encoding="utf-8")
            for option in re.findall(r"install\.cmd\"? .*?(--[\w-]+)", run):
                assert f'"{option}"' in installer
