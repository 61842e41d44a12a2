"""Texts to copy into other programs so that they use the server. Knows no Qt."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
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
    """The text for one program. ``hint`` says where to enter it."""

    title: str
    hint: str
    text: Callable[[Access], str]


def snippets() -> tuple[Snippet, ...]:
    """Returns all snippets, in the user's language; programs' names and their texts are not translated."""
    return (
        Snippet("curl", tr("In a terminal: asks once and prints the answer."), _curl),
        Snippet("Python", tr("With OpenAI's own package: pip install openai."), _python),
        Snippet(
            "Open WebUI",
            tr(
                "Admin Settings, Connections, OpenAI, Add New Connection. In a container on this computer, the "
                "address's host is host.docker.internal, and the switch above for other machines must be on."
            ),
            _open_webui,
        ),
        Snippet("Claude Code", tr("In a terminal; it needs a model that calls tools."), _claude_code),
        Snippet("Codex", tr("In ~/.codex/config.toml; it needs a model that calls tools."), _codex),
        Snippet("Continue", tr("In config.yaml, for the editors VS Code and JetBrains."), _continue),
    )


def _curl(access: Access) -> str:
    model = json.dumps(access.model).replace("'", "'\\''")
    return (
        f"curl {access.url}/chat/completions \\\n"
        f'  -H "Authorization: Bearer {access.key}" \\\n'
        '  -H "Content-Type: application/json" \\\n'
        f"""  -d '{{"model": {model},\n       "messages": [{{"role": "user", "content": "{PROMPT}"}}]}}'"""
    )


def _python(access: Access) -> str:
    return (
        "from openai import OpenAI\n\n"
        f"client = OpenAI(base_url={json.dumps(access.url)}, api_key={json.dumps(access.key, ensure_ascii=False)})\n"
        "answer = client.chat.completions.create(\n"
        f"    model={json.dumps(access.model)},\n"
        f'    messages=[{{"role": "user", "content": "{PROMPT}"}}],\n'
        ")\n"
        "print(answer.choices[0].message.content)"
    )


def _open_webui(access: Access) -> str:
    return f"URL: {access.url}\nAPI Key: {access.key}\nModel IDs: {access.model}"


def _claude_code(access: Access) -> str:
    return (
        f"export ANTHROPIC_BASE_URL={access.url.removesuffix('/v1')}\n"
        f"export ANTHROPIC_API_KEY={shlex.quote(access.key)}\n"
        "claude"
    )


def _codex(access: Access) -> str:
    return (
        f"model = {json.dumps(access.model)}\n"
        'model_provider = "safelight"\n\n'
        "[model_providers.safelight]\n"
        'name = "Safelight"\n'
        f"base_url = {json.dumps(access.url)}\n"
        'wire_api = "responses"\n'
        f"experimental_bearer_token = {json.dumps(access.key, ensure_ascii=False)}"
    )


def _continue(access: Access) -> str:
    return (
        "name: Safelight\n"
        "version: 0.0.1\n"
        "schema: v1\n"
        "models:\n"
        f"  - name: {json.dumps(access.model)}\n"
        "    provider: openai\n"
        f"    model: {json.dumps(access.model)}\n"
        f"    apiBase: {access.url}\n"
        f"    apiKey: {access.key}"
    )
