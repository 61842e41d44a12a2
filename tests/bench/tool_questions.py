"""Held-out questions with tools: how often a small model makes the right call, and the right answer of its result.

``python -m tests.bench.tool_questions [--model safelight-tools] [--count 300] [--free] [--json]``. Each question goes
through the chat template; the real tool runs, and its result goes back. Calls are held to their
schemas as in the chat; ``--free`` lets the model write as it likes.
"""

from __future__ import annotations

import argparse
import datetime
import json
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from small_models.tool_rows import called, declared

from engine import Model, generate, load_model
from engine.events import GenerationFinished
from engine.tasks import tool_questions
from engine.tasks.tool_questions import ToolQuestion, result_of
from engine.text.message import Message
from engine.text.output import OutputParser
from engine.text.output_format import OutputFormat
from engine.text.output_parts import ContentPart, ToolCallArguments, ToolCallStarted, joined_text
from engine.tools.fitting import misfit
from engine.tools.tool import REFUSED

NOW = datetime.datetime(2026, 3, 4, 14, 5, tzinfo=datetime.UTC)


@dataclass(frozen=True)
class Tried:
    """A question's trial: was the call right, did it fit its schema, was the answer right, and how long it took."""

    is_called: bool
    fits: bool
    is_answered: bool
    said: str
    seconds: float


def answered(
    model: Model, messages: Sequence[Message], tools: list[dict[str, Any]], seed: int, *, is_free: bool
) -> tuple[str, list[tuple[str, Any]]]:
    """Runs the model; returns the text and the calls of its output."""
    functions = tuple(tool["function"] for tool in tools)
    held = None if is_free or not tools else OutputFormat("text_or_calls", tools=functions)
    ids, config = model.chat_ids(messages, tools), model.generation_defaults
    events = list(generate(model, ids, config, seed, output_format=held))
    assert isinstance(events[-1], GenerationFinished)
    return read(model.tokenizer.decode(events[-1].tokens.tolist(), skip_special=False))


def read(text: str) -> tuple[str, list[tuple[str, Any]]]:
    """Returns the text and the calls of an output; arguments that are no JSON are None."""
    parser = OutputParser()
    parts = [*parser.feed(text), *parser.finish()]
    names = [part.name for part in parts if isinstance(part, ToolCallStarted)]
    calls = list[tuple[str, Any]]()
    for place, name in enumerate(names):
        raw = "".join(
            part.json_fragment for part in parts if isinstance(part, ToolCallArguments) and part.index == place
        )
        try:
            calls.append((name, json.loads(raw or "{}")))
        except ValueError:
            calls.append((name, None))
    return joined_text(parts, ContentPart).strip(), calls


def tried(model: Model, asked: ToolQuestion, seed: int, *, is_free: bool) -> Tried:
    began, tools = time.perf_counter(), declared(asked.offered)
    messages: list[Message] = [{"role": "user", "content": asked.question}]
    text, calls = answered(model, messages, tools, seed, is_free=is_free)
    wanted = [(asked.tool, dict(asked.arguments))] if asked.tool else []
    fits = all(_fits(name, arguments, tools) for name, arguments in calls)
    if calls == wanted and asked.tool:
        result = REFUSED if asked.result == REFUSED else result_of(asked.tool, asked.arguments, NOW)
        messages += called(replace(asked, result=result))
        text, more = answered(model, messages, tools, seed, is_free=is_free)
        said = text if not more else f"{text} {more}"
    else:
        said = f"{text} {calls}" if calls else text
    is_called = calls == wanted
    return Tried(is_called, fits, is_called and said == asked.answer, said, time.perf_counter() - began)


def _fits(name: str, arguments: Any, tools: Sequence[Mapping[str, Any]]) -> bool:
    schema = next((one["function"]["parameters"] for one in tools if one["function"]["name"] == name), None)
    return schema is not None and isinstance(arguments, dict) and not misfit(arguments, schema)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="safelight-tools")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=7, help="of the questions")
    parser.add_argument("--free", action="store_true")
    parser.add_argument("--show", action="store_true", help="print what went wrong")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    model, rng = load_model(options.model, device="cpu"), random.Random(options.seed)
    found, took = defaultdict[str, list[Tried]](list), list[float]()
    for seed in range(options.count):
        asked = tool_questions.sample(rng, "test", NOW)
        one = tried(model, asked, seed, is_free=options.free)
        for group in ("all", asked.kind, "with a call" if asked.tool else "without a call"):
            found[group].append(one)
        took.append(one.seconds)
        if options.show and not one.is_answered:
            print(f"{asked.offered}\n  {asked.question!r} -> {asked.answer!r}\n  {one.said!r}")
    shares = {
        group: {
            "count": len(all_of),
            "call": round(statistics.mean(one.is_called for one in all_of), 4),
            "fits": round(statistics.mean(one.fits for one in all_of), 4),
            "answer": round(statistics.mean(one.is_answered for one in all_of), 4),
        }
        for group, all_of in found.items()
    }
    median = round(1e3 * statistics.median(took))
    if options.json:
        print(json.dumps({"shares": shares, "ms": median}))
        return
    for group, values in shares.items():
        print(group, values)
    print(f"ms a question, median: {median}")


if __name__ == "__main__":
    main()
