"""Tables to decide and files of questions: what they give is read by a spreadsheet and asked of a model."""

from __future__ import annotations

import csv
import io
import json
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from engine import SafelightError
from engine.tasks.decisions.answers import TypedAnswer
from engine.tasks.decisions.question_file import question_file_from_json, read_question_file
from engine.tasks.decisions.questions import Question
from engine.tasks.decisions.results import header_line, result_columns, result_line
from engine.tasks.decisions.table import label_column, option_of, read_table, states_of
from tests.engine.seeing import picture
from tests.hostile import mutate
from tests.hostile.kind import Attempt, Kind

PICTURE = picture(7, 5).data
QUESTIONS: dict[str, Any] = {
    "instructions": "Be strict.",
    "joint": True,
    "repeats": 2,
    "temperature": 1.5,
    "questions": {
        "urgent": {"type": "noul", "instructions": "Is it urgent?", "criteria": {"true": "it burns"}},
        "team": {"type": "choice", "instructions": "Which team?", "criteria": {"=billing": None, "support": "other"}},
        "anger": {"type": "score", "instructions": "How angry?", "criteria": ["calm", {"label": "cross"}]},
    },
}
CELLS = ("a", "yes", "-1", "=1+1", "@x", "\t=1", 'say "hi"', "a,b;c\td", "two\nlines", "", " ", "é", "'=1", "0,5", "+4")
STATES = (None, None, "text", "text", "{text} {urgent}", "{", "{}", "{x}", "{{text}}", "{text.__class__}", "{0}")


def _questions() -> tuple[Question, ...]:
    return question_file_from_json(QUESTIONS).questions


def _table(random: Random, folder: Path) -> Attempt:
    path = folder / "table.csv"
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=random.choice(",;\t"), lineterminator=random.choice(("\n", "\r\n", "\r")))
    names = ["text", "urgent", *random.sample([*CELLS, *mutate.NAMES[:3]], random.randrange(4))]
    writer.writerow(names)
    pool = random.choice((CELLS[:9], CELLS[:9], (*CELLS, *mutate.TEXTS)))
    width = len(names) + random.choice((0, 0, 0, 0, -1, 1))
    for _ in range(random.choice((1, 3, 100))):
        cells = [random.choice(pool), random.choice(("yes", "FALSE", "", "0")), *random.choices(pool, k=width)]
        writer.writerow(cells[:width])
    text = file.getvalue()
    match random.randrange(10):
        case 0:
            data = b"text\n" + random.choice((b'"', b",", b'",', b"\n", b"a\r", b'"a"')) * 3_000_000
        case 1:
            data = b"text," * random.choice((100, 300, 1_000_000)) + b"\nx\n"
        case 2 | 3:
            data = mutate.damaged(random, text.encode(random.choice(("utf-16", "utf-8")), "surrogatepass"))
        case _:
            data = text.encode(random.choice(("utf-8-sig", "utf-16", "utf-8")), "replace")
    path.write_bytes(data)
    wanted, shown = random.choice(STATES), random.choice((None, None, "text", "urgent"))
    for name in ("a", "yes", "é"):
        (folder / name).write_bytes(PICTURE if random.random() < 0.5 else mutate.damaged(random, PICTURE))
    questions = _questions()

    def attempt() -> None:
        table = read_table(path)
        states = states_of(table, wanted, shown)
        assert all(state.text.strip() or state.picture for state in states)
        for state in states[:20]:
            with suppress(SafelightError):
                assert len(state.pictures()) == bool(state.picture)
        label = label_column(table, questions[0])
        if label is not None:
            assert all(option_of(questions[0], row.cells[label]) in (None, 0, 1) for row in table.rows)
        columns = result_columns(table, questions, is_repeated=False)
        answers = tuple(TypedAnswer(one, (1.0, *[0.0] * (len(one.options) - 1)), 1.0) for one in questions)
        written = io.StringIO(header_line(columns, table.delimiter)[1:], newline="")
        written.seek(0, io.SEEK_END)
        written.writelines(result_line(table, row, answers, len(columns), is_repeated=False) for row in table.rows)
        written.seek(0)
        lines = list(csv.reader(written, delimiter=table.delimiter, strict=True))
        assert len(lines) == len(states) + 1
        assert all(len(line) == len(columns) for line in lines)
        starts = {cell.lstrip()[0] for line in lines for cell in line if cell.strip() and not _is_number(cell)}
        assert not starts & set("=+-@"), starts

    return attempt


def _is_number(cell: str) -> bool:
    return set(cell.strip()) <= set("0123456789+-.,eE% ")


def _file(random: Random, folder: Path) -> Attempt:
    path = folder / "questions.json"
    path.write_bytes(mutate.dumped(random, mutate.tree(random, random.choice((QUESTIONS, QUESTIONS["questions"])))))

    def attempt() -> None:
        found = read_question_file(path)
        again = json.loads(json.dumps(found.to_json(), allow_nan=False))
        assert question_file_from_json(again).to_json() == found.to_json()

    return attempt


KINDS = (Kind("decision-tables", _table), Kind("question-files", _file, in_window=True))
