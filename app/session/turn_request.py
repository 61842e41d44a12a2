"""Chooses what a model is sent for a turn: its part, settings, messages, pictures and tools. Knows no runs."""

from __future__ import annotations

from pathlib import Path

from app.library.pictures import PictureStore
from app.session.calling import Calling
from app.settings.values import SettingsValues
from app.state.adapters import with_adapter
from app.state.chat.attachment import AttachedPicture, Attachment
from app.state.chat.conversation import Answer, ChatState, Turn, user_message
from app.state.chat.rewriting import Rewriting, can_fill
from app.system.i18n import tr
from engine import GenerationConfig
from engine.catalog import GAPS
from engine.pictures import Picture
from engine.service import ChatRun, LoadedModel
from engine.service.small import part_for, worded
from engine.text.message import Message, with_images
from engine.text.output_format import OutputFormat
from engine.tools.tool import Tool


def cannot_see(model: str) -> str:
    """Returns the reason why a prompt with pictures is not sent to a model."""
    return tr("{model} only reads text. Load a model that sees pictures, or remove the picture.", model=model)


def visible(messages: tuple[Message, ...], model: LoadedModel) -> tuple[Message, ...]:
    """Returns messages without the images that the model does not read: all, or those before the last message."""
    blind = messages if not model.capabilities.images else () if model.reads_history else messages[:-1]
    return (*(with_images(message, ()) for message in blind), *messages[len(blind) :])


def reserve(config: GenerationConfig, model: LoadedModel) -> int:
    """Returns the tokens of the context reserved for an answer: whole canvases, at most half of the context.

    A longer answer ends at the end of the context.
    """
    blocks = -(-config.max_new_tokens // model.canvas_length)
    if not model.context:
        return blocks * model.canvas_length
    return max(model.canvas_length, min(blocks * model.canvas_length, model.context // 2))


def title_of(model: LoadedModel) -> str:
    return with_adapter(model.title, model.adapter_title or Path(model.adapter or "").name)


def behind_calls(first: ChatRun, answer: Answer) -> ChatRun:
    """Returns the request of the run that goes on behind the results of an answer's calls."""
    further = [message for made in answer.rounds for message in made.messages]
    return ChatRun(
        first.config, first.seed, (*first.messages, *further), first.think, reserve=first.reserve,
        pictures=first.pictures, tools=first.tools, output_format=first.output_format,
        is_seed_set=first.is_seed_set, prepared_for=first.prepared_for,
    )  # fmt: skip


class TurnRequests:
    """Makes answers, and the requests for them, by the user's settings."""

    def __init__(self, values: SettingsValues, pictures: PictureStore, calls: Calling) -> None:
        self._values, self._pictures, self._calls = values, pictures, calls

    def part(
        self,
        chat: ChatState,
        model: LoadedModel,
        asked: Message,
        at: Turn | None = None,
        rewriting: Rewriting | None = None,
    ) -> LoadedModel:
        """Returns the part of a model that answers a message, asked next or in place of the turn ``at``; the model
        itself if it has no parts."""
        if not model.parts:
            return model
        tools = [tool.called for tool in self._calls.offered(model)]
        messages = chat.messages_with(asked, at)
        return model.part(part_for(messages, tools) if rewriting is None else GAPS)

    def pending(
        self,
        chat: ChatState,
        model: LoadedModel | None,
        text: str,
        attachments: tuple[Attachment, ...],
        pictures: tuple[AttachedPicture, ...],
    ) -> tuple[Message, ...]:
        """Returns the conversation as it would be sent to a model with this prompt."""
        pictures = pictures or (() if model is None else self.carried(chat, model))
        messages = chat.messages_with(user_message(text, attachments, pictures))
        return messages if model is None else visible(worded(model.path_or_id, messages), model)

    def carried(self, chat: ChatState, model: LoadedModel) -> tuple[AttachedPicture, ...]:
        """Returns the latest pictures, to send with a prompt without any if the model reads only the last message."""
        if model.reads_history or not model.capabilities.images:
            return ()
        return next((turn.pictures for turn in reversed(chat.turns) if turn.pictures), ())

    def new_answer(self, model: LoadedModel, version: int = 0, rewriting: Rewriting | None = None) -> Answer:
        """Returns an answer that waits for its run; ``version`` counts those of its turn."""
        seed, config = self._values.next_seed(version), self._values.config(model.defaults, model.decoders)
        is_text = not model.capabilities.steps
        answer = Answer(title_of(model), seed, config, model.path_or_id, model.adapter, is_text)
        answer.rewriting = rewriting if can_fill(model, config) else None
        return answer

    def request(
        self,
        chat: ChatState,
        turn: Turn,
        model: LoadedModel,
        how: Rewriting | None,
        tools: tuple[Tool, ...],
        think: bool,
    ) -> ChatRun:
        """Returns the request for the shown answer of a turn.

        Args:
            how: how the answer is written, if not by the prompt alone.
            tools: that the model is offered.
        """
        answer = turn.answer
        messages = chat.messages(turn, with_tools=model.reads_tools)
        if how is not None:
            asked = user_message(how.wording(turn.prompt), turn.attachments, turn.pictures)
            messages = (*messages[:-1], asked, *how.further())
        messages, pictures = self._shown(messages, model)
        return ChatRun(
            answer.config,
            answer.seed,
            messages,
            think and how is None,
            reserve=reserve(answer.config, model),
            pictures=pictures,
            tools=tuple(tool.function for tool in tools),
            output_format=OutputFormat.text_or_calls([tool.function["function"] for tool in tools]),
            outline=() if how is None else how.outline,
            noise=0.0 if how is None else how.noise,
            is_seed_set=self._values.seed is not None,
            prepared_for=model.path_or_id,
        )

    def _shown(
        self, messages: tuple[Message, ...], model: LoadedModel
    ) -> tuple[tuple[Message, ...], tuple[Picture, ...]]:
        """Returns messages and pictures without the pictures that the model does not read or that are missing."""
        by_digest: dict[str, Picture | None] = {}
        messages = visible(worded(model.path_or_id, messages), model)
        for image in (image for message in messages for image in message.get("images", ())):
            get = self._pictures.get
            by_digest[image["digest"]] = get(image["digest"], image["width"], image["height"])
        there = {digest: picture for digest, picture in by_digest.items() if picture is not None}
        return tuple(with_images(message, there) for message in messages), tuple(there.values())
