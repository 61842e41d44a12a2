"""``safelight decide`` as its users meet it: one text, a table, Ctrl+C, bad input."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import engine
from app.cli import deciding
from engine.tasks.drawings import COLOURS, DrawnShape, Scene, picture_of
from tests.app.cli.calling import Capture, one_line, refused, run
from tests.app.cli.deciding_backend import MASS, DecidingBackend

Patch = pytest.MonkeyPatch

ASK = ["--yes-no", "Is it urgent?", "--name", "urgent"]
TEAM = ["--choice", "Which team?", "--option", "billing", "--option", "support", "--option", "sales", "--name", "team"]
ANGER = ["--score", "How angry?", "--level", "calm", "--level", "cross", "--name", "anger"]


@pytest.fixture
def backend(monkeypatch: Patch) -> DecidingBackend:
    made = DecidingBackend()
    monkeypatch.setattr(deciding, "ChosenBackend", lambda _args: made)
    return made


def test_the_embedded_model_decides(capsys: Capture) -> None:
    code, out, err = run(capsys, "decide", "Ann has 3 coins.", *ASK, *TEAM, *ANGER, "--json", "--repeat", 1)
    record = json.loads(out)
    assert (code, out.count("\n"), err) == (0, 1, "")
    assert record["model"] == engine.MINI
    assert list(record["answers"]) == ["urgent", "team", "anger"]
    for answer in record["answers"].values():
        assert sum(answer["probabilities"].values()) == pytest.approx(1)
        assert answer["confidence"] == pytest.approx(max(answer["probabilities"].values()) * answer["label_mass"])
        assert answer["reads"] in (1, 2)


def test_one_text_as_json(capsys: Capture, backend: DecidingBackend, tmp_path: Path) -> None:
    code, out, err = run(capsys, "decide", "mail: 0.8", *ASK, *TEAM, *ANGER, "--json", "--joint")
    answers = json.loads(out)["answers"]
    assert (code, err) == (0, "")
    assert answers["urgent"]["noul"] == pytest.approx(0.8)
    assert answers["team"]["choice"] == "billing"
    assert answers["team"]["probabilities"]["sales"] == pytest.approx(0.1)
    assert answers["anger"]["score"] == pytest.approx(0.2)
    assert answers["anger"]["legend"] == {"0": "calm", "1": "cross"}
    assert answers["urgent"]["label_mass"] == pytest.approx(MASS)
    [request] = backend.requests
    asked = {"urgent": {"type": "noul", "instructions": "Is it urgent?"}}
    file = tmp_path / "questions.json"
    file.write_text(json.dumps({"questions": asked, "temperature": 0.5}))
    read = json.loads(run(capsys, "decide", "0.8", "--questions", file, "--json")[1])
    assert read["answers"]["urgent"]["noul"] == pytest.approx(0.64 / 0.68)
    assert request.decision is not None
    assert (request.decision.is_joint, request.decision.repeats, request.keep) == (True, 3, False)


def test_an_image_is_decided_about_with_a_text_or_alone(capsys: Capture, tmp_path: Path) -> None:
    for colour in ("red", "blue"):
        circle = DrawnShape("circle", colour, COLOURS[colour], 0.5, 0.5, 0.14, 0.0)
        (tmp_path / f"{colour}.png").write_bytes(picture_of(Scene((250, 250, 250), (circle,))).data)
    ask = ["--choice", "What colour is the circle?", "--option", "red", "--option", "blue", "--repeat", "0", "--json"]
    red, blue = (
        json.loads(run(capsys, "decide", "--image", tmp_path / f"{one}.png", *ask)[1]) for one in ("red", "blue")
    )
    assert red["model"] == engine.SIGHT  # where there are images
    assert red != blue  # it was seen
    refused(capsys, "cannot see images", "decide", "--image", tmp_path / "red.png", *ASK, "--model", engine.MINI)


def test_one_text_for_people(capsys: Capture, backend: DecidingBackend, tmp_path: Path) -> None:
    file = tmp_path / "mail.txt"
    file.write_text("mail: 0.7500\n")
    code, out, err = run(capsys, "decide", "--file", file, *ASK, *TEAM)
    assert (code, err) == (0, "")
    assert backend.states == ["mail: 0.7500"] * 2
    lines = [" ".join(line.split()) for line in out.splitlines() if line.strip()]
    assert lines[:5] == [
        "Is it urgent?",
        f"→ yes 75.0 % {'█' * 18}",
        f"no 25.0 % {'█' * 6}",
        "confidence 37.5 %, 50.0 % on the options",
        "Which team?",
    ]


def test_a_text_that_is_not_decided_is_one_line(capsys: Capture, backend: DecidingBackend) -> None:
    backend.interrupt_at = 1
    assert run(capsys, "decide", "0.6", *ASK) == (130, "", "safelight: stopped\n")
    backend.interrupt_at = 0
    refused(capsys, "the card fell out", "decide", "broken", *ASK)


@pytest.mark.usefixtures("backend")
def test_a_table_in_and_a_table_out(capsys: Capture, tmp_path: Path) -> None:
    given, out, delimiter = tmp_path / "in.csv", tmp_path / "out.csv", ";"
    rows = [["id", "text", "note"], ["-1", "größer 0.2", "=1+1"], ["2", "broken", 'a, b; c\td "e"\n'], ["3", "0.8", ""]]
    with given.open("w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    code, said, err = run(capsys, "decide", "--csv", given, "--out", out, *ASK, *ANGER, "--repeat", 0)
    assert code == 0
    assert "3 rows decided" in said
    assert "1 rows could not be decided" in one_line(err)
    with out.open(encoding="utf-8-sig", newline="") as file:
        found = list(csv.DictReader(file, delimiter=delimiter))
    assert [[row[name] for name in rows[0]] for row in found] == [["-1", "größer 0.2", "'=1+1"], *rows[2:]]
    assert [row["urgent_answer"] for row in found] == ["no", "", "yes"]
    assert [row["error"] for row in found] == ["", "the card fell out", ""]
    last = found[2]
    assert float(last["urgent_probability"]) == pytest.approx(0.8)
    assert float(last["urgent_confidence"]) == pytest.approx(0.4)
    assert float(last["anger_score"]) == pytest.approx(0.2)


def test_a_table_as_json_lines(capsys: Capture, backend: DecidingBackend, tmp_path: Path) -> None:
    given = tmp_path / "in.csv"
    given.write_text("mail\nhello, 0.9\nbroken; x\n")
    code, out, _ = run(capsys, "decide", "--csv", given, "--json", *ASK)
    assert code == 0
    assert backend.states == ["hello, 0.9", "broken; x"]
    first, second = map(json.loads, out.splitlines())
    assert (first["row"], first["answers"]["urgent"]["noul"]) == (2, pytest.approx(0.9))
    assert second == {"row": 3, "error": "the card fell out"}


def test_ctrl_c_leaves_the_rows_so_far(capsys: Capture, backend: DecidingBackend, tmp_path: Path) -> None:
    given, out = tmp_path / "in.csv", tmp_path / "out.csv"
    given.write_text("text\n" + "0.7\n" * 30)
    backend.interrupt_at = 12
    code, said, err = run(capsys, "decide", "--csv", given, "--out", out, *ASK)
    assert (code, said) == (130, "")
    count = len(out.read_text().splitlines()) - 1
    assert count <= 11
    assert f"stopped; {count} of 30 rows are done" in one_line(err)


def case(said: str, *arguments: object) -> Any:
    return pytest.param(arguments, said, id=said[:40])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        case("ask something with --yes-no", "x"),
        case("say what the questions are about", *ASK),
        case("the text is empty", " ", *ASK),
        case("TEXT and --file exclude", "x", "--file", "y", *ASK),
        case("the text is not valid UTF-8", "a\udcff", *ASK),
        case("a question is not valid UTF-8", "x", "--yes-no", "\udcff"),
        case("--option 'a' comes before any question", "x", "--option", "a"),
        case("--level 'a' belongs after a --score", "x", *ASK, "--level", "a"),
        case("two questions have the name 'urgent'", "x", *ASK, *ASK),
        case("the question 'q1' has 1 options; give 2 to 26", "x", "--choice", "a?", "--option", "b"),
        case("--questions and options that ask", "x", "--questions", "q.json", *ASK),
        case("q.json is missing", "x", "--questions", "q.json"),
        case("the repeats must be a whole number from 0 to 64", "x", *ASK, "--repeat", 65),
        case("--state and --out are for tables", "x", *ASK, "--out", "o.csv"),
        case("leave out TEXT, --file and --image", "x", "--csv", "in.csv", "--json", *ASK),
        case("say where the answers go", "--csv", "in.csv", *ASK),
        case("none.csv is missing", "--csv", "none.csv", "--json", *ASK),
        case("there is no folder", "--csv", "in.csv", "--out", "none/o.csv", *ASK),
        case("in.csv has no column note", "--csv", "in.csv", "--json", "--state", "note", *ASK),
        case("in.csv has no column state or text", "--csv", "in.csv", "--json", *ASK),
        case("row 3: it has more cells", "--csv", "wide.csv", "--json", *ASK),
        case("has no rows", "--csv", "empty.csv", "--json", *ASK),
    ],
)
def test_bad_input(
    arguments: tuple[object, ...], said: str, capsys: Capture, tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.csv").write_text("mail,id\nx,1\n")
    Path("wide.csv").write_text("text,id\nx,1\ny,2,3\n")
    Path("empty.csv").write_text("text\n")
    refused(capsys, said, "decide", *arguments)
