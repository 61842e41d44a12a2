"""The loaded model as JSON: a ``LoadedModel``'s plain facts by their names, and the dialect's number.

The functions that need the model's tokenizer are not part of it. A reader of the description also fetches the
tokenizer, and sets the functions with ``dataclasses.replace``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Annotated, Any, NoReturn

from engine.config import MAX_TILE
from engine.declared import plain, read, read_fields, whole
from engine.errors import SafelightError
from engine.pictures import ImageCost
from engine.service.replies import Capabilities, LoadedModel
from engine.text.reply import Reply
from engine.trace.live import by_number, is_never_special

DIALECT = 1  # raised by changes that an older reader must not ignore
Tile: Any = Annotated[int, whole(1, MAX_TILE)]


def model_to_json(model: LoadedModel) -> dict[str, Any]:
    """Returns the facts, without the place of the model's files."""
    tile = None if model.image_cost is None else model.image_cost.tile
    return {"dialect": DIALECT, **plain(model), "image_tile": tile}


def model_from_json(raw: Any, path_or_id: str) -> LoadedModel:
    """Returns a model without a tokenizer: tokens are numbers, and encoding and counting are refused.

    Unknown fields are ignored: a newer server says more of its model.

    Raises:
        SafelightError: it is none, or of a newer dialect.
    """
    raw = read(dict[str, Any], raw, "the model")
    if raw.get("dialect") != DIALECT:
        raise SafelightError("the server is another version of Safelight; update both")
    facts, tile = read_fields(LoadedModel, raw, "the model"), raw.get("image_tile")
    able: Capabilities = facts["capabilities"]  # of older servers, which take no pictures, without a cost
    facts["capabilities"] = dataclasses.replace(able, images=able.images and tile is not None)
    return LoadedModel(
        path_or_id=path_or_id,
        image_cost=ImageCost(read(Tile, tile, "image_tile")) if facts["capabilities"].images else None,
        **facts,
        piece=by_number,
        is_special=is_never_special,
        decode=lambda ids: Reply(_written(ids)),
        write=_written,
        encode=_refuse,
        count_tokens=_refuse,
        prompt_ids=_refuse,
    )


def _written(ids: Iterable[int]) -> str:
    return "".join(by_number(int(token)) for token in ids)


def _refuse(_given: object) -> NoReturn:
    raise SafelightError("the model's tokenizer has not been fetched from the server; connect again")
