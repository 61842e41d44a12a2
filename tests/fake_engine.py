"""A backend without tensors, for tests of the service, its thread and the window."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from engine import (
    CanvasCommitted,
    CanvasStarted,
    Event,
    GenerationConfig,
    GenerationFinished,
    PrefillFinished,
    SafelightError,
    StepFinished,
)
from engine.errors import Sentence
from engine.pictures import ImageCost
from engine.service import Capabilities, ForkRun, LocalBackend, PromptRead
from engine.service.requests import ContinuedRun
from tests.written import written_run

LENGTH = 8
END = 1
IMAGE = 63  # stands for an image in a prompt


class FakeTokenizer:
    """Token 1 ends the text; the others are letters from ``a`` on."""

    def piece(self, token: int) -> str:
        return {END: "<eos>", IMAGE: "<image>"}.get(token, chr(ord("a") + token % 26))

    def is_special(self, token: int) -> bool:
        return token == END

    def encode(self, text: str) -> list[int]:
        """A token a word."""
        return [2] * len(text.split())

    encode_prompt = encode_rendered = encode_inert = encode

    def inert(self, text: str) -> str:
        return text

    def count(self, text: str) -> int:
        return len(self.encode(text))

    def token_id(self, _token: str) -> int | None:
        return None

    def decode(self, ids: Iterable[int], *, skip_special: bool = True) -> str:
        return "".join(self.piece(int(i)) for i in ids if int(i) != END or not skip_special)


class FakeCache:
    """Holds nothing."""

    device_bytes = 0

    def shared(self, _ids: object) -> int:
        return 0


def written(messages: Iterable[Any], tools: Iterable[Any] = (), **_options: Any) -> str:
    """A template that writes everything."""
    said = ["<image>" * len(message.get("images", ())) + message["content"] for message in messages]
    return " ".join([*said, *map(json.dumps, tools)])


IMAGE_COST = ImageCost(48)


def image_sizes(messages: Iterable[Any], image_tokens: int) -> list[int]:
    """Counts the tokens of each image without those two."""
    images = [image for message in messages for image in message.get("images", ())]
    return [IMAGE_COST.soft_tokens(image["width"], image["height"], image_tokens) for image in images]


def seeing(ids: list[int], *_pictures: object) -> Generator[None, None, list[int]]:
    """A prompt with its images, which take no layers."""
    yield from ()
    return ids


class FakeEngine(LocalBackend):
    """A backend whose model is made up.

    ``steps`` denoising steps a block; with ``hold`` set, each waits for ``gate``. ``fail_at`` raises at that step.
    It sees pictures where ``able`` says so.
    """

    def __init__(self, traces: Path | None = None) -> None:
        super().__init__(traces)
        self.able = super().capabilities
        self.decoders: tuple[str, ...] = ("block_diffusion",)  # of the model, its own last
        self.steps = 3
        self.blocks = 1
        self.text_length = 5
        self.reason = "converged"
        self.hold = False
        self.gate = threading.Semaphore(0)
        self.before: list[PromptRead] = []
        self.before_gate = threading.Semaphore(0)
        self.fail_at: int | None = None
        self.failure: Exception = RuntimeError("the graphics card\nfell out")
        self.defaults = GenerationConfig(max_new_tokens=LENGTH, eos_token_ids=(END,))
        self.seeds: list[int] = []
        self.configs: list[GenerationConfig] = []
        self.requests: list[Any] = []  # as they are run
        self.prompts: list[list[dict[str, str]]] = []
        self.offered: list[tuple[Any, ...]] = []  # tools
        self.context = 1000
        self.options: list[dict[str, bool]] = []  # of the chat template
        self.caches: list[object] = []  # handed to each run
        self.steps_run = 0
        self.name = "safelight-mini"
        self.device = "cpu"
        self.placement = SimpleNamespace(reason=Sentence("no CUDA device is available"), is_news=False)

    @property
    def capabilities(self) -> Capabilities:
        return self.able

    def _steps(self, model: Any, task: Any, record: Any) -> Any:
        """The replies of a run, ``before`` them those of a prompt that is being read, each at ``before_gate``."""
        for reply in self.before:
            self.before_gate.acquire()
            yield dataclasses.replace(reply, run_id=task.request.run_id)
        if self.before:
            self.before_gate.acquire()
        yield from super()._steps(model, task, record)

    def sibling(self) -> FakeEngine:
        """Another one like it, whose runs are listed with those of this one."""
        other = FakeEngine(self._recorder.folder)
        other.able, other.requests, other.prompts = self.able, self.requests, self.prompts
        return other

    def check_model(self, path: str) -> None:
        if path == "missing":
            raise SafelightError("there is no model at missing")

    def load_model(self, path: str, progress: Callable[[float], None] | None = None, threads: int = 0) -> Any:
        if path == "missing":
            raise SafelightError("there is no model at missing")
        if path == "crash":
            raise RuntimeError("unexpected")
        if progress is not None:
            progress(0.5)
            progress(1.0)
        sees = SimpleNamespace(image_token_id=IMAGE)
        return SimpleNamespace(
            name=path if path.startswith("safelight-") else self.name,
            tokenizer=FakeTokenizer(),
            config=SimpleNamespace(
                canvas_length=LENGTH, vocab_size=64, max_position_embeddings=self.context, pads_gaps=False
            ),
            generation_defaults=self.defaults,
            parameter_count=1_600_000,
            device=self.device,
            family=SimpleNamespace(decoders=(self.decoders[-1], *self.decoders[:-1])),
            placement=self.placement,
            compute_path=Sentence("plain torch: the weights are not packed"),
            threads=threads or 1,
            load_seconds=0.1,
            vision=SimpleNamespace(cost=IMAGE_COST, config=sees) if self.able.images else None,
            image_sizes=image_sizes,
            seeing=seeing,
            chat_ids=self.chat_ids,
            chat_template=SimpleNamespace(render=written),
            new_cache=FakeCache,
            device_memory=lambda: (3 * 10**8, 8 * 10**9),
        )

    def spare_bytes(self, _model: Any) -> int:
        return 10**9

    def run_bytes(self, _model: Any, prompt: int, _config: GenerationConfig, _running: int) -> int:
        return prompt

    def chat_ids(self, messages: Iterable[dict[str, str]], tools: Iterable[Any] = (), **options: bool) -> list[int]:
        self.prompts.append([dict(message) for message in messages])
        self.offered.append(tuple(tools))
        self.options.append(options)
        if len(self.prompts[-1][-1]["content"]) > 400:
            raise SafelightError("the prompt is 401 tokens long. Shorten the prompt")
        return [2, 3]

    def decode(self, model: Any, task: Any, cache: Any) -> Iterator[Any]:
        """A fork or an infill of a run: the same draws, or those of the new seed, from its block on."""
        request = task.request
        self.requests.append(request)
        if not isinstance(request, ContinuedRun):
            yield from self.generate(model, task.ids, request.config, request.seed, request.cancel, cache)
            return
        newest = request.changes[-1] if isinstance(request, ForkRun) and request.changes else None
        seed = request.seed if newest is None or newest.seed is None else newest.seed
        first = 0 if newest is None else newest.block
        for event in self.generate(model, task.ids, request.config, seed, request.cancel):
            if getattr(event, "block_index", first) >= first:
                yield event

    def generate(
        self,
        _model: Any,
        ids: list[int],
        config: GenerationConfig,
        seed: int,
        cancel: threading.Event,
        cache: object = None,
    ) -> Iterator[Event]:
        self.seeds.append(seed)
        self.caches.append(cache)
        self.configs.append(config)
        rng = np.random.default_rng(seed)
        if not config.is_block_diffusion:
            text = [*rng.integers(4, 28, LENGTH + self.text_length).tolist(), END]
            yield from written_run(text, LENGTH, ahead=3, top_k=config.top_k)
            return
        yield PrefillFinished(len(ids), 0, 0.01)
        done: list[int] = []
        total = 0
        for block in range(self.blocks):
            final = rng.integers(2, 28, LENGTH).astype(np.int32)
            if block == self.blocks - 1:
                final[self.text_length :] = END
            yield CanvasStarted(block, rng.integers(2, 28, LENGTH).astype(np.int32), np.zeros(LENGTH, dtype=np.bool_))
            for step in range(self.steps):
                if self.hold:
                    self.gate.acquire()
                if cancel.is_set():
                    yield GenerationFinished("cancelled", np.array(done, dtype=np.int32), block, total, 0.1)
                    return
                if step == self.fail_at:
                    raise self.failure
                self.steps_run += 1
                total += 1
                accepted = np.arange(LENGTH) <= 2 * step
                entropy = np.full(LENGTH, 0.1, dtype=np.float32)
                canvas = np.where(accepted, final, 5).astype(np.int32)
                yield StepFinished(block, step, 0.7, final, final, entropy, accepted, canvas, 0.01)
            length = self.text_length if block == self.blocks - 1 else LENGTH
            done += final[:length].tolist()
            yield CanvasCommitted(block, final, length, self.steps, self.reason)  # type: ignore[arg-type]
        yield GenerationFinished("eos", np.array(done, dtype=np.int32), self.blocks, total, 0.1)
