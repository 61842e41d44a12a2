"""The server's smaller parts by themselves: stop strings in pieces, the list of requests."""

from __future__ import annotations

import random
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer as FastTokenizer
from tokenizers import decoders, models

from engine.events import CanvasCommitted, PrefillFinished
from engine.server.answer import AnswerSettings, ServedAnswer, StopFinder
from engine.server.live import MAX_ENDED, MAX_EVENTS, LiveRequests
from engine.text.output_parts import ContentPart, OutputPart
from engine.text.tokenizer import Tokenizer
from engine.trace import Trace


def passed(text: str, stops: list[str], cuts: list[int]) -> tuple[str, str | None]:
    finder, parts = StopFinder(stops), []
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        parts.append(finder.feed(text[start:end]))
    return "".join(parts) + finder.finish(), finder.stop


def test_stop_strings_are_found_however_the_text_is_cut() -> None:
    draw = random.Random(4)
    for _ in range(1_000):
        text = "".join(draw.choices("ab", k=draw.randrange(12)))
        stops = ["".join(draw.choices("ab", k=draw.randrange(1, 5))) for _ in range(draw.randrange(3))]
        hits = [(place + len(stop), place) for stop in stops if (place := text.find(stop)) >= 0]
        cuts = sorted(draw.choices(range(len(text) + 1), k=draw.randrange(5)))
        found, stop = passed(text, stops, cuts)
        assert found == text[: min(hits)[1] if hits else None]
        assert (stop is None) == (not hits)
        assert stop is None or text.startswith(found + stop)


@pytest.mark.parametrize("most", [1, 3])
def test_characters_of_several_tokens_are_given_out_once(most: int) -> None:
    """A character may go on behind another: the library writes all bytes as unknown until it is whole."""
    vocabulary = {f"<0x{byte:02X}>": byte for byte in range(256)} | {"<unk>": 256}
    fast = FastTokenizer(models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True))
    fast.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    tokenizer, draw = Tokenizer(fast), random.Random(most)
    model: Any = SimpleNamespace(write=tokenizer.decode, piece=tokenizer.piece, is_special=tokenizer.is_special)
    for text in ("ꦗꦮ", "a字b字", "👨‍👩‍👧", "\ufffd字\ufffd", "e\u0301"):
        answer, parts = ServedAnswer(model, AnswerSettings(max_tokens=99, is_raw=True)), list[OutputPart]()
        ids = np.array(tokenizer.encode(text))
        while len(ids):
            size = draw.randint(1, most)
            parts += answer.fold(CanvasCommitted(1, ids[:size], len(ids[:size]), 1, "converged"))
            ids = ids[size:]
        parts += answer.finish()
        assert "".join(part.text for part in parts if isinstance(part, ContentPart)) == text


def test_the_last_requests_stay_on_the_list_newest_first() -> None:
    live = LiveRequests()
    ids = [live.open("/v1/x", "m", threading.Event()).id for _ in range(MAX_ENDED + 3)]
    for id in ids[:-1]:
        live.update(id, state="finished")
    live.update(ids[0], state="running")  # it has ended, which it keeps to
    found = live.snapshot()
    assert [one.id for one in found] == [ids[-1], *reversed(ids[2:-1])]
    assert {one.state for one in found[1:]} == {"finished"}
    live.stop_all()
    assert [one.cancel.is_set() for one in found] == [True] + [False] * MAX_ENDED


def test_traces_of_requests_that_ended_are_let_go_of_before_there_are_many() -> None:
    live = LiveRequests()
    for _ in range(4):
        trace = Trace("model")
        for _ in range(MAX_EVENTS // 2):
            trace.append(PrefillFinished(1, 0, 0.0))
        live.update(live.open("/v1/x", "m", threading.Event()).id, state="finished", trace=trace)
    assert [one.trace is not None for one in live.snapshot()] == [True, True, False, False]
