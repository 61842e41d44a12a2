"""Conversations with a text in one field, and the control tokens of their prompts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any

from engine.text.chat_template import ChatTemplate
from engine.text.tokenizer import Tokenizer

Conversation = tuple[list[dict[str, Any]], list[dict[str, Any]]]
Change = Callable[[Conversation, str], object]


def conversation() -> Conversation:
    """A call, its result, and the answer; every text is ``hi``."""
    call = {
        "id": "abcdefghi",
        "type": "function",
        "function": {"name": "hi", "arguments": {"hi": "hi", "more": {"hi": ["hi"]}}},
    }
    messages = [
        {"role": "system", "content": "hi"},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "hi", "reasoning_content": "hi", "tool_calls": [call]},
        {"role": "tool", "content": "hi", "name": "hi", "tool_call_id": "abcdefghi"},
        {"role": "assistant", "content": "hi", "reasoning_content": "hi"},
        {"role": "user", "content": "ho"},  # some templates compare it to the first
    ]
    member = {"type": "string", "description": "hi", "enum": ["hi"]}
    inner = {"type": "object", "properties": {"hi": {"type": "string", "description": "hi"}}}
    schema = {"type": "object", "properties": {"hi": member, "more": inner}, "required": ["hi"]}
    tool = {"type": "function", "function": {"name": "hi", "description": "hi", "parameters": schema}}
    return messages, [tool]


def _renamed(found: dict[str, Any], name: str) -> None:
    found[name] = found.pop("hi")


FIELDS: dict[str, Change] = {
    "system": lambda c, text: c[0][0].update(content=text),
    "user": lambda c, text: c[0][1].update(content=text),
    "last user": lambda c, text: c[0][-1].update(content=text),
    "assistant with a call": lambda c, text: c[0][2].update(content=text),
    "assistant": lambda c, text: c[0][4].update(content=text),
    "thought with a call": lambda c, text: c[0][2].update(reasoning_content=text),
    "thought": lambda c, text: c[0][4].update(reasoning_content=text),
    "name of a call": lambda c, text: c[0][2]["tool_calls"][0]["function"].update(name=text),
    "id of a call": lambda c, text: (c[0][2]["tool_calls"][0].update(id=text), c[0][3].update(tool_call_id=text)),
    "argument": lambda c, text: c[0][2]["tool_calls"][0]["function"]["arguments"].update(hi=text),
    "name of an argument": lambda c, text: _renamed(c[0][2]["tool_calls"][0]["function"]["arguments"], text),
    "argument within": lambda c, text: c[0][2]["tool_calls"][0]["function"]["arguments"]["more"].update(hi=[text]),
    "name within": lambda c, text: _renamed(c[0][2]["tool_calls"][0]["function"]["arguments"]["more"], text),
    "result": lambda c, text: c[0][3].update(content=text),
    "name of a result": lambda c, text: c[0][3].update(name=text),
    "name of a tool": lambda c, text: c[1][0]["function"].update(name=text),
    "description of a tool": lambda c, text: c[1][0]["function"].update(description=text),
    "name of a parameter": lambda c, text: (
        _renamed(c[1][0]["function"]["parameters"]["properties"], text),
        c[1][0]["function"]["parameters"].update(required=[text]),
    ),
    "parameter": lambda c, text: c[1][0]["function"]["parameters"]["properties"]["hi"].update(description=text),
    "enum": lambda c, text: c[1][0]["function"]["parameters"]["properties"]["hi"].update(enum=[text]),
    "parameter within": lambda c, text: c[1][0]["function"]["parameters"]["properties"]["more"]["properties"].update(
        hi={"type": "string", "description": text}
    ),
    "keyword": lambda c, text: c[1][0]["function"]["parameters"]["properties"]["hi"].update({"hi": text}),
    "name of a keyword": lambda c, text: c[1][0]["function"]["parameters"]["properties"]["hi"].update({text: "hi"}),
}


def variants(found: Conversation) -> Iterator[Conversation]:
    """A conversation, and what is left of it for templates that know no tools or no system's text."""
    messages, tools = found
    plain = [m for m in messages if m["role"] != "tool" and "tool_calls" not in m]
    for said, offered in ((messages, tools), (plain, tools), (plain, [])):
        yield said, offered
        yield [m for m in said if m["role"] != "system"], offered


def with_text(field: str, text: str) -> Conversation:
    """The conversation with a text in one field."""
    found = conversation()
    FIELDS[field](found, text)
    return found


_TOKENS = re.compile(r"<[^<>\s'\"{}~=]{1,40}>|\[[^\[\]\s'\"{}~]{2,30}\]|<\|\"\|>|\]<\]minimax\[>\[|\]~[!b]?b?\[?")


def control_tokens(source: str) -> list[str]:
    """Returns all that a template writes in brackets, as if each was a token; and two that most vocabularies have."""
    return sorted({*_TOKENS.findall(source), "<|im_end|>", "<tool_call>"})


def tokenizer(tokens: list[str], special: Collection[str] | None = None) -> Tokenizer:
    """A tokenizer of single characters and bytes, and these tokens; unless it is said, every second is special."""
    special = tokens[::2] if special is None else special
    letters = [chr(code) for code in range(32, 127)] + ["\n"]
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    known = list(dict.fromkeys([*bytes_, *letters, *tokens]))
    added = [
        {"id": known.index(token), "content": token, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": token in special}
        for token in tokens
    ]  # fmt: skip
    model = {"type": "BPE", "byte_fallback": True, "vocab": {t: n for n, t in enumerate(known)}, "merges": []}
    raw = {"version": "1.0", "added_tokens": added, "normalizer": None, "pre_tokenizer": None, "decoder": None}
    return Tokenizer.from_bytes(json.dumps(raw | {"model": model}).encode(), "tokenizer.json")


def control_count(template: ChatTemplate, known: Tokenizer, tokens: list[str], found: Conversation) -> int:
    """Returns the number of control tokens in a conversation's prompt."""
    ids = known.encode_rendered(template.render(*found, inert=known.inert))
    control = {known.token_id(token) for token in tokens}
    return sum(token in control for token in ids)
