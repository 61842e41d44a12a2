"""Conversations that somebody else has exported."""

from __future__ import annotations

import copy
import functools
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from app.library import Attachment, Library, NewMessage, transfer
from app.library.conversations import ConversationStore
from app.state.chat.attachment import AttachedPicture
from app.state.chat.conversation import ChatState
from app.state.chat.versions import Versions
from engine.declared import plain
from tests.engine.drawn import picture
from tests.hostile import mutate
from tests.hostile.kind import Attempt, Kind

SETTINGS = '{"max_new_tokens": 256, "max_denoising_steps": 48, "entropy_bound": 0.1, "trace": "0123456789abcdef"}'
PICTURE = picture()
SHOWN = AttachedPicture("a.png", PICTURE.digest, PICTURE.width, PICTURE.height)
FIGURES = '{"steps": 31, "blocks": 2, "capped_blocks": 0, "seconds": 1.5, "tokens_per_forward": 9.1}'

VALUES = (
    *("text", "", "\x00", "12", "null", '{"a": [', "[]", '[["a"]]', '[["a", 1]]', "[" * 50_000, "9" * 5_000, "1e999"),
    *('{"trace": "../../x", "t_max": "hot", "max_new_tokens": ' + "9" * 400 + "}", '{"steps": true, "seconds": NaN}'),
    *('[{"name": "a", "digest": "../x", "width": 1, "height": 1}]', json.dumps([plain(SHOWN) | {"width": 10**9}])),
    *('{"max_denoising_steps": 1e99, "t_min": [], "t_max": {}}', '{"steps": [1], "seconds": -1, "blocks": 1e300}'),
)


def _walk(chat: ChatState) -> str:
    """Read all that a view may show of a conversation."""
    said = [chat.system_prompt]
    pending: list[Versions[Any]] = [chat.first]
    while pending:
        for turn in pending.pop().items:
            said += [turn.prompt, *(file.name + file.text for file in turn.attachments)]
            said += [f"{shown.name} {shown.digest} {shown.width:,}" for shown in turn.pictures]
            for answer in turn.answers.items:
                figures = answer.figures
                said += [answer.text, answer.thinking, answer.model_title, *answer.notices(), answer.trace_id]
                said.append(
                    f"{figures.steps:,} {figures.seconds or 0:.1f} {answer.config.temperature(0):g} {answer.seed:,}"
                )
                pending.append(answer.following)
    [turn.answer.is_empty for turn in chat.turns]
    text = "\n".join(said)
    text.encode()
    return text


@functools.cache
def _exported() -> dict[str, Any]:
    """A conversation with versions, a file and a picture, as it is exported."""
    library = Library.in_memory()
    id = library.create(title="title é", system_prompt="Be brief.", model="skills")
    parent = None
    for step in range(6):
        files = (Attachment("a.txt", "file " + "x" * 6_000),) if step == 2 else ()
        shown = (SHOWN,) if step == 1 else ()
        asked = NewMessage(parent, "user", f"prompt{step} " + "word " * 80, attachments=files, pictures=shown)
        prompt = library.add(id, asked)
        for version in range(1 + (step == 1)):
            text = f"answer version{version} " + "ü𝒳 " * 30
            settled = {"seed": step, "settings": SETTINGS, "figures": FIGURES}
            parent = library.add(id, NewMessage(prompt, "assistant", text, model="skills", **settled))
    raw: dict[str, Any] = json.loads(transfer.to_json(replace(library.whole(id), pictures=(PICTURE,))))
    library.close()
    return raw


def _shaped(random: Random, raw: dict[str, Any]) -> dict[str, Any]:
    """A conversation that is well formed, and not as any of ours would be."""
    sample = raw["messages"][-1] | {"parent": None, "attachments": []}
    count = random.choice((3, 300, 3_000))
    match random.randrange(6):
        case 0:  # deep
            raw["messages"] = [sample | {"id": n, "parent": n - 1 or None} for n in range(1, count)]
        case 1:  # wide
            raw["messages"] = [sample | {"id": n, "parent": None if n == 1 else 1} for n in range(1, count)]
        case 2:  # any tree, roles at random, several or none shown
            raw["messages"] = [
                sample
                | {
                    "id": 2**40 - n,
                    "parent": random.choice((None, 2**40 - random.randrange(n))) if n else None,
                    "role": random.choice(("user", "assistant")),
                    "shown": random.random() < 0.5,
                }
                for n in range(min(count, 300))
            ]
        case 3:  # long
            raw["messages"][0]["content"] = random.choice(("word ", "x", "𝒳", "文", "- ")) * random.choice((9, 400_000))
        case 4:
            raw["messages"][0]["attachments"] = [{"name": random.choice(mutate.NAMES), "text": "x" * 10_000}] * 90
        case _:
            for name in ("settings", "figures", "content", "model", "error"):
                value = random.choice(VALUES)
                random.choice(raw["messages"])[name] = value
    return raw


def _make_import(random: Random, folder: Path) -> Attempt:
    path = folder / "talk.json"
    raw = copy.deepcopy(_exported())
    match random.randrange(8):
        case 0 | 1 | 2:
            path.write_bytes(mutate.dumped(random, mutate.tree(random, raw)))
        case 3 if random.random() < 0.1:
            random.choice((os.mkfifo, lambda path: path.mkdir(), lambda path: path.symlink_to("/dev/zero")))(path)
        case 3:
            path.write_bytes(mutate.dumped(random, raw))
        case 4 if random.random() < 0.05:
            many = [raw["messages"][0] | {"id": n, "parent": None, "attachments": []} for n in range(1, 20_000)]
            path.write_text(json.dumps(raw | {"messages": many}))
        case _:
            path.write_bytes(json.dumps(_shaped(random, raw), ensure_ascii=random.random() < 0.5).encode())

    def attempt() -> float:
        library = Library.in_memory()
        try:
            return _bring_in(library, path)
        finally:
            library.close()

    return attempt


def _bring_in(library: Library, path: Path) -> float:
    """Import as a window does; then all that may be done with a conversation must work."""
    with ThreadPoolExecutor(1) as reader:  # as the app does, so that it does not hold the window
        whole = reader.submit(transfer.read_file, path).result()
    longest = 0.0
    storing = library.inserting(whole)
    while True:
        began = time.thread_time()
        try:
            next(storing)
        except StopIteration as end:
            id = end.value
            break
        longest = max(longest, time.thread_time() - began)
    began = time.thread_time()
    _walk(ConversationStore(library).open(id))
    longest = max(longest, time.thread_time() - began)
    again = transfer.from_json(transfer.to_json(library.whole(id)))
    assert len(again.messages) == len(whole.messages)
    transfer.to_markdown(library.whole(id))
    library.summaries("answer")
    return longest


KINDS = (Kind("imports", _make_import, in_window=True),)
