"""What is killed in the middle of its work, and how one sees afterwards whether anything was lost."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Protocol

# Imported before the forks, so that none of them pays for it.
import torch
from PySide6.QtCore import QCoreApplication, QObject, QSettings, QTimer, Slot
from safetensors import safe_open
from safetensors.torch import load_file

from app.bridge.engine_thread import EngineLink
from app.library import Library
from app.library.conversations import ConversationStore
from app.presets.preset import Preset
from app.presets.store import PresetStore
from app.session.session import Session
from app.settings.store import read_values, write_values
from app.settings.values import SettingsValues
from app.state.chat.attachment import AttachedPicture
from engine import SKILLS, StepFinished
from engine.hub.download import download, unfinished
from engine.hub_cache import snapshot_of
from engine.models.folder import quantize
from engine.service import ModelLoaded
from engine.trace import open_trace
from engine.training.adapter import AdapterRecipe, AdapterRun, TrainingProgress
from engine.training.finetune import STATE, train_adapter
from engine.weights.packed_store import PARTIAL, Manifest
from tests.engine import packing
from tests.engine.drawn import picture
from tests.engine.hub import server
from tests.engine.training import teaching
from tests.fake_engine import FakeEngine

Facts = list[dict[str, Any]]


class Tell(Protocol):
    """Tells a fact to the process that kills; what is told is safe from the kill."""

    def __call__(self, **facts: object) -> None: ...


class Subject:
    """A piece of work that is begun anew each round and taken up again after each kill of the round."""

    name: ClassVar[str]
    share: ClassVar[int] = 1  # of all kills
    kills_a_round: ClassVar[int] = 8

    def __init__(self, folder: Path, ground: Any, seed: int) -> None:
        self.folder, self.base, self.seed = folder, ground, seed

    @classmethod
    @contextmanager
    def ground(cls, _folder: Path) -> Iterator[Any]:
        """What all rounds stand on."""
        yield None

    def work(self, tell: Tell) -> None:
        """Begin, or go on; tells each fact once it is on screen or reported done."""
        raise NotImplementedError

    def lost(self, told: Facts, *, is_done: bool) -> list[str]:
        """What was told and is not there. ``told``: since the round began; ``is_done``: the work came to its end."""
        raise NotImplementedError


def _last(told: Facts, key: str, default: Any = None) -> Any:
    return next((fact[key] for fact in reversed(told) if key in fact), default)


# --- chat --------------------------------------------------------------------------------------------------------


class Chat(Subject):
    """Conversations that are asked in, renamed and deleted from, their pictures, and the traces of their runs."""

    name, share = "chat", 6

    def work(self, tell: Tell) -> None:
        app = QCoreApplication([])
        library = Library.open(self.folder)
        desk = _Desk(library, self.folder, random.Random(os.getpid()), tell)
        desk.finished = app.quit
        app.exec()
        desk.link.shutdown()
        desk.session.close()

    def lost(self, told: Facts, *, is_done: bool) -> list[str]:
        library = Library.open(self.folder)
        try:
            if library.notice:
                return [library.notice]
            return [*self._lost_turns(library, told), *self._lost_titles(library, told)]
        finally:
            library.close()

    def _lost_turns(self, library: Library, told: Facts) -> Iterator[str]:
        found: dict[str, Any] = {}
        for summary in library.summaries():
            chat = ConversationStore(library).open(summary.id)
            for turn in chat.turns:
                found[turn.prompt] = turn
        gone = {fact["removing"] for fact in told if "removing" in fact}
        for fact in told:
            if fact.get("removed") in found:
                yield f"deleted and back: {fact['removed']}"
            if "asked" in fact and fact["asked"] not in found and fact["asked"] not in gone:
                yield f"asked and not there: {fact['asked']}"
            for digest, width, height in fact.get("shown", ()) if fact.get("asked") in found else ():
                is_named = digest in {picture.digest for picture in found[fact["asked"]].pictures}
                if not is_named or library.pictures.get(digest, width, height) is None:
                    yield f"a picture of: {fact['asked']}"
        drafts = {fact["prompt"]: fact for fact in told if "draft" in fact}  # the last of each
        for prompt, fact in drafts.items():
            if prompt in gone or prompt not in found:
                continue
            answer = found[prompt].answer
            if fact["done"] and (answer.status, answer.text) != ("done", fact["draft"]):
                yield f"finished: {fact['draft']!r}; on the disk, {answer.status}: {answer.text!r}"
            steps = answer.figures.steps
            if not fact["done"] and steps < fact["steps"]:
                yield f"on screen: step {fact['steps']}; on the disk: {steps}"
            if not fact["done"] and steps == fact["steps"] and answer.text != fact["draft"]:
                yield f"on screen: {fact['draft']!r}; on the disk: {answer.text!r}"
            if fact["trace"] and fact["steps"] and (kept := _steps_of(Path(fact["trace"]))) < fact["steps"]:
                yield f"on screen: step {fact['steps']}; its trace has {kept}"

    def _lost_titles(self, library: Library, told: Facts) -> Iterator[str]:
        titles = {summary.id: summary.title for summary in library.summaries()}
        wanted: dict[int, set[str]] = {}
        for fact in told:
            if "renaming" in fact:
                wanted.setdefault(fact["conversation"], set()).add(fact["renaming"])
            if "renamed" in fact:
                wanted[fact["conversation"]] = {fact["renamed"]}
        for conversation, names in wanted.items():
            first_kept = next((f["title"] for f in told if f.get("conversation") == conversation and "title" in f), "")
            if titles.get(conversation) not in names | {first_kept}:
                yield f"renamed to one of {sorted(names)}; on the disk: {titles.get(conversation)!r}"


def _steps_of(path: Path) -> int:
    trace = open_trace(path)
    return sum(isinstance(trace.event(index), StepFinished) for index in range(len(trace.entries)))


class _Desk(QObject):
    """A user who asks, renames and deletes, and tells what is on screen."""

    finished: Callable[[], None]

    def __init__(self, library: Library, folder: Path, draw: random.Random, tell: Tell) -> None:
        super().__init__()
        fake = FakeEngine(folder / "traces")
        fake.able = dataclasses.replace(fake.able, images=True)
        fake.steps, fake.blocks = 5, 3
        self.link = EngineLink(fake)
        self.session = Session(library, self.link, SettingsValues(seed=draw.randrange(1000)))
        self.library, self.draw, self.tell, self.left = library, draw, tell, 12
        self.model: Any = None
        self.link.pacing.released.connect(self._arrived)
        self.session.progressed.connect(self._progressed)
        self.session.ended.connect(self._ended)
        self.link.load(SKILLS, "Skills")

    @Slot(object)
    def _arrived(self, messages: list[Any]) -> None:
        loaded = next((message.model for message in messages if isinstance(message, ModelLoaded)), None)
        if loaded is not None:
            self.model = loaded
            QTimer.singleShot(0, self._act)
        self.session.take([message for message in messages if not isinstance(message, ModelLoaded)])

    def _act(self) -> None:
        """Ask something, in a new conversation or the one on show."""
        self.left -= 1
        if self.left < 0:
            self.finished()
            return
        if self.draw.random() < 0.3:
            self.session.begin()
        prompt, shown = f"prompt {self.draw.getrandbits(48):x}", ()
        if self.draw.random() < 0.5:  # few pictures, so that several prompts show one
            drawn = picture(self.draw.choice(("red", "green", "blue")))
            self.library.pictures.keep(drawn)
            shown = (AttachedPicture("", drawn.digest, drawn.width, drawn.height),)
        self.session.ask(prompt, (), self.model, shown)
        self.tell(asked=prompt, shown=[(one.digest, one.width, one.height) for one in shown])

    @Slot()
    def _progressed(self) -> None:
        turn = self.session.chat.turns[-1]
        answer = turn.answer
        decoded = answer.draft(self.model.decode).text if answer.is_active else answer.text
        path = getattr(answer.trace, "path", None)
        self.tell(
            prompt=turn.prompt, draft=decoded, steps=answer.figures.steps, done=answer.status == "done",
            trace="" if path is None else str(path),
        )  # fmt: skip

    @Slot()
    def _ended(self) -> None:
        conversation = self.session.conversation
        assert conversation is not None
        if self.draw.random() < 0.5:
            name = f"title {self.draw.getrandbits(48):x}"
            title = self.library.conversation(conversation).title
            self.tell(conversation=conversation, title=title, renaming=name)
            self.library.describe(conversation, title=name)
            self.tell(conversation=conversation, renamed=name)
        if len(self.session.chat.turns) > 1 and self.draw.random() < 0.3:
            turn = self.session.chat.turns[-1]
            self.tell(removing=turn.prompt)
            self.session.remove(turn)
            self.tell(removed=turn.prompt)
        QTimer.singleShot(0, self._act)


# --- a download ----------------------------------------------------------------------------------------------------


class Download(Subject):
    """A model of three files from a hub on the loopback interface."""

    name, share = "download", 4
    repo = "owner/model"

    @classmethod
    def files(cls) -> dict[str, bytes]:
        """What the hub has; the same each time."""
        draw = random.Random(7)
        return {
            "config.json": b"{}" * 200,
            "tokenizer.json": draw.randbytes(300_000),
            "model.safetensors": draw.randbytes(24_000_000),
        }

    @classmethod
    @contextmanager
    def ground(cls, _folder: Path) -> Iterator[Any]:
        """The hub in a process of its own: what is forked must have no threads."""
        reader, writer = os.pipe()
        pid = os.fork()
        if not pid:
            with contextlib.suppress(BaseException), server.serving(server.Hub({cls.repo: cls.files()})) as hub:
                os.write(writer, f"{hub.endpoint}\n".encode())
                while os.getppid() != 1:
                    time.sleep(0.2)
            os._exit(0)
        os.close(writer)
        try:
            with os.fdopen(reader) as pipe:
                yield pipe.readline().strip()
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def work(self, tell: Tell) -> None:
        os.environ["HF_HUB_CACHE"] = str(self.folder / "cache")
        ended = download(self.repo, endpoint=self.base, progress=lambda p: tell(bytes=p.done_bytes, stage=p.stage))
        tell(ended=ended)

    def lost(self, told: Facts, *, is_done: bool) -> list[str]:
        os.environ["HF_HUB_CACHE"] = str(self.folder / "cache")
        target = snapshot_of(self.repo)
        if is_done or target is not None:
            if target is None:
                return ["it is not there"]
            wrong = [name for name, data in self.files().items() if (target / name).read_bytes() != data]
            return [f"wrong: {name}" for name in wrong]
        reported = max((fact["bytes"] for fact in told if fact.get("stage") == "downloading"), default=0)
        there = max((record.done_bytes for record in unfinished()), default=0)
        return [f"reported: {reported} bytes; on the disk: {there}"] if there < reported else []


# --- a conversion --------------------------------------------------------------------------------------------------


class Conversion(Subject):
    """A checkpoint packed into 4 bits."""

    name, share = "conversion", 4

    @classmethod
    @contextmanager
    def ground(cls, folder: Path) -> Iterator[Any]:
        """The checkpoint, and what its conversion comes to where nobody kills it."""
        source, whole = packing.released(folder / "source"), folder / "whole"
        quantize(source, whole, "int4", torch.device("cpu"))
        yield source, whole

    def work(self, tell: Tell) -> None:
        destination = self.folder / "packed"
        if not (destination / "safelight-store.json").exists():
            quantize(self.base[0], destination, "int4", torch.device("cpu"), lambda share: tell(share=share))

    def lost(self, told: Facts, *, is_done: bool) -> list[str]:
        destination, whole = self.folder / "packed", self.base[1]
        if is_done:
            names = sorted(path.name for path in destination.iterdir())
            expected = sorted(path.name for path in whole.iterdir())
            wrong = [n for n in expected if n in names and _hash(destination / n) != _hash(whole / n)]
            return [f"wrong: {n}" for n in wrong] + ([f"files: {names}"] if names != expected else [])
        shards = len(list(whole.glob("*.safetensors")))
        reported = round(_last(told, "share", 0.0) * shards)
        if (destination / "safelight-store.json").exists():
            return []
        there = len(Manifest.read(destination / PARTIAL).files) if reported else 0
        return [f"reported: {reported} shards; on the disk: {there}"] if there < reported else []


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# --- training ------------------------------------------------------------------------------------------------------


class Training(Subject):
    """An adapter trained for 24 steps, with a checkpoint after every second."""

    name, share = "training", 2
    every, steps = 2, 24

    @classmethod
    @contextmanager
    def ground(cls, folder: Path) -> Iterator[Any]:
        """The model and the puzzles, and the adapter that an undisturbed run ends in."""
        folder.mkdir(parents=True)
        base, data = teaching.write_base(folder / "base"), teaching.write_data(folder / "pairs.csv")
        list(train_adapter(cls.plan(base, data, folder / "whole")))
        yield base, data, folder / "whole"

    @classmethod
    def plan(cls, base: Path, data: Path, out: Path) -> AdapterRun:
        """The run, the same each time."""
        recipe = AdapterRecipe(rank_denoise=2, rank_causal=2, batch=2, rate=3e-3, warmup_steps=2, eval_count=2)
        return AdapterRun(
            base, out, recipe, cls.steps, data, eval_every=0, save_every=cls.every, device="cpu", dtype="float32"
        )

    def work(self, tell: Tell) -> None:
        torch.set_num_threads(1)
        for record in train_adapter(self.plan(self.base[0], self.base[1], self.folder / "out")):
            if isinstance(record, TrainingProgress):
                tell(step=record.step)

    def lost(self, told: Facts, *, is_done: bool) -> list[str]:
        out, whole = self.folder / "out", self.base[2]
        reported = max((fact["step"] for fact in told if "step" in fact), default=0)
        kept = max(0, reported - self.every)  # a step is reported before its checkpoint is written
        there = 0
        if (out / STATE).exists():
            with safe_open(out / STATE, framework="pt") as opened:
                there = int(opened.metadata()["step"])
        if there < kept:
            return [f"reported: step {reported}; checkpoint: step {there}"]
        if not is_done:
            return []
        found, wanted = (load_file(folder / "adapter_model.safetensors") for folder in (out, whole))
        return [f"another matrix: {name}" for name in wanted if not torch.equal(wanted[name], found[name])]


# --- presets and settings --------------------------------------------------------------------------------------------


class Presets(Subject):
    """Presets written one after the other."""

    name, share = "presets", 2
    writes = 40

    def work(self, tell: Tell) -> None:
        store = PresetStore(self.folder)
        number = len(store.own)
        tell(count=number)
        for _ in range(self.writes):
            number += 1
            store.put(Preset(f"id-{number}", f"name {number}", "system " * 20))
            tell(count=number)

    def lost(self, told: Facts, *, is_done: bool) -> list[str]:
        store = PresetStore(self.folder)
        if store.problem:
            return [store.problem]
        there, reported = len(store.own), _last(told, "count", 0)
        return [f"reported: {reported} presets; on the disk: {there}"] if there not in (reported, reported + 1) else []


class Settings(Subject):
    """A setting changed again and again, as the window writes it."""

    name, share = "settings", 2
    writes = 40

    def _open(self) -> QSettings:
        return QSettings(str(self.folder / "settings.ini"), QSettings.Format.IniFormat)

    def work(self, tell: Tell) -> None:
        app = QCoreApplication([])
        settings = self._open()
        values = read_values(settings, reduced_motion=False)
        left, timer = self.writes, QTimer()
        shown = values.seed or 0

        def change() -> None:
            nonlocal left, shown
            tell(seed=shown)  # a turn of the event loop after the change: it is on screen
            if not left:
                app.quit()
                return
            left -= 1
            shown += 1
            values.seed = shown
            write_values(settings, values, reduced_motion=False, keep_seed=False)

        timer.timeout.connect(change)
        timer.start(0)
        app.exec()

    def lost(self, told: Facts, *, is_done: bool) -> list[str]:
        there = read_values(self._open(), reduced_motion=False).seed or 0
        reported = _last(told, "seed", 0)
        return [f"on screen: {reported}; on the disk: {there}"] if there not in (reported, reported + 1) else []


SUBJECTS: tuple[type[Subject], ...] = (Chat, Download, Conversion, Training, Presets, Settings)
