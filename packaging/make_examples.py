"""Makes ``assets/examples``: the files that the commands of the README, the cards and ``--help`` are shown with."""

from __future__ import annotations

import csv
import json
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from small_models import drawings
from small_models.decision_examples import table
from small_models.sudoku_pictures import photograph

from engine.tasks import sudoku
from engine.tasks.decisions.forms import question_to_json
from engine.tasks.drawings import Scene, picture_of

EXAMPLES = Path(__file__).resolve().parent.parent / "assets" / "examples"
SEED, ROWS = 5, 16


def main() -> None:
    EXAMPLES.mkdir(exist_ok=True)
    rng = random.Random(SEED)
    (EXAMPLES / "drawing.png").write_bytes(picture_of(_scene(rng)).data)
    board = sudoku.generate(rng, 36, 40, held_out=True).board
    (EXAMPLES / "sudoku.png").write_bytes(photograph(rng, board, 256).picture().data)
    questions, rows = table(200)
    asked = {question.name: question_to_json(question) for question in questions}
    (EXAMPLES / "questions.json").write_text(json.dumps({"questions": asked}, indent=2) + "\n", encoding="utf-8")
    with (EXAMPLES / "table.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["state", *(f"{question.name}_label" for question in questions)])
        for state, answers in rows[:ROWS]:
            writer.writerow([state, *(one.options[right].name for one, right in zip(questions, answers, strict=True))])
    (EXAMPLES / "note.txt").write_text("Zoe comes on Saturday.\n", encoding="utf-8")


def _scene(rng: random.Random) -> Scene:
    """Returns a drawing of four shapes or more, among them one red circle."""
    while True:
        scene = drawings.sample(rng, "test", 1, "count").scene
        red = [shape for shape in scene.shapes if (shape.colour, shape.kind) == ("red", "circle")]
        if len(scene.shapes) >= 4 and len(red) == 1:
            return scene


if __name__ == "__main__":
    main()
