"""The forms in which Open WebUI, LM Studio and Jan export or keep chats, of 2026 and before."""

from __future__ import annotations

import contextlib
import html
import json
import re
from collections.abc import Iterator

from app.library.foreign import Archive, ForeignChat, ForeignNode, Side
from app.library.foreign_fields import Json, arguments_of, attached, plain_text, seconds, text_of

_DETAILS = re.compile(r"<details\b([^>]*)>(.*?)</details>\s*", re.DOTALL)
_FACT = re.compile(r'(\w+)="([^"]*)"')


def read_open_webui(entry: Json, _name: str) -> ForeignChat:
    chat = entry["chat"]
    history = chat.get("history") or {}
    messages = history.get("messages") or {}
    if not messages:  # before there were branches
        listed = chat.get("messages") or []
        ids = [str(message.get("id", place)) for place, message in enumerate(listed)]
        parents: list[str | None] = [None, *ids[:-1]]
        messages = {id: {**one, "parentId": parent} for id, one, parent in zip(ids, listed, parents, strict=True)}
    nodes = dict[str, ForeignNode]()
    system_prompt = text_of((chat.get("params") or {}).get("system") or chat.get("system"))
    for id, message in messages.items():
        role = message.get("role")
        node = ForeignNode(message.get("parentId"), "", created=seconds(message.get("timestamp")))
        nodes[id] = node
        if role == "system":
            system_prompt = system_prompt or plain_text(message.get("content"))
        if role not in ("user", "assistant"):
            continue
        node.side, node.model = role, text_of(message.get("model") or message.get("modelName"))
        text = plain_text(message.get("content"))
        if role == "assistant":
            found = [(dict(_FACT.findall(facts)), body) for facts, body in _DETAILS.findall(text)]
            node.thinking = "\n\n".join(_quoted(body) for facts, body in found if facts.get("type") == "reasoning")
            for facts in (facts for facts, _ in found if facts.get("type") == "tool_calls"):
                arguments = arguments_of(_result(facts.get("arguments", "")))
                node.calls += ((facts.get("id", ""), html.unescape(facts.get("name", "")), arguments),)
                node.results += ((facts.get("id", ""), _result(facts.get("result", ""))),)
            text = _DETAILS.sub(lambda one: "" if 'type="' in one[1] else one[0], text)
        files = [file for file in message.get("files") or () if isinstance(file, dict)]
        node.pictures = tuple(text_of(file.get("url")) for file in files if file.get("type") == "image")
        node.files = tuple(
            attached(text_of(file.get("name")), text_of(((file.get("file") or {}).get("data") or {}).get("content")))
            for file in files
            if file.get("type") != "image"
        )
        node.text = text
    current = text_of(history.get("currentId")) or next(reversed(messages), None)
    return ForeignChat(
        f"open-webui:{entry.get('id') or chat.get('id')}",
        text_of(entry.get("title") or chat.get("title")),
        seconds(entry.get("created_at") or chat.get("timestamp")),
        seconds(entry.get("updated_at")),
        nodes,
        current,
        system_prompt,
        bool(entry.get("pinned")),
    )


def _quoted(body: str) -> str:
    text = re.sub(r"<summary>.*?</summary>", "", html.unescape(body), flags=re.DOTALL).strip()
    return re.sub(r"^> ?", "", text, flags=re.MULTILINE)


def _result(text: str) -> str:
    """Returns a value of an attribute: escaped for HTML, and often a text in JSON in addition."""
    plain = html.unescape(text)
    with contextlib.suppress(ValueError):
        value = json.loads(plain)
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return plain


def read_lm_studio(chat: Json, name: str) -> ForeignChat:
    nodes, before = dict[str, ForeignNode](), ""
    created = seconds(chat.get("createdAt"))
    for place, message in enumerate(chat["messages"]):
        versions = message.get("versions") or []
        chosen = message.get("currentlySelected")
        chosen = chosen if isinstance(chosen, int) and 0 <= chosen < len(versions) else len(versions) - 1
        following = ""
        for number, version in enumerate(versions):
            parent = before or None
            for step, part in enumerate(_lm_studio_parts(version)):
                id = f"{place}.{number}.{step}"
                part.parent, part.created = parent, created
                nodes[id], parent = part, id
            following = (parent or "") if number == chosen else following
        before = following or before
    return ForeignChat(
        f"lm-studio:{chat.get('createdAt') or name}",
        text_of(chat.get("name")),
        created,
        seconds(chat.get("userLastMessagedAt") or chat.get("assistantLastMessagedAt")),
        nodes,
        before,
        text_of(chat.get("systemPrompt")),
        bool(chat.get("pinned")),
    )


def _lm_studio_parts(version: Json) -> Iterator[ForeignNode]:
    """Yields the steps of a message as nodes in a row."""
    role = version.get("role")
    side: Side = "user" if role == "user" else "assistant" if role == "assistant" else ""
    model = text_of((version.get("senderInfo") or {}).get("senderName"))
    steps = version["steps"] if version.get("type") == "multiStep" else [{**version, "type": "contentBlock"}]
    for step in steps:
        if step.get("type") != "contentBlock":
            continue
        parts = [part for part in step.get("content") or () if isinstance(part, dict)]
        text = "".join(text_of(part.get("text")) for part in parts if part.get("type", "text") == "text")
        node = ForeignNode(None, side, model=model)
        if (step.get("style") or {}).get("type") == "thinking":
            node.thinking = text
        else:
            node.text = text
        node.files = tuple(
            attached(text_of(part.get("fileIdentifier")))
            for part in parts
            if part.get("type") == "file" and part.get("fileType") != "image"
        )
        node.calls = tuple(
            (
                text_of(part.get("callId") or part.get("toolCallRequestId")),
                text_of(part.get("name")),
                part.get("parameters") or {},
            )
            for part in parts
            if part.get("type") == "toolCallRequest"
        )
        node.results = tuple(
            (text_of(part.get("toolCallId") or part.get("toolCallRequestId")), plain_text(part.get("content")))
            for part in parts
            if part.get("type") == "toolCallResult"
        )
        yield node


def read_jan(archive: Archive, name: str) -> ForeignChat:
    thread: Json = next(archive.items(name), {})  # of an empty file
    lines = name.removesuffix("thread.json") + "messages.jsonl"
    nodes, before = dict[str, ForeignNode](), None
    messages = list(archive.items(lines)) if lines in archive.names else []
    assistant = next(iter(thread.get("assistants") or ()), None) or {}
    system_prompt = text_of(assistant.get("instructions"))
    for place, message in enumerate(messages):
        id, role = text_of(message.get("id")) or str(place), message.get("role")
        content = message.get("content")
        parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
        texts = [part.get("text") for part in parts if part.get("type") == "text"]
        text = "\n\n".join(text_of(one.get("value") if isinstance(one, dict) else one) for one in texts)
        text = text or text_of(content)
        if role == "system":
            system_prompt = text
            continue
        side: Side = "user" if role == "user" else "assistant" if role in ("assistant", "tool") else ""
        thought = re.match(r"\s*<think>(.*?)</think>\s*", text, re.DOTALL)
        thoughts = [text_of(part.get("text")) for part in parts if part.get("type") == "reasoning"]
        node = ForeignNode(before, side, text, "\n\n".join(thoughts))
        if thought:
            node.text, node.thinking = text[thought.end() :], thought[1].strip() or node.thinking
        node.created = seconds(message.get("created_at") or message.get("created"))
        node.model = text_of((assistant.get("model") or {}).get("id")) if side == "assistant" else ""
        addresses = [(part.get("image_url") or {}).get("url") for part in parts if part.get("type") == "image_url"]
        node.pictures = tuple(text_of(one) for one in addresses if one)
        for call in (message.get("metadata") or {}).get("tool_calls") or ():
            tool, result = call.get("tool") or call, plain_text((call.get("response") or {}).get("content"))
            called, id_of_call = tool.get("function") or {}, text_of(tool.get("id"))
            arguments = arguments_of(text_of(called.get("arguments")))
            node.calls += ((id_of_call, text_of(called.get("name")), arguments),)
            node.results += ((id_of_call, result),)
        nodes[id], before = node, id
    return ForeignChat(
        f"jan:{thread.get('id') or name}",
        text_of(thread.get("title")),
        seconds(thread.get("created") or thread.get("created_at")),
        seconds(thread.get("updated") or thread.get("updated_at")),
        nodes,
        before,
        system_prompt,
        bool((thread.get("metadata") or {}).get("is_favorite") or thread.get("isFavorite")),
    )
