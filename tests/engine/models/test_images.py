"""A loaded model and pictures: its tower's tensors, the prompt's tokens, rows kept, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from engine import SIGHT, Model, SafelightError, generate, load_model
from engine.layers.packed_linear import packed_weights
from engine.models.folder import quantize
from engine.models.prompt import Prompt, with_image_tokens
from engine.models.vision import reader
from engine.models.vision.reader import patches
from engine.models.vision.tower import VisionTower
from engine.pictures import pixels
from engine.quant import PRECISIONS
from engine.service.description import count_tokens
from tests.engine.decoding.seen import end_of
from tests.engine.packing import SHAPE, published
from tests.engine.seeing import message, picture, seeing
from tests.engine.tiny import VISION, change_weights, checkpoint

BEGIN, SOFT, END = VISION.begin_token_id, VISION.image_token_id, VISION.end_token_id
TALL, WIDE = picture(9, 40, 1), picture(200, 12, 2)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return load_model(seeing(tmp_path_factory.mktemp("seeing")), device="cpu", dtype="float32")


def test_each_image_is_where_its_message_says(model: Model) -> None:
    said = message("ab", TALL, at=1)
    said["images"] += message("", WIDE, at=2)["images"]
    plain = model.chat_ids([{"role": "user", "content": "ab"}])
    a, b = (model.tokenizer.encode(sign)[0] for sign in "ab")
    ids = model.chat_ids([said], image_tokens=70)
    first, second = model.image_sizes([said], 70)
    images = [[BEGIN, *[SOFT] * count, END] for count in (first, second)]
    at = plain.index(a)
    assert ids == [*plain[:at], a, *images[0], b, *images[1], *plain[at + 2 :]]
    assert model.generation_defaults.image_tokens == 70  # as config.json says
    assert model.chat_ids([said], image_tokens=280) != ids

    prompt = model.with_images(ids, [said], (WIDE, TALL), 70)
    assert isinstance(prompt, Prompt)
    assert [(image.start, image.end) for image in prompt.images] == [
        (at + 2, at + 2 + first),
        (at + 5 + first, at + 5 + first + second),
    ]
    assert [image.key for image in prompt.images] == [f"{TALL.digest}/70", f"{WIDE.digest}/70"]
    end_of(generate(model, prompt, model.generation_defaults))
    assert model.with_images(plain, [{"role": "user", "content": "ab"}], (), 70) is plain


def test_the_tower_reads_a_picture_once(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_KEPT", 2)
    read, embedded = list[int](), VisionTower.embedded
    monkeypatch.setattr(VisionTower, "embedded", lambda *given: read.append(given[3]) or embedded(*given))
    vision = model.vision
    assert vision is not None
    for shown, budget in ((TALL, 140), (WIDE, 140), (TALL, 140), (WIDE, 560), (TALL, 140), (WIDE, 140)):
        rows = reader.drained(vision.reading(shown, budget))
        assert rows.shape[1] == model.config.hidden_size
        assert len(rows) <= budget
    assert len(read) == 4  # one was dropped for another, and the one unused for longest
    cut = patches(pixels(WIDE), vision.config, 140)
    whole = model.network.get_submodule("vision")(cut.values[None], cut.rows, cut.columns)[0]
    assert torch.equal(reader.drained(vision.reading(WIDE, 140)), whole)


@pytest.mark.parametrize("kind", ["store", "compressed-tensors"])
def test_packed_models_keep_the_tower(kind: str, tmp_path: Path) -> None:
    source, folder = seeing(tmp_path / "source", **SHAPE), tmp_path / "packed"
    if kind == "store":
        quantize(source, folder, "int4", torch.device("cpu"))
    else:
        published(source, folder)
    model, plain = load_model(folder, device="cpu"), load_model(source, device="cpu", dtype="bfloat16")
    assert model.skipped_vision_tensors == 0
    assert model.vision is not None
    assert plain.vision is not None
    packed, whole = (reader.drained(each.vision.reading(TALL, 70)).float() for each in (model, plain))
    assert 0 < (packed - whole).abs().mean() < 0.03 * whole.abs().mean()  # eight bits
    said = message("a", WIDE)
    prompt = model.with_images(model.chat_ids([said], image_tokens=70), [said], (WIDE,), 70)
    end_of(generate(model, prompt, model.generation_defaults))
    assert len(packed_weights(model.network.get_submodule("vision"))) == 7 * VISION.num_hidden_layers


def test_a_store_of_before_the_tower_had_a_precision_of_its_own_is_read(tmp_path: Path) -> None:
    quantize(seeing(tmp_path / "source", **SHAPE), tmp_path / "packed", "int4", torch.device("cpu"))
    manifest = tmp_path / "packed" / "safelight-store.json"
    raw = json.loads(manifest.read_text())
    del raw["precision"]["vision"]
    manifest.write_text(json.dumps(raw))
    assert load_model(tmp_path / "packed", device="cpu").precision == PRECISIONS["int4"]


def test_without_a_tower_it_reads_text_alone(tmp_path: Path) -> None:
    seeing(tmp_path)
    with_tower = load_model(tmp_path).parameter_count
    change_weights(tmp_path, {name: None for name in _names(tmp_path) if "vision" in name})
    model = load_model(tmp_path)
    assert model.vision is None
    assert model.config.vision is None
    assert model.parameter_count < with_tower
    with pytest.raises(SafelightError, match="cannot see images; remove them, or choose a model that can"):
        model.chat_ids([message("a", TALL)])
    change_weights(tmp_path, {"model.encoder.vision_tower.std_bias": torch.zeros(16)})
    with pytest.raises(SafelightError, match=r"tensor model.encoder.embed_vision.* is missing"):
        load_model(tmp_path)


def _names(folder: Path) -> list[str]:
    from safetensors import safe_open  # the header alone

    with safe_open(folder / "model.safetensors", framework="pt") as file:
        return list(file.keys())


def test_what_cannot_be_is_said(model: Model, tmp_path: Path) -> None:
    said = message("a", TALL)
    ids = model.chat_ids([said])
    with pytest.raises(SafelightError, match="of this conversation is missing; add it again"):
        model.with_images(ids, [said], (WIDE,), 280)
    with pytest.raises(SafelightError, match="have changed since the prompt was made"):
        model.with_images(ids, [said], (TALL,), 70)
    named = model.chat_ids([message("a <|image|>", TALL)])  # which people may write: it is text
    assert named.count(BEGIN) == 1
    assert len(named) == len(ids) + len(" <|image|>")
    text_alone = load_model(checkpoint(tmp_path))
    with pytest.raises(SafelightError, match="cannot see images"):
        text_alone.chat_ids([said])
    assert model.chat_ids([message("", TALL)])  # a picture alone is a question
    with pytest.raises(SafelightError, match="the prompt is empty"):
        model.chat_ids([message("")])


def test_a_template_may_leave_out_earlier_images(model: Model) -> None:
    vision = model.config.vision
    assert vision is not None
    assert with_image_tokens([5, SOFT, 6], vision, [2, 3], 1) == [5, BEGIN, SOFT, SOFT, SOFT, END, 6]
    assert with_image_tokens([5, 6], vision, [2], 0) == [5, 6]
    with pytest.raises(SafelightError, match="0 places for 1 images"):
        with_image_tokens([5, 6], vision, [2], 1)
    with pytest.raises(SafelightError, match="2 places for 1 images: its text names the token of images"):
        with_image_tokens([SOFT, 6, SOFT], vision, [2], 1)
    answer, follow_up = {"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}
    asked = [message("a", WIDE, TALL), answer, message("a", TALL, TALL), answer, follow_up]
    sight = load_model(SIGHT)  # shows the last message, with the last pictures
    for seer, first in ((model, 0), (sight, 2)):
        counts = seer.image_sizes(asked, 70)[first:]
        ids = seer.chat_ids(asked, image_tokens=70)
        assert ids.count(SOFT if seer is model else 129) == sum(counts)
        assert count_tokens(seer, asked, image_tokens=70) == len(ids)
    ids = model.chat_ids([message("a", TALL)])
    prompt = model.with_images(ids, [message("a", WIDE), message("a", TALL)], (TALL,), 280)
    assert isinstance(prompt, Prompt)
    assert [len(one.rows) for one in prompt.images] == [ids.count(SOFT)]
