"""The forms in which ChatGPT and Claude export chats, of 2026 and before."""

from __future__ import annotations

import re

from app.library.foreign import ForeignChat, ForeignNode, Side
from app.library.foreign_fields import Json, arguments_of, attached, object_of, plain_text, seconds, text_of


def read_chatgpt(chat: Json, _name: str) -> ForeignChat:
    nodes, system_prompt = dict[str, ForeignNode](), ""
    for id, entry in chat["mapping"].items():
        message = entry.get("message") or {}
        role = (message.get("author") or {}).get("role", "")
        meta = message.get("metadata") or {}
        is_hidden = bool(meta.get("is_visually_hidden_from_conversation")) or message.get("weight") == 0
        node = ForeignNode(entry.get("parent"), "", created=seconds(message.get("create_time")))
        nodes[id] = node
        content = message.get("content") or {}
        if role == "system" and not is_hidden:
            system_prompt = system_prompt or _chatgpt_text(content)
        if role not in ("user", "assistant", "tool") or is_hidden:
            continue
        node.side = "user" if role == "user" else "assistant"
        node.model = text_of(meta.get("model_slug"))
        kind, text = content.get("content_type"), _chatgpt_text(content)
        recipient = message.get("recipient") or "all"
        if kind in ("thoughts", "reasoning_recap"):
            node.thinking = text
        elif role == "tool":
            node.results = (("", text),) if text else ()
        elif role == "assistant" and recipient != "all":
            node.calls = ((id, recipient, arguments_of(text)),)
        elif kind not in ("user_editable_context", "model_editable_context"):
            node.text = text
        node.pictures = tuple(
            re.sub(r"^[a-z-]+://", "", part["asset_pointer"])
            for part in content.get("parts") or ()
            if isinstance(part, dict)
            and isinstance(part.get("asset_pointer"), str)
            and "image" in text_of(part.get("content_type"))
        )
        if role == "user":
            node.files = tuple(
                attached(text_of(file.get("name")))
                for file in meta.get("attachments") or ()
                if not text_of(file.get("mime_type", file.get("mimeType"))).startswith("image/")
            )
    return ForeignChat(
        f"chatgpt:{chat.get('conversation_id') or chat.get('id') or chat.get('create_time')}",
        text_of(chat.get("title")),
        seconds(chat.get("create_time")),
        seconds(chat.get("update_time")),
        nodes,
        text_of(chat.get("current_node")) or None,
        system_prompt,
        bool(chat.get("is_starred")),
    )


def _chatgpt_text(content: Json) -> str:
    texts = [part for part in content.get("parts") or () if isinstance(part, str)]
    texts += [text_of(part.get("text")) for part in content.get("parts") or () if isinstance(part, dict)]
    texts += [text_of(content.get(name)) for name in ("text", "result", "content")]
    texts += [
        f"{text_of(one.get('summary'))}\n{text_of(one.get('content'))}".strip() for one in content.get("thoughts") or ()
    ]
    text = "\n\n".join(filter(None, texts))
    return re.sub(r"[\ue200-\ue202][^\ue201]*\ue201|\u3010[^\u3011]*†[^\u3011]*\u3011", "", text)  # marks of citations


def read_claude(chat: Json, _name: str) -> ForeignChat:
    nodes, before = dict[str, ForeignNode](), None
    ids = {message.get("uuid") for message in chat["chat_messages"]}
    for place, message in enumerate(chat["chat_messages"]):
        id = text_of(message.get("uuid")) or str(place)
        parent = message.get("parent_message_uuid", before)  # older exports have no tree
        side: Side = "user" if message.get("sender") == "human" else "assistant"
        node = ForeignNode(parent if parent in ids else None, side, created=seconds(message.get("created_at")))
        parts = [part for part in message.get("content") or () if isinstance(part, dict)]
        node.thinking = "\n\n".join(text_of(part.get("thinking")) for part in parts if part.get("type") == "thinking")
        node.calls = tuple(
            (
                text_of(part.get("id")),
                text_of(part.get("name")),
                object_of(part.get("input")),
            )
            for part in parts
            if part.get("type") == "tool_use"
        )
        node.results = tuple(
            (text_of(part.get("tool_use_id")), plain_text(part.get("content")))
            for part in parts
            if part.get("type") == "tool_result"
        )
        node.text = "\n\n".join(text_of(part.get("text")) for part in parts if part.get("type") == "text")
        node.text = node.text if parts else text_of(message.get("text"))
        files = [*(message.get("attachments") or ()), *(message.get("files") or ())]
        node.files = tuple(
            attached(text_of(file.get("file_name")), text_of(file.get("extracted_content"))) for file in files
        )
        nodes[id], before = node, id
    return ForeignChat(
        f"claude:{chat.get('uuid')}",
        text_of(chat.get("name")),
        seconds(chat.get("created_at")),
        seconds(chat.get("updated_at")),
        nodes,
        text_of(chat.get("current_leaf_message_uuid")) or before,
        pinned=bool(chat.get("is_starred")),
    )
