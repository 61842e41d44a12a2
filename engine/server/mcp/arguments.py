"""The arguments of each tool, with the words that a client's model reads about them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from engine.config import MAX_POSITIONS
from engine.server.errors import ApiError
from engine.server.schemas import GAP_TOKENS, MAX_EXACT
from engine.server.strict import Strict

MAX_STEP = 2**31 - 1
Length = Annotated[int, Field(ge=1, le=MAX_POSITIONS)]
Seed = Annotated[int, Field(ge=0, le=MAX_EXACT)]


class GenerateArguments(Strict):
    """A prompt, and what is asked of the answer to it."""

    prompt: Annotated[str, Field(min_length=1, description="The request, as one message of a person.")]
    system: Annotated[str | None, Field(description="Instructions before the prompt.")] = None
    max_tokens: Annotated[Length | None, Field(description="The longest answer, in tokens.")] = None
    seed: Annotated[Seed | None, Field(description="The same seed repeats an answer; left out, a new one.")] = None
    schema_: Annotated[
        dict[str, Any] | None,
        Field(alias="schema", description="A JSON schema. The answer is then JSON that fits it, whatever the prompt."),
    ] = None


class DecideArguments(Strict):
    """A question with given answers."""

    question: Annotated[str, Field(min_length=1, description="The question, or for yes_no a statement.")]
    kind: Annotated[
        Literal["yes_no", "choice", "score"],
        Field(description="yes_no: is it so? choice: which option applies? score: which level, on a scale?"),
    ]
    options: Annotated[
        list[str] | None,
        Field(description="For choice: 2 to 26 options. For score: the levels, the lowest first. Not for yes_no."),
    ] = None
    text: Annotated[str | None, Field(description="What the question is about, if it is not in the question.")] = None

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        if self.kind == "yes_no" and self.options:
            raise ApiError(400, "options: yes_no has none; leave them out, or change the kind.", param="options")
        if self.kind != "yes_no" and not self.options:
            raise ApiError(400, f"options: a {self.kind} needs them; list them.", param="options")
        return self


class InfillArguments(Strict):
    """A text with a gap."""

    prefix: Annotated[str, Field(description="The text before the gap.")]
    suffix: Annotated[str, Field(description="The text behind the gap.")]
    max_tokens: Annotated[Length | None, Field(description=f"The longest text, in tokens; left out, {GAP_TOKENS}.")] = (
        None
    )
    length: Annotated[Length | None, Field(description="Exactly so many tokens; left out, the model's usual.")] = None


class SudokuArguments(Strict):
    """A puzzle."""

    puzzle: Annotated[
        str,
        Field(max_length=1_000, description="81 cells, row by row: the digits 1 to 9, and 0 or . for an empty cell."),
    ]


class InspectArguments(Strict):
    """A run, and perhaps one of its steps."""

    run_id: Annotated[str, Field(min_length=1, max_length=200, description="run_id from the result of another tool.")]
    step: Annotated[
        int | None,
        Field(ge=1, le=MAX_STEP, description="Shows the draft after this step, counted from 1 over the whole run."),
    ] = None
