"""The loaded model as JSON: a ``LoadedModel``'s plain facts by their names, and the dialect's number.

The functions that need the model's tokenizer are not part of it. A reader of the description also fetches the
tokenizer, and sets the functions with ``dataclasses.replace``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, NoReturn, get_args

from engine.catalog import PromptFormat, Taught, Traits
from engine.config import MOST_CANVAS, MOST_POSITIONS, MOST_THREADS, MOST_TILE, MOST_TOKENS, is_decoder
from engine.errors import SafelightError
from engine.pictures import ImageCost
from engine.service.capabilities import Capabilities
from engine.service.replies import LoadedModel
from engine.service.wire.fields import fields, flag, items, reading, real, string, whole
from engine.text.reply import Reply
from engine.trace.header import MOST_NAME, read_config
from engine.trace.live import by_number, is_never_special

DIALECT = 1  # raised by changes that an older reader must not ignore
MOST_PARAMETERS, MOST_RUNS, MOST_DECODERS = 10**15, 10**6, 64
_TEXTS = ("title", "name", "device", "fingerprint", "kernels", "device_reason", "adapter_title")
_FLAGS = ("reads_system", "reads_history", "reads_tools")
_NUMBERS = {
    "canvas_length": (1, MOST_CANVAS),
    "parameter_count": (0, MOST_PARAMETERS),
    "vocab_size": (1, MOST_TOKENS),
    "context": (1, MOST_POSITIONS),
    "threads": (0, MOST_THREADS),
}
_NESTED = ("adapter", "capabilities", "traits")
_FIELDS = ("dialect", "defaults", "load_seconds", *_NUMBERS, *_TEXTS, *_FLAGS, *_NESTED)


def model_to_json(model: LoadedModel) -> dict[str, Any]:
    """Returns the facts, without the place of the model's files."""
    plain = {name: getattr(model, name) for name in ("load_seconds", *_NUMBERS, *_TEXTS, *_FLAGS, "adapter")}
    nested = {name: dataclasses.asdict(getattr(model, name)) for name in ("defaults", "capabilities", "traits")}
    tile = None if model.image_cost is None else model.image_cost.tile
    return {"dialect": DIALECT, **plain, **nested, "decoders": list(model.decoders), "image_tile": tile}


def model_from_json(raw: Any, path_or_id: str) -> LoadedModel:
    """Returns a model without a tokenizer: tokens are numbers, and encoding and counting are refused.

    Unknown fields are ignored: a newer server says more of its model.

    Raises:
        SafelightError: it is none, or of a newer dialect.
    """
    raw = fields(raw, "the model", None, ("dialect",))
    if raw["dialect"] != DIALECT:
        raise SafelightError("the server is another version of Safelight; update both")
    raw = fields(raw, "the model", None, _FIELDS)
    able, cost = _capabilities(raw["capabilities"]), _image_cost(raw)
    with reading("the model"):
        defaults, _ = read_config(raw["defaults"])
    plain: dict[str, Any] = {name: whole(raw, name, *bounds) for name, bounds in _NUMBERS.items()}
    plain |= {name: string(raw, name, MOST_NAME) for name in _TEXTS} | {name: flag(raw, name) for name in _FLAGS}
    return LoadedModel(
        path_or_id=path_or_id,
        defaults=defaults,
        load_seconds=real(raw, "load_seconds"),
        adapter=None if raw["adapter"] is None else string(raw, "adapter", MOST_NAME),
        image_cost=cost if able.images else None,
        capabilities=dataclasses.replace(able, images=able.images and cost is not None),
        traits=_traits(raw["traits"]),
        decoders=_decoders(raw),
        **plain,
        piece=by_number,
        is_special=is_never_special,
        decode=lambda ids: Reply(_written(ids)),
        write=_written,
        encode=_refuse,
        count_tokens=_refuse,
        prompt_ids=_refuse,
    )


def _capabilities(raw: Any) -> Capabilities:
    names = [field.name for field in dataclasses.fields(Capabilities)]
    known = {name: raw[name] for name in names if name in fields(raw, "capabilities", None)}
    runs = whole(known, "parallel_runs", 1, MOST_RUNS, 1)
    flags = {name: flag(known, name) for name in names if name != "parallel_runs"}
    return Capabilities(**flags, parallel_runs=runs)


def _image_cost(raw: dict[str, Any]) -> ImageCost | None:
    """Returns the cost of images; None for a model that cannot see, and for older servers, which take no pictures."""
    return None if raw.get("image_tile") is None else ImageCost(whole(raw, "image_tile", 1, MOST_TILE))


def _decoders(raw: dict[str, Any]) -> tuple[str, ...]:
    """Returns the names; older servers send none."""
    names = items(raw, "decoders", MOST_DECODERS) if "decoders" in raw else []
    if not all(isinstance(name, str) and name and is_decoder(name) for name in names):
        raise SafelightError("the model's decoders are not names")
    return tuple(names)


def _traits(raw: Any) -> Traits:
    names = [field.name for field in dataclasses.fields(Traits)]
    raw = fields(raw, "traits", None, names)
    columns = raw["canvas_columns"]
    if raw["prompt_format"] not in get_args(PromptFormat) or raw["taught"] not in get_args(Taught):
        raise SafelightError("the model's traits are not known; update Safelight")
    return Traits(
        raw["prompt_format"],
        raw["taught"],
        None if columns is None else whole(raw, "canvas_columns", 1, MOST_CANVAS),
    )


def _written(ids: Iterable[int]) -> str:
    return "".join(by_number(int(token)) for token in ids)


def _refuse(_given: object) -> NoReturn:
    raise SafelightError("the model's tokenizer has not been fetched from the server; connect again")
