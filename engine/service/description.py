"""Describes a loaded model to clients."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from engine import catalog
from engine.config import GenerationConfig
from engine.decoders import able
from engine.errors import SafelightError
from engine.service.decisions import Deciding, canvas_of
from engine.service.replies import Capabilities, LoadedModel
from engine.service.requests import ChatRun, CompletionRun, ContinuedRun, DecisionRun, LoadRequest, RunRequest
from engine.text.message import Message, image_digests, with_images
from engine.text.reply import read_reply
from engine.text.tags import closed_thought, end_of_thought
from engine.trace.header import ModelIdentity

if TYPE_CHECKING:
    from engine.models.model import Model


def describe(model: Model, request: LoadRequest, identity: ModelIdentity, capabilities: Capabilities) -> LoadedModel:
    """Returns the plain data that clients get about a model."""
    return LoadedModel(
        path_or_id=request.path_or_id,
        title=request.title,
        name=model.name,
        defaults=model.generation_defaults,
        canvas_length=model.config.canvas_length,
        parameter_count=model.parameter_count,
        device=str(model.device),
        load_seconds=model.load_seconds,
        vocab_size=model.config.vocab_size,
        piece=model.tokenizer.piece,
        is_special=model.tokenizer.is_special,
        decode=functools.partial(read_reply, model.tokenizer),
        write=functools.partial(model.tokenizer.decode, skip_special=False),
        count_tokens=functools.partial(count_tokens, model),
        encode=model.tokenizer.encode,
        prompt_ids=functools.partial(prompt_ids, model),
        fingerprint=identity.fingerprint,
        context=model.config.max_position_embeddings,
        threads=model.threads,
        kernels=model.compute_path,
        device_reason=model.placement.reason,
        is_news=model.placement.is_news,
        image_cost=None if model.vision is None else model.vision.cost,
        capabilities=capabilities,
        decoders=model.family.decoders,
        settings=_settings(model),
        traits=catalog.traits(model.name),
        # Conversations that the template rejects are refused when one is sent.
        reads_system=_writes(model, _SYSTEM["content"], [_SYSTEM, _QUESTION], otherwise=True),
        reads_tools=_writes(model, _TOOL["function"]["name"], [_QUESTION], [_TOOL], otherwise=False),
        reads_history=_writes(model, _QUESTION["content"], [_QUESTION, _ANSWER, _NEXT], otherwise=True),
    )


def _settings(model: Model) -> frozenset[str] | None:
    """Returns all settings but the bound of a thought if the model has no token that ends one; None for all."""
    if end_of_thought(model.tokenizer.encode, model.tokenizer.piece) is not None:
        return None
    return frozenset(field.name for field in dataclasses.fields(GenerationConfig)) - {"thinking_tokens"} | {"seed"}


_SYSTEM = {"role": "system", "content": "4f1c"}
_QUESTION, _NEXT = {"role": "user", "content": "9a7e"}, {"role": "user", "content": "c3d5"}
_ANSWER = {"role": "assistant", "content": "2b68"}
_TOOL: Mapping[str, Any] = {
    "type": "function",
    "function": {"name": "d7e1", "description": "-", "parameters": {"type": "object", "properties": {}}},
}


def _writes(model: Model, text: str, messages: list[Message], tools: Sequence[Any] = (), *, otherwise: bool) -> bool:
    """Returns True if the template writes a text of a conversation or a tool; ``otherwise`` if it rejects them."""
    try:
        return text in model.chat_template.render(messages, tools)
    except SafelightError:
        return otherwise


def count_tokens(
    model: Model,
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]] = (),
    image_tokens: int = GenerationConfig.image_tokens,
) -> int:
    """Returns the number of tokens of a conversation in the model's template; images count where it places them."""
    if not image_digests(messages):
        return model.tokenizer.count(model.chat_template.render(messages, tools, inert=model.tokenizer.inert))
    if model.vision is None:
        return count_tokens(model, [with_images(message, ()) for message in messages], tools)
    text = model.chat_template.render(messages, tools, inert=model.tokenizer.inert)
    sizes = model.image_sizes(messages, image_tokens)
    places = text.count(model.tokenizer.piece(model.vision.config.image_token_id))
    placed = sizes[max(0, len(sizes) - places) :]  # the template may leave out the first ones
    # Each has two tokens around it, and one in the rendered text.
    return model.tokenizer.count(text) + sum(placed) + len(placed)


def prompt_ids(model: Model, request: RunRequest) -> list[int]:
    """Returns a request's prompt as tokens.

    Raises:
        SafelightError: it is empty, or the model's template rejects it.
    """
    # The most tokens of an image matter only if there are images.
    images: dict[str, Any] = {"image_tokens": request.config.image_tokens} if request.pictures else {}
    match request:
        case ContinuedRun():
            header = request.source.header
            return list(header.prompt_ids or model.chat_ids(header.messages, enable_thinking=header.think, **images))
        case CompletionRun():
            return list(request.ids) or model.tokenizer.encode_prompt(request.text)
        case DecisionRun():
            messages = deciding_of(model).messages(request.decision, request.pictures)
            return closed_thought(model.chat_ids(messages, enable_thinking=False, **images), model.tokenizer)
        case ChatRun():
            ids = model.chat_ids(request.messages, request.tools, enable_thinking=request.think, **images)
            is_closed = (request.is_held or bool(request.outline)) and not request.think
            return closed_thought(ids, model.tokenizer) if is_closed else ids
    return []  # of a gap, whose run cuts the text around it to its context


def deciding_of(model: Model) -> Deciding:
    """Returns the labels and canvas tokens that a model decides with.

    Raises:
        SafelightError: it cannot decide.
    """
    decoder = model.family.decoders[0]
    if not able(decoder, "decides"):
        raise SafelightError("this model does not denoise, and a decision is read from a denoising step; load another")
    length = canvas_of(model.config.canvas_length, decoder)
    return Deciding.from_tokenizer(model.tokenizer.encode, model.generation_defaults, length)
