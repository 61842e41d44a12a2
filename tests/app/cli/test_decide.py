"""``safelight decide`` as its users meet it: one text, a table, Ctrl+C, bad input."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import engine
from app.cli import decide_table, deciding
from app.cli.main import main
from engine.tasks.decisions.question_file import read_question_file
from engine.tasks.drawings import COLOURS, DrawnShape, Scene, picture_of
from tests.app.cli.deciding_backend import MASS, DecidingBackend

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch

ASK = ["--yes-no", "Is it urgent?", "--name", "urgent"]
TEAM = ["--choice", "Which team?", "--option", "billing", "--option", "support", "--option", "sales", "--name", "team"]
ANGER = ["--score", "How angry?", "--level", "calm", "--level", "cross", "--name", "anger"]


@pytest.fixture
def backend(monkeypatch: Patch) -> DecidingBackend:
    made = DecidingBackend()
    monkeypatch.setattr(deciding, "ChosenBackend", lambda _args: made)
    return made


def run(capsys: Capture, *arguments: object) -> tuple[int, str, str]:
    code = main(["decide", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def one_line(err: str) -> str:
    assert err.startswith("safelight: ")
    assert err.count("\n") == 1
    return err


def write_table(path: Path, count: int, **more: list[str]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text", *more])
        for row in range(count):
            writer.writerow(
                [-row, f"mail {row}: {0.05 + 0.9 * row / count:.4f}", *(cells[row] for cells in more.values())]
            )
    return path


def cells_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


# --- one text -----------------------------------------------------------------------------------------------------


def test_the_embedded_model_decides(capsys: Capture) -> None:
    asked = [*ASK, *TEAM, *ANGER]
    code, out, err = run(capsys, "Ann has 3 coins.", *asked, "--json", "--repeat", 1)
    record = json.loads(out)
    assert (code, out.count("\n"), err) == (0, 1, "")
    assert (record["model"], record["temperature"]) == (engine.DECIDER, 1.0)
    assert list(record["answers"]) == ["urgent", "team", "anger"]
    for answer in record["answers"].values():
        assert sum(answer["probabilities"].values()) == pytest.approx(1)
        assert answer["confidence"] == pytest.approx(max(answer["probabilities"].values()) * answer["label_mass"])
        assert answer["reads"] in (1, 2)


def test_one_text_as_json(capsys: Capture, backend: DecidingBackend) -> None:
    code, out, err = run(capsys, "mail: 0.8", *ASK, *TEAM, *ANGER, "--json", "--instructions", "Be brief.", "--joint")
    answers = json.loads(out)["answers"]
    assert (code, err) == (0, "")
    assert answers["urgent"]["noul"] == pytest.approx(0.8)
    assert answers["team"]["choice"] == "billing"
    assert answers["team"]["probabilities"]["sales"] == pytest.approx(0.1)
    assert answers["anger"]["score"] == pytest.approx(0.2)
    assert answers["anger"]["legend"] == {"0": "calm", "1": "cross"}
    assert answers["urgent"]["label_mass"] == pytest.approx(MASS)
    [request] = backend.requests
    assert request.decision is not None
    assert (request.decision.instructions, request.decision.is_joint, request.decision.repeats) == (
        "Be brief.",
        True,
        3,
    )
    assert not request.keep
    _, out, _ = run(capsys, "mail: 0.8", *ASK, "--json", "--temperature", "0.5")
    assert json.loads(out)["answers"]["urgent"]["noul"] == pytest.approx(0.64 / 0.68)


def test_an_image_is_decided_about_with_a_text_or_alone(capsys: Capture, tmp_path: Path) -> None:
    drawn = [tmp_path / "red.png", tmp_path / "blue.png"]
    for place, colour in zip(drawn, ("red", "blue"), strict=True):
        place.write_bytes(picture_of(Scene((250, 250, 250), (circle(colour),))).data)
    ask = ["--yes-no", "Is there a red circle?", "--choice", "What colour is the circle?", "--option", "red"]
    ask += ["--option", "blue", "--score", "How many circles are there?", "--level", "none", "--level", "one"]
    ask += ["--repeat", "0", "--json"]

    def decided(*more: object) -> dict[str, Any]:
        code, out, err = run(capsys, *more, *ask)
        assert (code, err) == (0, "")
        record = json.loads(out)
        assert record["model"] == engine.SIGHT  # where there are images
        found: dict[str, Any] = record["answers"]
        return found

    red, blue = (decided("--image", one) for one in drawn)
    assert red != blue  # it was seen
    assert decided("--image", drawn[0], "") == red
    assert decided("--image", drawn[0], "A drawing.") != red
    drawn[0].write_bytes(drawn[0].read_bytes()[:-30])
    code, out, err = run(capsys, "--image", drawn[0], *ASK)
    assert (code, out) == (2, "")
    assert "'red.png' is damaged" in one_line(err)
    code, _, err = run(capsys, "--image", drawn[1], *ASK, "--model", engine.DECIDER)
    assert code == 2
    assert "cannot see images" in one_line(err)


def test_a_table_of_pictures_has_a_reason_for_each_that_cannot_be_read(
    capsys: Capture, tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pics").mkdir()
    for colour in ("red", "blue"):
        drawn = picture_of(Scene((250, 250, 250), (circle(colour),)))
        Path(f"pics/{colour}.png").write_bytes(drawn.data)
    Path("pics/broken.png").write_bytes(drawn.data[:-30])
    names = ["pics/red.png", "pics/none.png", "pics/broken.png", "../x.png", "pics/blue.png"]
    Path("in.csv").write_text("\n".join(["image,red_label", *(f"{name},yes" for name in names)]))
    asked = ["--csv", "in.csv", "--image-column", "image", "--yes-no", "Is there a red circle?", "--name", "red"]
    code, out, err = run(capsys, *asked, "--out", "out.csv")
    assert code == 0
    assert "3 rows could not be decided" in one_line(err)
    assert "% of 2 labelled rows right" in out
    rows = cells_of(Path("out.csv"))
    assert [row["image"] for row in rows] == names
    assert [row["red_answer"] != "" for row in rows] == [True, False, False, False, True]
    assert [row["error"] != "" for row in rows] == [False, True, True, True, False]
    code, out, err = run(capsys, *asked, "--json", "--model", engine.DECIDER)
    assert (code, out) == (2, "")
    assert "cannot see images" in one_line(err)


def circle(colour: str) -> DrawnShape:
    return DrawnShape("circle", colour, COLOURS[colour], 0.5, 0.5, 0.14, 0.0)


def test_one_text_for_people(capsys: Capture, backend: DecidingBackend, tmp_path: Path) -> None:
    file = tmp_path / "mail.txt"
    file.write_text("mail: 0.7500\n")
    code, out, err = run(capsys, "--file", file, *ASK, *TEAM)
    assert (code, err) == (0, "")
    assert backend.states == ["mail: 0.7500"]
    lines = [line.split() for line in out.splitlines() if line.strip()]
    assert lines[:4] == [
        ["Is", "it", "urgent?"],
        ["→", "yes", "█" * 18, "75.0", "%"],
        ["no", "█" * 6, "25.0", "%"],
        ["confidence", "37.5", "%,", "50.0", "%", "on", "the", "options"],
    ]
    assert lines[4] == ["Which", "team?"]
    assert "\x1b" not in out


@pytest.mark.usefixtures("backend")
def test_questions_from_a_file_and_to_one(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "questions.json"
    code, first, _ = run(capsys, "0.6", *ASK, *TEAM, "--repeat", 5, "--save", file, "--json")
    assert code == 0
    saved = read_question_file(file)
    assert ([question.name for question in saved.questions], saved.repeats) == (["urgent", "team"], 5)
    assert run(capsys, "0.6", "--questions", file, "--json")[1] == first
    body = {"state": "0.9", "questions": {"urgent": {"type": "noul", "instructions": "Is it urgent?"}}}
    file.write_text(json.dumps(body))
    code, out, _ = run(capsys, "--questions", file, "--json")
    assert json.loads(out)["answers"]["urgent"]["noul"] == pytest.approx(0.9)


def test_ctrl_c_while_one_text_is_decided(capsys: Capture, backend: DecidingBackend) -> None:
    backend.interrupt_at = 1
    assert run(capsys, "0.6", *ASK) == (130, "", "safelight: stopped\n")


@pytest.mark.usefixtures("backend")
def test_what_a_run_fails_with_is_said(capsys: Capture) -> None:
    code, out, err = run(capsys, "broken", *ASK)
    assert (code, out) == (2, "")
    assert "the card fell out" in one_line(err)


# --- a table ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("backend")
def test_a_table_in_and_a_table_out(capsys: Capture, tmp_path: Path) -> None:
    labels = ["no", "no", "FALSE", "", "yes", "no"]  # of the six, row 6 is answered with yes
    given = write_table(tmp_path / "in.csv", 6, urgent_label=labels)
    out = tmp_path / "out.csv"
    code, said, err = run(capsys, "--csv", given, "--out", out, *ASK, *ANGER, "--repeat", 0)
    assert (code, err) == (0, "")
    assert "6 rows decided" in said
    assert "urgent: 80.0 % of 5 labelled rows right" in said
    rows = cells_of(out)
    assert [row["id"] for row in rows] == ["0", "-1", "-2", "-3", "-4", "-5"]
    assert [row["urgent_answer"] for row in rows] == ["no", "no", "no", "yes", "yes", "yes"]
    assert float(rows[5]["urgent_probability"]) == pytest.approx(0.8)
    assert float(rows[5]["urgent_confidence"]) == pytest.approx(0.4)
    assert float(rows[5]["anger_score"]) == pytest.approx(0.2)
    assert "urgent_spread" not in rows[0]
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["in.csv", "out.csv"]


def test_a_table_as_json_lines_by_a_template(capsys: Capture, backend: DecidingBackend, tmp_path: Path) -> None:
    given = write_table(tmp_path / "in.csv", 3)
    code, out, err = run(capsys, "--csv", given, "--state", "No {id}: {text}", "--json", *ASK)
    assert (code, err) == (0, "")
    assert backend.states[1] == "No -1: mail 1: 0.3500"
    assert [json.loads(line)["row"] for line in out.splitlines()] == [2, 3, 4]


@pytest.mark.usefixtures("backend")
def test_a_row_that_fails_is_said_in_it(capsys: Capture, tmp_path: Path) -> None:
    given, out = tmp_path / "in.csv", tmp_path / "out.csv"
    given.write_text("text\n0.9\nbroken\n0.8\nbroken\n")
    code, _, err = run(capsys, "--csv", given, "--out", out, *ASK)
    assert code == 0
    assert "2 rows could not be decided" in one_line(err)
    assert [row["error"] for row in cells_of(out)] == ["", "the card fell out", "", "the card fell out"]
    code, said, _ = run(capsys, "--csv", given, "--json", *ASK)
    assert [json.loads(line).get("error") for line in said.splitlines()] == [None, "the card fell out"] * 2


@pytest.mark.usefixtures("backend")
def test_when_all_fail_it_ends(capsys: Capture, tmp_path: Path, monkeypatch: Patch) -> None:
    given, out = tmp_path / "in.csv", tmp_path / "out.csv"
    given.write_text("text\n0.9\n" + "broken\n" * 5)
    monkeypatch.setattr(decide_table, "MOST_FAILURES", 4)
    code, _, err = run(capsys, "--csv", given, "--out", out, *ASK)
    assert code == 2
    assert "4 rows in a row failed up to row 6: the card fell out" in one_line(err)
    assert [row["error"] for row in cells_of(out)] == ["", *["the card fell out"] * 4]


def test_ctrl_c_leaves_the_rows_so_far(capsys: Capture, backend: DecidingBackend, tmp_path: Path) -> None:
    given, out = write_table(tmp_path / "in.csv", 30, note=['a "quoted"\r\nnote'] * 30), tmp_path / "out.csv"
    command = ["--csv", given, "--out", out, *ASK, *TEAM]
    assert run(capsys, *command)[0] == 0
    whole = out.read_bytes()
    backend.interrupt_at = len(backend.states) + 12
    code, said, err = run(capsys, *command)
    assert (code, said) == (130, "")
    count = len(cells_of(out))
    assert count <= 11
    assert f"stopped; {count} of 30 rows are done" in one_line(err)
    assert whole.startswith(out.read_bytes())


# --- bad input ----------------------------------------------------------------------------------------------------


def case(said: str, *arguments: object) -> Any:
    return pytest.param(arguments, said, id=said[:40])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        case("ask something with --yes-no", "x"),
        case("say what the questions are about", *ASK),
        case("the text is empty", " ", *ASK),
        case("TEXT and --file exclude", "x", "--file", "y", *ASK),
        case("none.txt is missing", "--file", "none.txt", *ASK),
        case("not valid UTF-8", "a\udcff", *ASK),
        case("a question is not valid UTF-8", "x", "--yes-no", "\udcff"),
        case("--option 'a' comes before any question", "x", "--option", "a"),
        case("--level 'a' belongs after a --score", "x", *ASK, "--level", "a"),
        case("two questions have the name 'urgent'", "x", *ASK, *ASK),
        case("--name needs a name", "x", "--yes-no", "a?", "--name", ""),
        case("the question 'q1' has 1 options; give 2 to 26", "x", "--choice", "a?", "--option", "b"),
        case("the question 'q1' asks nothing", "x", "--yes-no", " "),
        case("there are 65 questions", "x", *["--yes-no", "a?"] * 65),
        case("--questions and options that ask", "x", "--questions", "q.json", *ASK),
        case("q.json is missing", "x", "--questions", "q.json"),
        case("the temperature must be a number from 0.05 to 20, not 'hot'", "x", *ASK, "--temperature", "hot"),
        case("the repeats must be a whole number from 0 to 64", "x", *ASK, "--repeat", 65),
        case("--instructions has 10001 characters", "x", *ASK, "--instructions", "a" * 10_001),
        case("--out is for tables; add --csv", "x", *ASK, "--out", "o.csv"),
        case("none.png cannot be read", "--image", "none.png", *ASK),
        case("--image-column is for tables", "x", *ASK, "--image-column", "image"),
        case("--image is for a single text", "--csv", "in.csv", "--image", "a.png", "--json", *ASK),
        case("no column 'image'", "--csv", "in.csv", "--image-column", "image", "--json", *ASK),
        case("leave out TEXT and --file", "x", "--csv", "in.csv", "--json", *ASK),
        case("say where the answers go", "--csv", "in.csv", *ASK),
        case("none.csv is missing", "--csv", "none.csv", "--json", *ASK),
        case("there is no folder", "--csv", "in.csv", "--out", "none/o.csv", *ASK),
        case("--out and --csv are the same file", "--csv", "in.csv", "--out", "./in.csv", *ASK),
        case("folder is not a file", "--csv", "in.csv", "--out", "folder", *ASK),
        case("no column 'note'", "--csv", "in.csv", "--out", "o.csv", "--state", "note", *ASK),
        case("column 'urgent_answer' twice", "--csv", "taken.csv", "--json", *ASK),
        case("row 3: the state is empty", "--csv", "empty.csv", "--json", *ASK),
    ],
)
def test_bad_input(
    arguments: tuple[object, ...],
    said: str,
    capsys: Capture,
    backend: DecidingBackend,
    tmp_path: Path,
    monkeypatch: Patch,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_table(Path("in.csv"), 2)
    Path("taken.csv").write_text("text,urgent_answer\na,b\n")
    Path("empty.csv").write_text("id,text\n1,a\n2,\n")
    Path("folder").mkdir()
    before = sorted(tmp_path.iterdir())
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert said in one_line(err)
    assert backend.states == []
    assert sorted(tmp_path.iterdir()) == before


def test_a_model_that_cannot_decide(capsys: Capture, backend: DecidingBackend) -> None:
    backend.capabilities = engine.service.Capabilities()  # type: ignore[attr-defined]
    code, _, err = run(capsys, "x", *ASK)
    assert code == 2
    assert "cannot decide" in one_line(err)
