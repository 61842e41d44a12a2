"""Rows of questions with tools: the tools' names and a question, and the call; or a call's result, and the answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from engine.text.chat_template import ChatTemplate
from engine.text.message import Message
from engine.text.output import OutputParser
from engine.text.output_parts import ContentPart, ToolCallPart, joined_text
from engine.text.tags import CALL, CALL_END, MARK
from engine.tools.example_tools import TOOLS
from engine.training.puzzles import TrainingBatch, left_padded
from small_models import tool_questions
from small_models.recipes import TOOL_MARKS
from small_models.rows import RowStream
from small_models.tokenizer import CALLING_TEMPLATE, EOS, build_tokenizer
from small_models.tool_questions import ToolQuestion

CALL_PROMPT, RESULT_PROMPT = 112, 184
"""Tokens of the prompts; longer ones are not drawn."""
DROPPED = 0.6  # share of the results that are not drawn, so that there are more later blocks
_TEMPLATE = ChatTemplate(CALLING_TEMPLATE, {"bos_token": "<bos>"})


class ToolSource(RowStream):
    """Draws questions and one block of what is written for them.

    ``results``: those for a tool, with its call and result in the prompt; and later blocks of the long answers that
    skills have. Else the first block.
    """

    def __init__(self, canvas_length: int, seed: int, results: bool) -> None:
        super().__init__(seed, "results" if results else "calls")
        self.canvas_length, self.results = canvas_length, results
        self.prompt_length = RESULT_PROMPT if results else CALL_PROMPT
        self.tokenizer = build_tokenizer(TOOL_MARKS)

    def draw(self, count: int) -> TrainingBatch:
        prompts, targets = list[list[int]](), list[list[int]]()
        while len(prompts) < count:
            asked = tool_questions.sample(self.rng, "train")
            if self.results and asked.tool and self.rng.random() < DROPPED:
                continue
            blocks = len(asked.answer) // self.canvas_length  # whole ones before the one with the end
            start = self.canvas_length * self.rng.randint(1, blocks) if self.results and blocks else 0
            if self.results and not asked.tool and not start:
                continue
            before = asked.answer[:start]
            prompt = self.tokenizer.encode(prompt_of(asked, self.results and bool(asked.tool)) + before).ids
            if len(prompt) > self.prompt_length:
                continue
            written = call_of(asked) if asked.tool and not self.results else asked.answer[start:]
            target = self.tokenizer.encode(written).ids[: self.canvas_length]
            prompts.append(prompt)
            targets.append(target + [EOS] * (self.canvas_length - len(target)))
        return left_padded(prompts, targets, self.prompt_length)


def prompt_of(asked: ToolQuestion, with_result: bool) -> str:
    """Returns the prompt as the chat template renders it."""
    messages: list[Message] = [{"role": "user", "content": asked.question}]
    if with_result:
        messages += called(asked)
    return _TEMPLATE.render(messages, declared(asked.offered))


def called(asked: ToolQuestion) -> list[Message]:
    """Returns the messages of a question's call and its result."""
    call = {"type": "function", "function": {"name": asked.tool, "arguments": dict(asked.arguments)}}
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": asked.tool, "content": asked.result},
    ]


def call_of(asked: ToolQuestion) -> str:
    """Returns the call as the model writes it."""
    arguments = ",".join(f"{name}:{MARK}{value}{MARK}" for name, value in asked.arguments.items())
    return f"{CALL}call:{asked.tool}{{{arguments}}}{CALL_END}"


def declared(names: Sequence[str]) -> list[dict[str, Any]]:
    """Returns tools as chat templates take them; those that nobody knows take no arguments."""
    return [
        TOOLS[name].declaration
        if name in TOOLS
        else {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
        for name in names
    ]


def read_output(text: str) -> tuple[str, list[tuple[str, Any]]]:
    """Returns the text and the calls of an output; arguments that are no JSON are None."""
    parser = OutputParser()
    parts = [*parser.feed(text), *parser.finish()]
    calls = list[tuple[str, Any]]()
    for part in parts:
        if isinstance(part, ToolCallPart):
            try:
                calls.append((part.name, json.loads(part.arguments or "{}")))
            except ValueError:
                calls.append((part.name, None))
    return joined_text(parts, ContentPart).strip(), calls
