"""Models by its default mode TOOLS, by TOOLS_STRICT and JSON_SCHEMA, and a partial stream."""

import os
from typing import Literal

import instructor
from openai import OpenAI
from pydantic import BaseModel

ASKED = [{"role": "user", "content": "A person."}]


class Person(BaseModel):
    name: str
    age: int
    kind: Literal["child", "adult"]


client = OpenAI(base_url=os.environ["SMALL"] + "/v1", api_key=os.environ["KEY"])
for mode in (instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT, instructor.Mode.JSON_SCHEMA):
    asked = instructor.from_openai(client, mode=mode)
    said = asked.chat.completions.create(
        model="small", messages=ASKED, response_model=Person, max_retries=0, max_tokens=500, seed=1
    )
    assert isinstance(said, Person), mode
parts = list(
    instructor.from_openai(client).chat.completions.create_partial(
        model="small", messages=ASKED, response_model=Person, max_retries=0, max_tokens=500, seed=1
    )
)
assert parts[-1].kind in ("child", "adult")
