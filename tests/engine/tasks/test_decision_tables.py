"""Tables as spreadsheets write them, and tables with answers as spreadsheets read them."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest

from engine import SafelightError
from engine.tasks.decisions import table as tables
from engine.tasks.decisions.answers import TypedAnswer
from engine.tasks.decisions.questions import OneOf, Option, Question, Score, YesNo
from engine.tasks.decisions.results import guarded, header_line, result_columns, result_line
from engine.tasks.decisions.table import CsvTable, label_column, option_of, read_table, states_of, table_from
from tests.engine.seeing import picture

URGENT = YesNo("Is it urgent?", name="urgent")
TEAM = OneOf("Which team?", (Option("billing"), Option("Support"), Option("support")), "team")
ANGER = Score("How angry?", (Option("calm"), Option("cross"), Option("furious")), "anger")


def texts_of(found: CsvTable, wanted: str | None = None) -> list[str]:
    return [one.text for one in states_of(found, wanted)]


def table(text: str) -> CsvTable:
    return table_from(text.encode(), "t.csv")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_encodings_delimiters_and_line_ends(encoding: str, delimiter: str, newline: str, tmp_path: Path) -> None:
    rows = [["id", "text"], ["1", f'sie sagte "größer"{newline}als a, b; c\td'], ["-2", " kleiner "]]
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=delimiter, lineterminator=newline).writerows(rows)
    path = tmp_path / "t.csv"
    path.write_bytes(file.getvalue().encode(encoding))
    found = read_table(path)
    assert [list(found.columns), *(list(row.cells) for row in found.rows)] == rows
    assert found.delimiter == delimiter
    assert [row.number for row in found.rows] == [2, 3]


def test_rows_are_counted_as_a_spreadsheet_does() -> None:
    found = table("sep=;\ntext;note\na;b\n\n ; \n;;;\nc\n")
    assert [(row.number, row.cells) for row in found.rows] == [(2, ("a", "b")), (6, ("c", ""))]


def test_one_column_may_hold_what_else_separates() -> None:
    found = table('text\none, two; three\n"four\nfive"\n')
    assert [row.cells for row in found.rows] == [("one, two; three",), ("four\nfive",)]
    assert found.delimiter == ","


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"text\n", "has only a header"),
        (b"a,b,a\n1,2,3\n", "column 'a' twice"),
        (b"a,b\n1,2\n\n1,2,3\n", "row 4: it has 3 cells, the header 2"),
        (b'a,b\n1,"x\n', "row 2: it cannot be read"),
        (b'a,b\n1,"x"y\n', "row 2: it cannot be read"),
        (b"text\nk\xe4se\n", "neither UTF-8 nor UTF-16"),
        (b"\xff\xfea", "neither UTF-8 nor UTF-16"),
        (b"text\n\0\n", "contains binary data"),
        (b"a,b\n1," + b"x" * 100_001, "row 2: a cell has 100,001 characters"),
        (b"a,b\n1," + b"x" * 200_000, "row 2: it cannot be read"),
        (b"a," * 256 + b"\n", "columns; at most 256"),
    ],
)
def test_what_is_no_table(data: bytes, message: str) -> None:
    with pytest.raises(SafelightError, match=message) as caught:
        table_from(data, "t.csv")
    assert "t.csv" in str(caught.value)


def test_bounds_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_ROWS", 2)
    with pytest.raises(SafelightError, match="more than 2 rows"):
        table("text\na\nb\nc\n")
    monkeypatch.setattr(tables, "TABLE_BYTES", 4)
    (tmp_path / "t.csv").write_text("text\na\n")
    with pytest.raises(SafelightError, match="larger than 4 bytes"):
        read_table(tmp_path / "t.csv")
    with pytest.raises(SafelightError, match="is missing"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(SafelightError, match="not a regular file"):
        read_table(tmp_path)


def test_states() -> None:
    found = table("text,state,coins\na,b,3\nc,,4\n")
    assert texts_of(found, "text") == ["a", "c"]
    assert texts_of(found, "{text} has {{{ coins }}} coins") == ["a has {3} coins", "c has {4} coins"]
    assert texts_of(table("text,other\na,b\n")) == ["a"]
    assert texts_of(table("whatever\na\n")) == ["a"]
    for wanted, message in (
        (None, r"row 3: the state is empty \('state'\)"),
        ("note", "t.csv has no column 'note'; it has 'text', 'state', 'coins'"),
        ("{text} {note}", "no column 'note'"),
        ("{{x}}", "names no column"),
    ):
        with pytest.raises(SafelightError, match=message):
            states_of(found, wanted)
    with pytest.raises(SafelightError, match="no column state or text; choose the one"):
        states_of(table("a,b\n1,2\n"))
    with pytest.raises(SafelightError, match=r"row 2: the state is empty \('a' and 'b'\)"):
        states_of(table("a,b,c\n ,,2\n"), "a is {a}, b {b}")


def test_states_with_pictures(tmp_path: Path) -> None:
    (tmp_path / "pics").mkdir()
    for seed, name in enumerate(("a.png", "pics/b c.png")):
        (tmp_path / name).write_bytes(picture(4, 5, seed).data)
    path = tmp_path / "t.csv"
    path.write_text("image,who,text\na.png,Tom,red\n pics/b c.png ,Ann,\n,Eve,blue\n./a.png,Kim,\n")
    found = read_table(path)
    states = states_of(found, pictures="image")
    assert [one.text for one in states] == ["red", "", "blue", ""]
    assert [one.pictures() for one in states] == [(picture(4, 5, 0),), (picture(4, 5, 1),), (), (picture(4, 5, 0),)]
    assert [one.text for one in states_of(found, "{who} is {text}", "image")][:2] == ["Tom is red", "Ann is "]
    with pytest.raises(SafelightError, match=r"row 4: the state is empty \('image'\)"):
        states_of(found, "", "image")
    alone = table("image,red\na.png,yes\n")
    assert [one.text for one in states_of(alone, pictures="image")] == [""]
    with pytest.raises(SafelightError, match=r"row 3: the state is empty \('text' and 'image'\)"):
        states_of(table("text,image,n\na,,1\n,,2\n"), pictures="image")
    with pytest.raises(SafelightError, match="no column 'photo'"):
        states_of(alone, pictures="photo")


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("none.png", "none.png cannot be read: No such file"),
        ("folder", "is not a regular file"),
        ("broken.png", "'broken.png' is damaged"),
        ("note.txt", "'note.txt' is in an unsupported format"),
        ("large.png", "larger than"),
        ("a" * 9_000, "cannot be read: File name too long"),
        ("../secret.png", "is not below the table's folder; put it there"),
        ("pics/../../secret.png", "is not below"),
        ("..\\secret.png", "is not below"),
        ("/etc/passwd", "is not below"),
        ("C:secret.png", "is not below"),
        ("\\\\host\\share\\a.png", "is not below"),
        ("//host/share/a.png", "is not below"),
    ],
)
def test_a_table_names_pictures_below_its_folder_alone(
    named: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.pictures.picture.MOST_BYTES", 10_000)
    inside = tmp_path / "inside"
    (inside / "folder").mkdir(parents=True)
    for place, data in (
        ("../secret.png", picture(4, 4).data), ("broken.png", picture(9, 9).data[:-40]), ("note.txt", b"hello"),
        ("large.png", bytes(10_001)),
    ):  # fmt: skip
        (inside / place).write_bytes(data)
    (state,) = states_of(table_from(f"image\n{named}\n".encode(), str(inside / "t.csv")), pictures="image")
    with pytest.raises(SafelightError, match=re.escape(said)) as found:
        state.pictures()
    assert len(str(found.value)) < 2_000


def test_labels() -> None:
    found = table("text,urgent,team_label,team\na,TRUE,billing,x\n")
    assert [label_column(found, question) for question in (URGENT, TEAM, ANGER)] == [1, 2, None]


@pytest.mark.parametrize(
    ("question", "text", "option"),
    [
        (URGENT, "Y", 0),
        (URGENT, "0", 1),
        (URGENT, "nein", None),
        (TEAM, "Billing", 0),
        (TEAM, "support", 2),
        (TEAM, "SUPPORT", None),  # two differ in their capitals alone
        (TEAM, "0", None),
        (ANGER, "Cross", 1),
        (ANGER, "2", 2),
        (ANGER, "3", None),
        (Score("How many?", (Option("1"), Option("2")), "many"), "1", 0),
    ],
)
def test_options_by_text(question: Question, text: str, option: int | None) -> None:
    assert option_of(question, text) == option


def answer(question: Question, *shares: float) -> TypedAnswer:
    return TypedAnswer(question, shares, 0.5, True, 4, tuple(share / 10 for share in shares), 0.75)


def test_results_are_read_back_by_a_spreadsheet(tmp_path: Path) -> None:
    given = table('id;text\n1;"=HYPERLINK(""http://x"")"\n-2;"a;=b\nc"\n')
    path = tmp_path / "out.csv"
    results = [(answer(URGENT, 0.25, 0.75), answer(ANGER, 0.5, 0.3, 0.2)), "=the state does not fit"]
    columns = result_columns(given, (URGENT, ANGER), is_repeated=True)
    lines = [result_line(given, *row, len(columns), is_repeated=True) for row in zip(given.rows, results, strict=True)]
    data = "".join((header_line(columns, given.delimiter), *lines)).encode()
    path.write_bytes(data)
    assert data.startswith(b"\xef\xbb\xbf")
    assert data.count(b"\r\n") == 3
    header, first, second = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), delimiter=";")
    assert header == [
        *("id", "text", "urgent_answer", "urgent_probability", "urgent_confidence", "urgent_label_mass"),
        *("urgent_spread", "urgent_agreement", "anger_answer", "anger_score", "anger_probability"),
        *("anger_confidence", "anger_label_mass", "anger_spread", "anger_agreement", "error"),
    ]
    assert first[:2] == ["1", '\'=HYPERLINK("http://x")']
    assert first[2:8] == ["no", "0.75", "0.375", "0.5", "0.075", "0.75"]
    assert first[8:11] == ["calm", "0.7", "0.5"]
    assert second == ["-2", "a;=b\nc", *[""] * 13, "'=the state does not fit"]
    assert b'"a;=b\nc"' in data  # between quotes, so that a spreadsheet with another delimiter does not split it
    assert [row.cells for row in read_table(path).rows] == [tuple(first), tuple(second)]


@pytest.mark.parametrize(
    ("text", "is_guarded"),
    [
        *[("=1+1", True), ("+cmd|x", True), ("@SUM(A1)", True), ("-1+2", True), ("\t=1", True), ("\n-x", True)],
        *[("＝1", True), ("- point", True), ("-5", False), ("+49 ", False), ("-1.5e-3", False), ("-1.234,5", False)],
        *[("-3 %", False), ("a=1", False), ("", False), ("'=1", False), ("-.5", False)],
    ],
)
def test_formulas_are_guarded_and_numbers_are_not(text: str, is_guarded: bool) -> None:
    assert guarded(text) == ("'" + text if is_guarded else text)


@pytest.mark.parametrize("taken", ["urgent_answer", "error"])
def test_columns_that_are_taken(taken: str) -> None:
    given = table(f"text,{taken}\na,b\n")
    with pytest.raises(SafelightError, match=f"the column '{taken}' twice; rename it in t.csv"):
        result_columns(given, (URGENT,), is_repeated=False)
