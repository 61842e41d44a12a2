"""Texts to copy into other programs so that they use the server. Knows no Qt."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass

from app.system.i18n import tr

PROMPT = "What is diffusion?"  # Safelight Talk and Skills know an answer, and so does a large model
MASK = "•" * 8


@dataclass(frozen=True)
class Access:
    """The data that a program needs to connect. ``url`` ends in ``/v1``."""

    url: str
    key: str
    model: str

    @property
    def masked(self) -> Access:
        """Returns a copy whose key is masked, to be shown."""
        return Access(self.url, MASK, self.model)


@dataclass(frozen=True)
class Snippet:
    """The text for one program, a pattern of the data that ``text`` puts in. ``hint`` says where to enter it."""

    title: str
    hint: str
    pattern: str

    def text(self, access: Access) -> str:
        model = json.dumps(access.model)
        return self.pattern.format(
            url=access.url,
            root=access.url.removesuffix("/v1"),
            key=access.key,
            quoted_key=json.dumps(access.key, ensure_ascii=False),
            shell_key=shlex.quote(access.key),
            name=access.model,
            model=model,
            shell_model=model.replace("'", "'\\''"),
            prompt=PROMPT,
        )


def snippets() -> tuple[Snippet, ...]:
    """Returns all snippets, in the user's language; programs' names and their texts are not translated."""
    return (
        Snippet("curl", tr("In a terminal: asks once and prints the answer."), CURL),
        Snippet("Python", tr("With OpenAI's own package: pip install openai."), PYTHON),
        Snippet(
            "Open WebUI",
            tr(
                "Admin Settings, Connections, OpenAI, Add New Connection. In a container on this computer, the "
                "address's host is host.docker.internal, and the switch above for other machines must be on."
            ),
            OPEN_WEBUI,
        ),
        Snippet("Claude Code", tr("In a terminal; it needs a model that calls tools."), CLAUDE_CODE),
        Snippet("Codex", tr("In ~/.codex/config.toml; it needs a model that calls tools."), CODEX),
        Snippet("Continue", tr("In config.yaml, for the editors VS Code and JetBrains."), CONTINUE),
    )


CURL = """\
curl {url}/chat/completions \\
  -H "Authorization: Bearer {key}" \\
  -H "Content-Type: application/json" \\
  -d '{{"model": {shell_model},
       "messages": [{{"role": "user", "content": "{prompt}"}}]}}'"""
PYTHON = """\
from openai import OpenAI

client = OpenAI(base_url="{url}", api_key={quoted_key})
answer = client.chat.completions.create(
    model={model},
    messages=[{{"role": "user", "content": "{prompt}"}}],
)
print(answer.choices[0].message.content)"""
OPEN_WEBUI = """\
URL: {url}
API Key: {key}
Model IDs: {name}"""
CLAUDE_CODE = """\
export ANTHROPIC_BASE_URL={root}
export ANTHROPIC_API_KEY={shell_key}
claude"""
CODEX = """\
model = {model}
model_provider = "safelight"

[model_providers.safelight]
name = "Safelight"
base_url = "{url}"
wire_api = "responses"
experimental_bearer_token = {quoted_key}"""
CONTINUE = """\
name: Safelight
version: 0.0.1
schema: v1
models:
  - name: {model}
    provider: openai
    model: {model}
    apiBase: {url}
    apiKey: {key}"""
