"""GIF, MP4, PNG: as many frames and pixels as asked for, and really drawn."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np
import pytest
from PIL import Image

from app.design.tokens import DARKROOM, PAPER
from app.export import pictures, video
from app.export.pictures import PictureSheet, PictureStyle
from app.export.run import Options, frames_of, parse_steps
from app.state.run.replay import Replay
from engine import SafelightError, Trace

from .conftest import made_of, whole

pytestmark = pytest.mark.usefixtures("qapp")


class Film(NamedTuple):
    rate: float
    format: str
    frames: list[Any]  # uint8 (height, width, 3)


def read_video(path: Path) -> Film:
    with av.open(path) as film:
        stream = film.streams.video[0]
        frames = [frame.to_ndarray(format="rgb24") for frame in film.decode(stream)]
        assert stream.codec_context.name == "h264"
        return Film(float(stream.average_rate or 0), str(stream.pix_fmt), frames)


def test_gif_has_a_frame_for_each_of_the_runs(several: Trace, tmp_path: Path) -> None:
    frames = Replay(several).frames
    with Image.open(whole(several, tmp_path / "run.gif", Options("gif", fps=8))) as image:
        assert image.n_frames == len(frames)
        assert image.info["loop"] == 0
        durations = []
        for number in range(image.n_frames):
            image.seek(number)
            durations.append(image.info["duration"])
        assert durations[:-1] == [120] * (len(frames) - 1)
        assert durations[-1] == 2000


def test_mp4_has_the_frames_and_rests_on_the_last(several: Trace, tmp_path: Path) -> None:
    frames = len(Replay(several).frames)
    film = read_video(whole(several, tmp_path / "run.mp4", Options("mp4", fps=4)))
    assert len(film.frames) == frames + 3  # a second in all
    assert (film.format, film.rate) == ("yuv420p", 4.0)
    first, last = film.frames[0], film.frames[-1]
    assert first.std() > 5
    assert np.abs(first.astype(int) - last.astype(int)).mean() > 0.5


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_said_and_leaves_nothing(real: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = av.open
    monkeypatch.setattr(av, "open", lambda _path, *args, **facts: opened("/dev/full", *args, **facts))
    with pytest.raises(SafelightError, match="disk is full"):
        whole(real, tmp_path / "run.mp4", Options("mp4"))
    assert list(tmp_path.iterdir()) == []


def test_stopping_a_video_leaves_nothing(real: Trace, tmp_path: Path) -> None:
    work = video.write(real, tmp_path / "run.mp4", Options("mp4"))
    while next(work) < 0.3:
        pass
    work.close()  # type: ignore[attr-defined]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("theme", [DARKROOM, PAPER])
def test_png_is_drawn_in_its_theme(theme: Any, real: Trace, tmp_path: Path) -> None:
    path = whole(real, tmp_path / "step.png", Options("png", theme=theme.name.lower(), frames=(4,)))
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB"))
    ground = tuple(int(theme.surface_sunken[place : place + 2], 16) for place in (1, 3, 5))
    is_ground = (pixels == ground).all(axis=2)
    assert is_ground[0].all()
    assert 0.5 < is_ground.mean() < 0.98
    accepted = tuple(int(theme.accepted[place : place + 2], 16) for place in (1, 3, 5))
    assert (pixels == accepted).all(axis=2).any()  # an underline


def test_a_picture_that_no_program_opens_is_refused(
    large: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pictures, "LARGEST_SIDE", 1000)
    with pytest.raises(SafelightError, match="too large"):
        whole(large, tmp_path / "step.png", Options("png", scale=2))
    assert list(tmp_path.iterdir()) == []


def test_hostile_pieces_and_prompts_are_drawn(hostile: Trace, tmp_path: Path) -> None:
    for place in range(len(Replay(hostile).frames)):
        whole(hostile, tmp_path / "step.png", Options("png", frames=(place,), calm=False))


@pytest.mark.parametrize("format", ["html", "gif", "mp4", "png", "json"])
def test_the_prompt_is_left_out_everywhere(format: Any, several: Trace, tmp_path: Path) -> None:
    secret = "Zanzibar's \u201csecret\u201d recipe"
    messages = ({"role": "user", "content": secret},)
    header = replace(several.header, prompt=secret, messages=messages, prompt_ids=(77, 78, 79))
    run = made_of(header, several.events, several)
    drawn = {}
    for prompt in (True, False):
        path = whole(run, tmp_path / f"{prompt}.{format}", Options(format, prompt=prompt))
        drawn[prompt] = path.read_bytes()
    for words in (b"Zanzibar", b"recipe", b"77,78,79", b"77, 78, 79", "Zanzibar".encode("utf-16-le")):
        assert words not in drawn[False], words
    if format in ("html", "json"):
        assert b"Zanzibar" in drawn[True]
    elif format == "mp4":
        heights = [read_video(tmp_path / f"{prompt}.mp4").frames[0].shape[0] for prompt in (True, False)]
        assert heights[0] > heights[1]
    else:
        with Image.open(tmp_path / f"True.{format}") as with_it, Image.open(tmp_path / f"False.{format}") as without:
            assert with_it.height > without.height  # its lines are gone
            assert not [value for value in without.info.values() if isinstance(value, str) and "Zanzibar" in value]


def test_frames_by_words(several: Trace) -> None:
    replay = Replay(several)
    first = frames_of(replay, 0)
    steps = len(first) - 2
    assert steps >= 2
    assert parse_steps("noise, 1-2,end,1", replay, 0) == (first[0], first[1], first[2], first[-1])
    assert parse_steps("1-", replay, 1)[0] == replay.first_of(1) + 1
    for wrong in ("", "x", "99", "2-1", "-1", "1-99", "0", "0-1"):
        with pytest.raises(SafelightError):
            parse_steps(wrong, replay, 0)
    with pytest.raises(SafelightError, match="there is no block 9"):
        frames_of(replay, 8)


def test_a_read_and_a_round_are_reported_above_the_canvas(decision: Trace, fitting: Trace, tmp_path: Path) -> None:
    def captions(run: Trace, *, prompt: bool = True) -> list[str]:
        replay = Replay(run)
        sheet = PictureSheet(run, replay, range(len(replay.frames)), PictureStyle(DARKROOM, prompt=prompt))
        list(sheet.measure())
        return [sheet.caption(place) for place in range(len(replay.frames))]

    reads = captions(decision)
    assert reads[0] == "Read 1 of 3 · noise at the slots"
    assert re.fullmatch(r"Read 3 of 3 · no 6\d\.\d %, red \d+\.\d %, [0-3]\.\d of 3, \w+", reads[5])
    assert "red" not in captions(decision, prompt=False)[5]
    assert captions(fitting)[2].endswith("round 2: 7 tokens hold; of the 5 new ones the model wrote 3")
    for run in (decision, fitting):
        assert whole(run, tmp_path / "run.png", Options("png")).stat().st_size > 1000
    sheets = []
    for slots in (decision.header.slots, ()):
        bare = made_of(replace(decision.header, slots=slots), decision.events)
        sheets.append(Image.open(whole(bare, tmp_path / "run.png", Options("png"))).tobytes())
    assert sheets[0] != sheets[1]  # the slots are framed
