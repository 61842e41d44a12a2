"""A tiny random model that sees, as a checkpoint with a tokenizer and a template for images; and pictures."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from engine import GenerationConfig
from engine.config import VisionConfig
from engine.pictures import Picture, open_picture
from engine.text.message import image_of
from tests.engine.small import build_tokenizer, write_checkpoint
from tests.engine.tiny import VISION, network

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|turn>{{ 'model' if message.role == 'assistant' else 'user' }}\n"
    "{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}"
    "{{ '<|image|>' if part.type == 'image' else part.text }}{% endfor %}{% endif %}<turn|>\n{% endfor %}<|turn>model\n"
)
MARKS = {"<|image>": VISION.begin_token_id, "<|image|>": VISION.image_token_id, "<image|>": VISION.end_token_id}


def picture(width: int, height: int, seed: int = 0) -> Picture:
    drawn = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(drawn).save(file, "PNG")
    return open_picture(file.getvalue())


def message(text: str, *pictures: Picture, at: int = 0) -> dict[str, Any]:
    return {"role": "user", "content": text, "images": [image_of(one, at) for one in pictures]}


def describe_vision(folder: Path, vision: VisionConfig = VISION) -> None:
    """Say in a checkpoint's files what its network's tower is, and how images are written."""
    config = json.loads((folder / "config.json").read_text())
    shape = dataclasses.asdict(vision)
    begin, image, end = (shape.pop(f"{name}_token_id") for name in ("begin", "image", "end"))
    config |= {"boi_token_id": begin, "image_token_id": image, "eoi_token_id": end, "vision_soft_tokens_per_image": 70}
    theta = shape.pop("rope_theta")
    config["vision_config"] = {
        **shape,
        "model_type": "gemma4_vision",
        "rope_parameters": {"rope_type": "axial", "rope_theta": theta},
    }
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer = json.loads(build_tokenizer().to_str())
    names = {token: name for name, token in MARKS.items()}
    vocabulary = tokenizer["model"]["vocab"]
    tokenizer["model"]["vocab"] = {names.get(token, name): token for name, token in vocabulary.items()}
    special = tokenizer["added_tokens"][0]
    tokenizer["added_tokens"] += [{**special, "id": token, "content": name} for name, token in MARKS.items()]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "chat_template.jinja").write_text(TEMPLATE)


def seeing(folder: Path, vision: VisionConfig = VISION, **changes: Any) -> Path:
    """Write a model that sees; ``changes`` are of ``tiny.CONFIG``."""
    made = network(1, vision=vision, **changes)
    write_checkpoint(made, folder, GenerationConfig(max_new_tokens=20, max_denoising_steps=3))
    describe_vision(folder, vision)
    return folder
