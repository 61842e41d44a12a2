"""The fields of requests. What would change the meaning of an answer and cannot be honoured is refused.

Other fields that cannot be honoured, and unknown ones, are passed over and named to the client: it often cannot leave
them out.
"""

from __future__ import annotations

import secrets
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from engine.config import LARGEST_SEED, MAX_CANVAS, MAX_POSITIONS, MAX_VOCABULARY
from engine.server.errors import ApiError
from engine.server.strict import PassedOver, RequestBody, Strict, ignored_in

MAX_MESSAGES = 2_000
MAX_TOOLS = 128
MAX_STOPS = 16
MAX_EXACT = 2**53  # JavaScript misreads larger whole numbers
MAX_ANSWERS = 16  # to one prompt
MAX_CHOICES = 64  # of all prompts of a request
MAX_TOP_LOGPROBS = 20
GAP_TOKENS = 128  # the longest text of a gap if a request does not say
NO_SUFFIX = (None, "", "<|endoftext|>")  # nothing follows; the last is Continue's
UNNAMED = ("", "dummy")  # model names from clients that have none; the second is huggingface_hub's
TokenId = Annotated[int, Field(ge=0, le=MAX_VOCABULARY)]
Stop = Annotated[str, Field(max_length=256)]


def _length(sent: int | None) -> int | None:
    return sent if sent is None else MAX_POSITIONS if sent == -1 else min(sent, MAX_POSITIONS)


AnyLength = Annotated[int | None, Field(ge=-1, le=LARGEST_SEED), AfterValidator(_length)]  # -1: all the room
AnySeed = Annotated[  # -1 asks for a new one
    int | None, Field(ge=-1, le=LARGEST_SEED), AfterValidator(lambda seed: None if seed == -1 else seed)
]
DecoderName = Annotated[str, Field(min_length=1, max_length=64)]


ModelName = Annotated[str, Field(max_length=1_000), AfterValidator(lambda name: None if name in UNNAMED else name)]


_ENDS = "the model ends its text itself"
_NEW_TURN = "the answer is a new message; let completions go on with a text"
_OTHER_FORMAT = "send a JSON schema, a regular expression or choices"
UNUSED_SAMPLING: PassedOver = {
    "typical_p": (1, 1.0),
    "presence_penalty": (0, 0.0),
    "frequency_penalty": (0, 0.0),
    "logit_bias": ({},),
}


class StreamOptions(Strict):
    """The options of a stream; padding against guesses by its length is not sent."""

    PLACE = "stream_options."
    UNUSED = frozenset({"include_obfuscation"})
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class NamedSchema(Strict):
    """The schema of ``response_format``; every answer fits it, with or without ``strict``."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    description: str | None = None
    schema_: Annotated[dict[str, Any], Field(alias="schema")]
    strict: bool | None = None


class ResponseFormat(Strict):
    """OpenAI's ``response_format``, for chats.

    An object's schema may be given in llama.cpp's ``schema``, or in the ``value`` of TGI's clients.
    """

    type: Literal["json_schema", "json_object", "text"]
    json_schema: NamedSchema | None = None
    schema_: Annotated[dict[str, Any] | None, Field(alias="schema")] = None
    value: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _check_schema(self) -> Self:
        if (self.type == "json_schema") != (self.json_schema is not None):
            raise ValueError("json_schema is only for the type json_schema")
        if self.type != "json_object" and (self.schema_ is not None or self.value is not None):
            raise ValueError("schema and value are only for the type json_object")
        if self.schema_ is not None and self.value is not None:
            raise ValueError("schema and value are the same; give one")
        return self

    @property
    def schema_of_object(self) -> dict[str, Any] | None:
        """The schema of the type ``json_object``, if one is given."""
        return self.schema_ if self.schema_ is not None else self.value


class StructuredOutputs(Strict):
    """vLLM's ``structured_outputs``: one of these fields."""

    json_: Annotated[str | dict[str, Any] | None, Field(alias="json")] = None
    regex: str | None = None
    choice: list[str] | None = None
    json_object: bool | None = None


class SampledRequest(RequestBody):
    """The fields that chats and completions have in common. At most one of those that ask for a format may be given."""

    PLACE = ""
    UNUSED = frozenset({"user"})
    PASSED_OVER = UNUSED_SAMPLING
    NEUTRAL = {  # noqa: RUF012 - declared a ClassVar in the base class
        "best_of": ((1,), "several answers are not compared; leave it out"),
        "min_tokens": ((0,), _ENDS),
        "ignore_eos": ((False,), _ENDS),
        "stop_token_ids": (([],), "send their texts as stop"),
        "bad_words": (([],), "ask for other words in the prompt"),
        "allowed_token_ids": (([],), "send response_format"),
        "truncate_prompt_tokens": ((), "shorten the prompt"),
        "grammar": (("",), _OTHER_FORMAT),
        "guided_grammar": (("",), _OTHER_FORMAT),
        "format": (("",), "send response_format"),
    }
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    json_schema: str | dict[str, Any] | None = None  # llama-server's
    guided_json: str | dict[str, Any] | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    model: ModelName | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: AnyLength = None
    seed: AnySeed = None
    stop: Stop | Annotated[list[Stop], Field(max_length=MAX_STOPS)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    decoder: DecoderName | None = None
    token_thoughts: bool | None = None
    diffusion_sampler: DecoderName | None = None
    threshold: Annotated[float, Field(ge=0, le=1_000)] | None = None  # of that sampler
    diffusion_min_canvas_length: Annotated[int, Field(ge=1, le=MAX_CANVAS)] | None = None
    diffusion_frames: bool | None = None
    vllm_xargs: dict[str, Any] | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    thinking_token_budget: Annotated[int, Field(ge=0, le=MAX_POSITIONS)] | None = None
    repetition_penalty: float | None = None
    n: Annotated[int, Field(ge=1, le=MAX_ANSWERS)] | None = None

    @model_validator(mode="after")
    def _check_stream(self) -> Self:
        if self.diffusion_frames and not self.stream:
            raise ValueError("diffusion_frames needs stream to be true")
        return self

    @property
    def chosen_seed(self) -> int:
        """The requested seed, else a new one; at a temperature of 0 always the same, as callers expect."""
        if self.seed is not None:
            return self.seed
        return 0 if self.temperature == 0 else secrets.randbelow(MAX_EXACT)

    @property
    def stops(self) -> tuple[str, ...]:
        """The strings that end the answer."""
        stops = [self.stop] if isinstance(self.stop, str) else self.stop or ()
        return tuple(stop for stop in stops if stop)


class FunctionCall(Strict):
    """A call that the model made, as it is sent back to the model."""

    name: str = Field(min_length=1, max_length=200)
    arguments: str


class ToolCallSent(Strict):
    """An entry of an assistant's ``tool_calls``."""

    PLACE = "messages.tool_calls."
    UNUSED = frozenset({"index"})
    id: str = Field(max_length=200)
    type: Literal["function"] = "function"
    function: FunctionCall


class ChatMessage(Strict):
    """One message of the conversation. Fields of an answer that clients send back are accepted, too."""

    PLACE = "messages."
    UNUSED = frozenset({"annotations", "provider_specific_fields"})  # the latter are litellm's notes on an answer
    NEUTRAL = {  # noqa: RUF012 - declared a ClassVar in the base class
        "refusal": ((), "send it as content"),
        "audio": ((), "send text"),
        "function_call": ((), "send tool_calls"),
    }
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[dict[str, Any]] | None = None
    tool_calls: Annotated[list[ToolCallSent], Field(max_length=MAX_TOOLS)] | None = None
    tool_call_id: str | None = Field(None, max_length=200)
    name: str | None = Field(None, max_length=200)
    reasoning: str | None = None
    reasoning_content: str | None = None

    @model_validator(mode="after")
    def _drop_notes(self, info: ValidationInfo) -> Self:
        """Passes over a person's name, and what clients note on parts of the content."""
        ignored = ignored_in(info)
        if self.name is not None and self.role not in ("tool", "assistant"):
            ignored.add("messages.name")
            self.name = None
        if isinstance(self.content, list):
            for part in self.content:
                for note in [name for name in part if name not in ("type", part.get("type"))]:
                    ignored.add(f"messages.content.{note}")
                    del part[note]
        return self


class FunctionTool(Strict):
    """A function that the model may call."""

    PLACE = "tools.function."
    name: str = Field(pattern=r"^[A-Za-z0-9_.\-]{1,64}$")
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ChatTool(Strict):
    """An entry of ``tools``."""

    PLACE = "tools."
    type: Literal["function"]
    function: FunctionTool


class TemplateOptions(Strict):
    PLACE = "chat_template_kwargs."
    enable_thinking: bool | None = None


class ChatRequest(SampledRequest):
    """Body of ``/v1/chat/completions``."""

    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=MAX_MESSAGES)]
    max_completion_tokens: AnyLength = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_TOP_LOGPROBS)] | None = None
    tools: Annotated[list[ChatTool], Field(max_length=MAX_TOOLS)] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    chat_template_kwargs: TemplateOptions | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None

    NEUTRAL = SampledRequest.NEUTRAL | {
        "modalities": ((["text"],), "it writes text"),
        "continue_final_message": ((False,), _NEW_TURN),
        "add_generation_prompt": ((True,), _NEW_TURN),
        "chat_template": (("",), "the model's own is used"),
        "echo": ((False,), "it is for completions"),
    }
    PASSED_OVER = UNUSED_SAMPLING | {"prediction": (), "store": (False,), "service_tier": ("auto", "default")}
    UNUSED = SampledRequest.UNUSED | {"metadata", "safety_identifier", "prompt_cache_key"}

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        longest = {self.max_tokens, self.max_completion_tokens} - {None}
        if len(longest) > 1:
            raise ValueError("max_tokens and max_completion_tokens contradict each other; give one of them")
        if self.top_logprobs and not self.logprobs:
            raise ValueError("top_logprobs needs logprobs to be true")
        return self

    @property
    def thinks(self) -> bool:
        """True if the model is to think first.

        Raises:
            ApiError: the fields contradict each other.
        """
        options, effort = self.chat_template_kwargs, self.reasoning_effort
        enabled = options.enable_thinking if options is not None else None
        by_effort = None if effort is None else effort not in ("none", "minimal")
        if enabled is not None and by_effort is not None and enabled != by_effort:
            raise ApiError(
                400, "reasoning_effort and enable_thinking contradict each other; give one.", param="reasoning_effort"
            )
        return bool(enabled or by_effort)


class CompletionRequest(SampledRequest):
    """Body of ``/v1/completions``."""

    prompt: str | list[str] | list[TokenId] | list[list[TokenId]]
    logprobs: Annotated[int, Field(ge=0, le=MAX_TOP_LOGPROBS)] | None = None
    echo: bool | None = None
    suffix: str | None = None

    @property
    def behind(self) -> str | None:
        """The text behind a gap that is to be filled; None: the prompt goes on."""
        return None if self.suffix in NO_SUFFIX else self.suffix

    @model_validator(mode="after")
    def _check_choices(self) -> Self:
        if len(self.prompts) * (self.n or 1) > MAX_CHOICES:
            raise ValueError(f"at most {MAX_CHOICES} answers to all prompts together; send further ones separately")
        return self

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts, as text or as tokens."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        tokens = [token for token in self.prompt if isinstance(token, int)]
        several = [prompt for prompt in self.prompt if not isinstance(prompt, int)]
        return several or [tokens]


class FimRequest(CompletionRequest):
    """Body of ``/v1/fim/completions``, where a text may be empty, whatever ``min_tokens`` asks for."""

    NEUTRAL = {name: one for name, one in SampledRequest.NEUTRAL.items() if name != "min_tokens"}  # noqa: RUF012
    PASSED_OVER = UNUSED_SAMPLING | {"min_tokens": (0,)}
    random_seed: AnySeed = None  # Mistral's name

    @model_validator(mode="after")
    def _take_defaults(self) -> Self:
        self.seed = self.random_seed if self.seed is None else self.seed
        self.temperature = 0.0 if self.temperature is None else self.temperature
        self.max_tokens = GAP_TOKENS if self.max_tokens is None else self.max_tokens
        return self
