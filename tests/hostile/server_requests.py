"""Requests to a server with all that they may hold, and damage at any place of them."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from tests.hostile import mutate

QUICK = {"diffusion_max_steps": 2}
TOOL = {
    "type": "function",
    "function": {
        "name": "look_up",
        "parameters": {"type": "object", "properties": {"a": {"type": ["string", "null"]}}},
    },
}
CHAT = {"role": "user", "content": "Reverse the word robot."}
CALL = {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": '{"a": "b"}'}}
IMAGE = {"digest": "0" * 64, "width": 4, "height": 3, "at": 0}
SHOWN = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"}}
PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
SAMPLED: dict[str, Any] = {
    "model": "safelight-mini", "max_tokens": 8, "seed": 1, "stop": ["x", "yz"], "temperature": 0.5, "user": "me",
    "vllm_xargs": QUICK, "top_p": 0.9, "top_k": -1, "presence_penalty": 1, "logit_bias": {}, "n": 1,
    "unheard": {"of": 1},
}  # fmt: skip
SCHEMA: dict[str, Any] = {
    "type": "json_schema",
    "json_schema": {
        "name": "place", "strict": True, "description": None,
        "schema": {
            "type": "object", "required": ["a"], "additionalProperties": False,
            "properties": {
                "a": {"type": "string", "maxLength": 3}, "b": {"enum": ["x", 1, None]},
                "c": {"type": "array", "items": {"anyOf": [{"type": "integer", "minimum": 0}, {"$ref": "#/$defs/d"}]}},
            },
            "$defs": {"d": {"type": "string", "pattern": "^[a-c]+$"}},
        },
    },
}  # fmt: skip
SOURCE: dict[str, Any] = {"kind": "chat", "messages": [CHAT], "config": {"max_denoising_steps": 2}, "seed": 3}
DECISION: dict[str, Any] = {
    "state": "It is ten.", "instructions": "", "is_joint": True, "first": 1, "repeats": 2,
    "questions": [
        ["late", {"type": "noul", "instructions": "Is it late?", "criteria": {"true": "after ten"}}],
        ["where", {"type": "choice", "instructions": "Where?", "criteria": {"home": None, "away": "not at home"}}],
        ["loud", {"type": "score", "instructions": "How loud?", "criteria": ["low", {"label": "high"}]}],
    ],
}  # fmt: skip
GOOD: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/v1/chat/completions", {"messages": [CHAT], **SAMPLED}),
    ("/v1/chat/completions", {
        "messages": [{"role": "system", "content": "Be brief."}, CHAT], **SAMPLED, "stream": True,
        "stream_options": {"include_usage": True}, "diffusion_frames": True, "logprobs": True, "top_logprobs": 3,
    }),
    ("/v1/chat/completions", {
        "messages": [
            CHAT, {"role": "assistant", "content": None, "tool_calls": [CALL], "reasoning_content": "so"},
            {"role": "tool", "content": "c", "tool_call_id": "call_1"},
            {"role": "user", "content": [{"type": "text", "text": "a"}]},
        ],
        "tools": [TOOL], "tool_choice": "none", "parallel_tool_calls": False, "max_completion_tokens": 8,
        "prediction": {"type": "content", "content": "tobor"}, "chat_template_kwargs": {"enable_thinking": False},
        "reasoning_effort": "none", "response_format": {"type": "text"}, "metadata": {"a": "b"}, "vllm_xargs": QUICK,
    }),
    ("/v1/completions", {"prompt": "What is 2 + 2?", **SAMPLED, "logprobs": 2, "echo": False, "suffix": ""}),
    ("/v1/completions", {"prompt": [5, 6, 7], **SAMPLED, "stream": True}),
    ("/v1/completions", {"prompt": "a ", **SAMPLED, "suffix": " c", "vllm_xargs": QUICK}),
    ("/v1/completions", {"prompt": "<|fim_prefix|>a <|fim_suffix|> c<|fim_middle|>", **SAMPLED, "vllm_xargs": QUICK}),
    ("/v1/fim/completions", {"prompt": "a ", "suffix": " c", "random_seed": 1, "max_tokens": 4, "stream": True}),
    ("/infill", {
        "input_prefix": "a\n", "input_suffix": "\nc", "prompt": "b", "n_predict": 4, "n_indent": 4, "stop": ["x"],
        "input_extra": [{"filename": "d.py", "text": "d\n", "time": [1, 2]}], "t_max_predict_ms": 250, "n_cmpl": 2,
        "samplers": ["top_k"], "response_fields": ["content", "timings/prompt_n", "truncated"], "stream": False,
    }),
    ("/v1/completions", {
        "prompt": [[5, 6, 7], [2, 3]], **SAMPLED, "n": 2, "echo": True, "logprobs": 1, "max_tokens": 1, "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }),
    ("/v1/completions", {"prompt": ["a", "b"], "echo": True, "logprobs": 3, "max_tokens": 0, "seed": 2**63 - 1}),
    ("/v1/chat/completions", {"messages": [CHAT], **SAMPLED, "n": 3, "diffusion_frames": True, "stream": True}),
    ("/v1/responses", {
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Reverse the word robot."}]},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "so"}]},
            {"type": "function_call", "call_id": "call_1", "name": "look_up", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_1", "output": "c"},
        ],
        "instructions": "Be brief.", "max_output_tokens": 4, "tools": [{"type": "function", "name": "look_up"}],
        "tool_choice": "none", "store": False, "stream": True, "metadata": {"a": "b"}, "reasoning": {"effort": "none"},
        "text": {"format": {"type": "text"}}, "temperature": 1, "top_p": 1,
    }),
    ("/v1/responses", {"input": "What is 2 + 2?", "max_output_tokens": 4, "seed": 1}),
    ("/v1/chat/completions", {"messages": [CHAT], "response_format": SCHEMA, "max_tokens": 8, "vllm_xargs": QUICK}),
    ("/v1/completions", {
        "prompt": "a", "structured_outputs": {"json": SCHEMA["json_schema"]["schema"], "regex": None}, "max_tokens": 4,
        "vllm_xargs": QUICK, "guided_choice": None,
    }),
    ("/v1/completions", {"prompt": "a", "guided_regex": "(a|b){1,3}[c-e]?", "max_tokens": 4, "vllm_xargs": QUICK}),
    ("/v1/responses", {
        "input": "a", "max_output_tokens": 4, "text": {"format": {"type": "json_schema", **SCHEMA["json_schema"]}},
    }),
    ("/v1/responses", {
        "input": [{"type": "message", "role": "user", "content": "a", "note": 1}], "max_output_tokens": -1,
        "include": ["reasoning.encrypted_content", "message.output_text.logprobs"], "store": True, "top_logprobs": 2,
        "tools": [{"type": "web_search"}, {"type": "function", "name": "look_up", "note": 1}], "truncation": "auto",
        "tool_choice": {"type": "allowed_tools", "mode": "none", "tools": [{"type": "function", "name": "look_up"}]},
        "reasoning": {"summary": "auto"}, "text": {"verbosity": "low"}, "client_metadata": {"a": "b"},
    }),
    ("/v1/messages", {
        "model": "claude-x", "max_tokens": 4, "system": [{"type": "text", "text": "Be brief.", "cache_control": {}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Look."}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "so", "signature": "s"}, {"type": "redacted_thinking", "data": "x"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "call_1", "name": "look_up", "input": {"a": "b"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "call_1", "content": [{"type": "text", "text": "c"}]},
                {"type": "text", "text": "And?"},
            ]},
        ],
        "stop_sequences": ["x"], "stream": True, "temperature": 0.5, "top_p": 0.9, "top_k": 5,
        "thinking": {"type": "enabled", "budget_tokens": 8}, "tool_choice": {"type": "none"},
        "metadata": {"user_id": "me"}, "output_config": {"effort": "low"},
    }),
    ("/v1/messages", {
        "max_tokens": 4, "messages": [CHAT, {"role": "user", "content": [PNG]}],
        "output_config": {"format": {"type": "json_schema", "schema": SCHEMA["json_schema"]["schema"]}},
    }),
    ("/v1/messages/count_tokens", {
        "messages": [CHAT], "tools": [{"name": "look_up", "input_schema": {"type": "object"}}, {"type": "bash_1"}],
    }),
    ("/api/chat", {
        "model": "safelight-mini:latest", "messages": [
            {"role": "user", "content": "Reverse the word robot."},
            {"role": "assistant", "content": "", "thinking": "so", "tool_calls": [{"function": CALL["function"]}]},
            {"role": "tool", "tool_name": "look_up", "content": "c"}, {"role": "user", "content": "a", "images": []},
        ],
        "stream": True, "format": "json", "keep_alive": "5m", "think": "low", "logprobs": True, "top_logprobs": 2,
        "options": {"num_predict": 4, "temperature": 0.5, "seed": -1, "stop": ["x"], "num_ctx": 9, "top_k": 3},
    }),
    ("/api/generate", {
        "model": "safelight-mini", "prompt": "a", "raw": True, "stream": False, "options": {"num_predict": 4},
        "format": SCHEMA["json_schema"]["schema"], "suffix": "", "system": "Be brief.", "images": [],
    }),
    ("/api/show", {"name": "safelight-mini"}),
    ("/v1/decisions", {
        "model": "safelight-mini", "input": "12 and 7", "safety_identifier": "me", "prompt_cache_key": "a",
        "questions": [
            {"type": "predicate", "instructions": "Is it so?", "name": "so"},
            {"type": "choice", "instructions": [{"type": "input_text", "text": "Which?"}],
             "choices": [{"value": "12"}, {"value": False, "description": "b"}]},
            {"type": "score", "instructions": "How much?", "levels": [{"label": "a"}, {"label": "b"}], "name": None},
        ],
        "repeats": 1, "temperature": 1.5,
    }),
    ("/v1/decisions", {
        "input": [
            {"role": "assistant", "content": "So.", "type": "message"},
            {"role": "user", "content": [{"type": "input_json", "data": {"a": [1]}}]},
        ],
        "questions": [{"type": "predicate", "instructions": "Is it so?"}] * 3, "joint": True,
    }),
    ("/v1/embeddings", {"input": "a"}),
    ("/safelight/v1/tokens/count", {"messages": [CHAT]}),
    ("/safelight/v1/run", {**SOURCE, "think": False, "reserve": 4, "tools": [TOOL], "adapter": None}),
    ("/safelight/v1/run", {"kind": "decision", "decision": DECISION, "config": {}, "seed": 1}),
    ("/safelight/v1/run", {**SOURCE, "messages": [{**CHAT, "images": [IMAGE]}]}),
    ("/safelight/v1/pictures/missing", {"digests": [IMAGE["digest"]]}),
    ("/safelight/v1/pictures", {"a": 1}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": [SHOWN]}], **SAMPLED}),
)  # fmt: skip
PATHS = (
    "/api/tags", "/api/ps", "/api/version",
    "/v1/models", "/v1/models/", "/v1/models/safelight-mini:x", "/health", "/", "/safelight/v1/model",
    "/safelight/v1/tokenizer", "/v1/chat/completions", "/" + "a" * 9_000, "/%00", "/%ff/..%2f..", "/v1//models", "*",
    "http://evil.example/v1/models", "/v1/models?" + "a=b&" * 3_000, "//v1/models", "/v1/models/%F0%9F%92%A9",
)  # fmt: skip
HEADERS = (
    "Host", "Origin", "Authorization", "Content-Type", "Content-Length", "Transfer-Encoding", "Content-Encoding",
    "Expect", "X-Api-Key", "Connection", "Upgrade", "If-None-Match", "Accept-Encoding",
    "Access-Control-Request-Method",
)  # fmt: skip
VALUES = (
    "", "x", "a" * 70_000, "chunked", "gzip", "100-continue", "-1", "99999999999999999999", "0x10", "1, 2", "null",
    "*", "é", "\x01", "http://127.0.0.1", "http://evil.example", "Bearer \x7f", "Bearer é", "text/plain", "websocket",
    "application/json; charset=utf-16", "application/octet-stream", "multipart/form-data; boundary=x",
)  # fmt: skip


def _body(random: Random, raw: dict[str, Any]) -> bytes:
    match random.randrange(10):
        case 0:
            return mutate.damaged(random, json.dumps(raw).encode())
        case 1:
            name = random.choice(tuple(raw))
            raw = raw | {name: mutate.value(random)}
        case 2:
            raw = raw | {random.choice((*mutate.TEXTS, *mutate.NAMES, *VALUES[:2])): mutate.value(random)}
        case 3:
            schema = mutate.tree(random, TOOL, changes=random.randrange(1, 6))
            raw = raw | {"tools": random.choice(([schema], schema, [schema] * 200))}
        case 4:
            wanted = random.choice(("diffusion_canvas_length", "diffusion_max_steps", "diffusion_x"))
            raw = raw | {"vllm_xargs": {wanted: random.choice((mutate.value(random), json.dumps([1] * 64)))}}
        case 5:
            raw = raw | {"logit_bias": {random.choice(mutate.TEXTS): mutate.value(random)}}
        case _:
            raw = mutate.tree(random, raw)
    return mutate.dumped(random, raw)


def _chunked(random: Random, body: bytes) -> bytes:
    size = random.choice((1, 7, 1_000)) if len(body) < 20_000 else 10_000
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    made = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    if random.random() < 0.4:
        sizes = (b"FFFFFFFFFFFFFFFF", b"-1", b"g", b"5;" + b"x" * 50_000, b"0" * 50_000, b"\x00")
        made = random.choice(sizes) + b"\r\n" + made
    return made


def damaged_request(random: Random, port: int, key: str) -> bytes:
    """Any of the good ones, with damage at one place or another; some have none."""
    path, raw = random.choice(GOOD)
    method, body = "POST", json.dumps(raw).encode()
    fields = {"Host": f"127.0.0.1:{port}", "Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    match random.randrange(12):
        case 0:
            method = random.choice(("GET", "PUT", "HEAD", "OPTIONS", "TRACE", "CONNECT", "post", "A" * 5_000, "G\x00T"))
            path = random.choice((path, *PATHS))
        case 1:
            path = random.choice((*PATHS, *(f"/{text}" for text in mutate.TEXTS)))
        case 2 | 3:
            pass
        case _:
            body = _body(random, raw)
    if random.random() < 0.15:
        fields |= {"Transfer-Encoding": "chunked"}
        body = _chunked(random, body)
    else:
        fields |= {"Content-Length": str(len(body))}
    if random.random() < 0.2:
        fields[random.choice(HEADERS)] = random.choice(VALUES)
    if random.random() < 0.03:
        fields |= {f"X-{number}": "y" * 50 for number in range(random.choice((50, 3_000)))}
    if random.random() < 0.5:
        fields |= {"Connection": random.choice(("close", "keep-alive"))}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    if random.random() < 0.05:
        lines.insert(1, random.choice(lines[1:-2]))
    data = "\r\n".join(lines).encode("utf-8", "surrogatepass") + body
    return mutate.damaged(random, data) if random.random() < 0.15 else data
