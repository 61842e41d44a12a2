"""Server-sent events are the same in whatever pieces they come."""

from __future__ import annotations

import random

import pytest

from engine.service.remote import RemoteError, chat
from engine.service.remote.chat import EventReader

STREAM = (
    ': hello\n\ndata: {"a": 1}\n\nevent: x\r\ndata: eins\r\ndata:zwei\r\n\r\nid: 7\rdata: drei\r\rretry: 1\n\n'
    "data: Grüße\n\ndata: [DONE]"
).encode()
FOUND = ['{"a": 1}', "eins\nzwei", "drei", "Grüße", "[DONE]"]


def test_any_split_gives_the_same_events() -> None:
    draw = random.Random(0)
    for count in range(300):
        cuts = sorted(draw.sample(range(len(STREAM) + 1), min(count % 40, len(STREAM))))
        reader, found = EventReader(), list[str]()
        for start, stop in zip([0, *cuts], [*cuts, len(STREAM)], strict=True):
            found += reader.feed(STREAM[start:stop])
        assert found + reader.finish() == FOUND, cuts


@pytest.mark.parametrize("line", [b"x" * 100, b"data: x\n" * 20])
def test_what_never_ends_is_refused(line: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "LONGEST_LINE", 150)
    reader = EventReader()
    with pytest.raises(RemoteError, match="endless line"):
        list(map(reader.feed, [line] * 10))
