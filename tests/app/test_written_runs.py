"""Runs that write over masks, wherever a run is shown, kept and sent: a decoder without a model stands for all."""

from __future__ import annotations

import dataclasses
import json
import re
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from app.canvas.words import of_block
from app.chat.words import figures_line, status_line
from app.cli.running import MASK
from app.cli.running import canvas as drawn
from app.cli.running import status as watched
from app.export.run import Options
from app.inspector.story_words import caption, doubts_in_words, end_in_short
from app.inspector.timeline.overview import figures_of
from app.inspector.words import frame_words, moment_in_words
from app.state.chat.conversation import Answer
from app.state.run.canvas import CanvasState, CellState
from app.state.run.cell_history import history_of
from app.state.run.replay import Frame, Replay
from app.state.run.stats import RunStats
from app.state.run.story import doubts_of
from app.state.sudoku.solve_frame import frame as board_frame
from engine import (
    CanvasCommitted,
    CanvasStarted,
    Event,
    GenerationConfig,
    Reply,
    StepFinished,
)
from engine.decoding.block_causal import block_causal
from engine.decoding.performing import perform_all
from engine.decoding.run import Run
from engine.service.wire import ReplyReader
from engine.trace import Draft
from engine.trace.codec import Codec
from engine.trace.format import OPENING, PayloadError, frame
from tests.engine.causal import masked_network
from tests.engine.traces import read_whole
from tests.written import END, FILLER, piece, written_run, written_trace

C = 8
TEXT = [10 + place % 20 for place in range(19)] + [END]


def block_causal_run() -> list[Event]:
    """Blocks of eight behind a prompt of five tokens: the first three generated ones are in a block with those."""
    network = masked_network(7, vocab_size=FILLER + 1)
    config = GenerationConfig(max_new_tokens=len(TEXT), eos_token_ids=(), canvas_length=C, top_k=3)
    prompt, cache = torch.tensor([2, 0, 1, 2, 2]), network.new_cache()
    return list(perform_all(network, block_causal(Run(network, prompt, config, 0, None, cache))))  # type: ignore[arg-type]


RUNS = {
    "block-causal": block_causal_run(),
    "one by one": written_run(TEXT, C),
    "ahead of the block": written_run(TEXT, C, ahead=7),
    "several blocks a pass": written_run(TEXT, 2, ahead=9),
    "cancelled": written_run(TEXT, C, ahead=3, stop=4),
    "without candidates": written_run(TEXT, C, top_k=0),
}


def same(one: Event, other: Event) -> bool:
    pairs = ((getattr(one, field.name), getattr(other, field.name)) for field in dataclasses.fields(one))
    return type(one) is type(other) and all(np.array_equal(a, b) if a is not None else b is None for a, b in pairs)


@pytest.mark.parametrize("name", RUNS)
def test_it_is_kept_and_sent_bit_for_bit(tmp_path: Path, name: str) -> None:
    trace = written_trace(RUNS[name])
    trace.save(tmp_path / "run.sltrace")
    file = read_whole(tmp_path / "run.sltrace")
    assert (file.header.config.decoder, file.notice) == ("autoregressive", "")
    assert all(map(same, file.events, trace.events))
    assert len(file.events) == len(trace.events)
    assert OPENING.unpack((tmp_path / "run.sltrace").read_bytes()[: OPENING.size])[1] == 2
    records = [frame(*Codec.for_header(trace.header).encode(event)) for event in trace.events]
    replies = ReplyReader().feed(b"".join([frame(b"HEAD", trace.header.to_bytes()), *records]))
    assert all(map(same, replies[1:], trace.events))


def test_block_diffusion_is_still_written_as_before() -> None:
    run = written_run(TEXT, C)
    started = next(event for event in run if isinstance(event, CanvasStarted))
    header = written_trace(run, "block_diffusion").header
    assert header.format_version == 1
    assert len(Codec.for_header(header).encode(dataclasses.replace(started, filler=None))[1]) == 4 * C + 1
    raw = json.loads(header.to_bytes())
    for bad in ("x" * 65, "a b", "\ud800", 7, None, "../x"):
        raw["config"]["decoder"] = bad
        with pytest.raises(PayloadError):
            type(header).from_bytes(json.dumps(raw).encode())


@pytest.mark.parametrize("filler", [b"", struct.pack("<i", 64), struct.pack("<i", -1), b"\0\0", bytes(8)])
def test_a_filler_is_a_token(filler: bytes) -> None:
    trace = written_trace(RUNS["one by one"])
    codec = Codec.for_header(trace.header)
    started = next(event for event in trace.events if isinstance(event, CanvasStarted))
    _, payload, block, step = codec.encode(dataclasses.replace(started, filler=None))
    if not filler:
        assert codec.decode(b"CANV", payload, block, step).filler is None
        return
    with pytest.raises(PayloadError):
        codec.decode(b"CANV", payload + filler, block, step)


@pytest.mark.parametrize("name", RUNS)
def test_live_and_replayed_states_are_the_same_and_true(name: str) -> None:
    trace, state = written_trace(RUNS[name]), CanvasState()
    replay, live = Replay(trace), []
    for event in trace.events:
        state.fold(event)
        if isinstance(event, CanvasStarted | StepFinished | CanvasCommitted):
            block = state.current
            raw, calm = block.states(calm=False), block.states(calm=True)
            live.append(
                (raw, calm, block.tokens(calm=True), block.entropy, block.top_probabilities, block.mean_entropy)
            )
            assert not set(np.unique([raw, calm])) & {CellState.NOISE, CellState.TAKEN_BACK}
            if not block.committed:
                assert np.array_equal(raw == CellState.MASKED, block.shown == FILLER)
                assert np.array_equal(calm == CellState.MASKED, block.tokens(calm=True) == FILLER)
    assert len(replay.frames) == len(live)
    for place, (raw, calm, tokens, entropy, shares, mean) in enumerate(live):
        seen = replay.snapshot(place)
        assert np.array_equal(seen.states(calm=False), raw)
        assert np.array_equal(seen.states(calm=True), calm)
        assert np.array_equal(seen.tokens(calm=True), tokens)
        assert (seen.entropy is None) == (entropy is None)
        assert entropy is None or np.array_equal(seen.entropy, entropy)
        assert shares is None or np.array_equal(seen.top_probabilities, shares)
        assert seen.mean_entropy == mean
    assert not replay.problem


def test_figures_and_words_say_what_passes_wrote() -> None:
    trace = written_trace(RUNS["ahead of the block"])
    replay, stats = Replay(trace), RunStats()
    for event in trace.events:
        stats.fold(event)
    passes = sum(isinstance(event, StepFinished) for event in trace.events)
    assert stats.total_steps == passes
    assert stats.figures.tokens_per_forward == pytest.approx((len(TEXT) - 1) / passes)
    record = replay.record(0)
    shown = [event for event in trace.events if isinstance(event, StepFinished) and event.block_index == 0]
    assert record.mean_entropy[0] == pytest.approx(float(shown[0].entropy[shown[0].entropy > 0].mean()))
    assert np.array_equal(record.settled_at, record.accepted.argmax(axis=0))
    assert not figures_of(record).stopped_early
    said = [caption(record, Frame(0, step), trace).text for step in range(-1, record.steps + 1)]
    assert said[0] == "Block 1 begins: nothing is written yet."
    assert said[1] == "Step 1: 4 cells are written, “kk”, “m” and “ooo” among them."
    assert said[-1] == f"Block 1 is written, after {record.steps} passes."
    assert "noise" not in " ".join(said)
    assert caption(replay.record(1), Frame(1, -1), trace).text == "Block 2 begins: 3 cells are written already."
    assert frame_words(Frame(0, -1), record.steps, replay.snapshot(0)) == "Block 1, before the first step"
    late = history_of(record, 7)
    assert late.top(0) == []
    assert moment_in_words(late, 0, piece) == "Step 1: nothing was predicted here yet."
    board = board_frame("0" * 81, replay.snapshot(0), piece)
    assert {cell.text for cell in board.cells} == {""}


def test_text_that_grows_has_no_block_to_fill() -> None:
    events = RUNS["one by one"]
    for decoder, grows in (("autoregressive", True), ("masked_diffusion", False)):
        trace = written_trace(events, decoder)
        answer, seen = Answer("made up", 0, trace.config), CanvasState.under(trace.config)
        for event in events:
            answer.fold(event, lambda _tokens: Reply("text"))
            seen.fold(event)
            block = seen.current
            if isinstance(event, StepFinished) and (event.block_index, event.step) == (1, 2) and block is not None:
                assert status_line(answer) == ("11 tokens written" if grows else "Block 2, step 3 · 3 of 8 written")
                assert ("of 8" in of_block(block)) == (not grows)
                assert ("written 3/8" in str(watched(block, trace.config, 2))) == (not grows)
                assert (MASK in str(drawn(block, trace, 80, None, calm=True))) == (not grows)
        assert ("over 3 blocks" in status_line(answer)) == (not grows)
        assert ("per block" in figures_line(answer)) == (not grows)
    trace = written_trace(events)
    replay = Replay(trace)
    doubts = [doubt for block in range(replay.blocks) for doubt in doubts_of(replay.record(block))]
    count = len(doubts)
    assert 0 < count < len(TEXT)
    assert end_in_short(trace.result, count) == ["finished", f"{count} unsure tokens"]
    said = doubts_in_words(doubts, piece, is_written=True)
    assert said.startswith(f"The model was unsure of {count} tokens as it wrote them: ")


def test_a_stopped_run_reads_as_what_was_written() -> None:
    events = [event for event in RUNS["cancelled"] if not isinstance(event, CanvasCommitted)][:-1]
    assert FILLER not in Draft.from_events(events).tokens()
    assert Draft.from_events(events).tokens()


@pytest.mark.usefixtures("qapp")
def test_a_page_of_it_has_its_masks(tmp_path: Path) -> None:
    from app.export import html  # Qt

    for _ in html.write(written_trace(RUNS["ahead of the block"]), tmp_path / "run.html", Options("html")):
        pass
    page = (tmp_path / "run.html").read_text(encoding="utf-8")
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])
    assert data["states"][CellState.MASKED] == "not written"
    assert [data["pieces"][block["filler"]] for block in data["blocks"]] == ["<mask>"] * len(data["blocks"])
