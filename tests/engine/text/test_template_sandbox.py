"""A stranger's chat template may not take time or memory without end; published ones write what plain Jinja writes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from engine import SafelightError
from engine.text import template_sandbox
from engine.text.chat_template import ChatTemplate, Message
from engine.text.template_sandbox import LimitError, Rendering

USER: list[Message] = [{"role": "user", "content": "Hi <there>"}]

PUBLISHED = """
{%- macro strip_thinking(text) -%}
    {%- set ns = namespace(result='') -%}
    {%- for part in text.split('<channel|>') -%}
        {%- set ns.result = ns.result + part.split('<|channel>')[0] -%}
    {%- endfor -%}
    {{- ns.result | trim -}}
{%- endmacro -%}
{%- macro argument(value, escape=True) -%}
    {%- if value is string -%}{{- ('"' if escape else '') ~ value -}}
    {%- elif value is mapping -%}
        {{- '{' -}}
        {%- for key, inner in value | dictsort -%}{{ key }}:{{ argument(inner, escape=escape) }}{% endfor -%}
        {{- '}' -}}
    {%- else -%}{{- value | tojson -}}{%- endif -%}
{%- endmacro -%}
{{ bos_token }}
{%- set ns = namespace(last_user=-1, roles=[]) -%}
{%- for message in messages[::-1] -%}
    {%- set index = (messages | length - 1) - loop.index0 -%}
    {%- if ns.last_user < 0 and message.role == 'user' and not (message.content.startswith('<tool>')) -%}
        {%- set ns.last_user = index -%}
    {%- endif -%}
    {%- set ns.roles = ns.roles + [message['role']] -%}
{%- endfor -%}
{%- for tool in tools | default([]) %}{{ argument(tool) }}{{ '%s/%02d' | format(tool.name, loop.index) }}{% endfor -%}
{%- for message in messages if message.content is defined -%}
    {%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}
    {{- '<|turn>' + role + '\\n' -}}
    {%- if role == 'model' and '</think>' in message.content -%}
        {%- set thought = (message.content.split('</think>') | first).rstrip('\\n') -%}
        {{- thought if loop.index0 > ns.last_user -}}
        {{- strip_thinking((message.content.split('</think>') | last).lstrip('\\n')) -}}
    {%- else -%}
        {{- strip_thinking(message['content']) -}}
    {%- endif -%}
    {%- if loop.previtem is defined and loop.previtem.role == message.role -%}{%- continue -%}{%- endif -%}
    {{- '<turn|>\\n' -}}
{%- endfor -%}
{{ ns.roles | unique | list | join(',') | upper }}
{%- if add_generation_prompt %}<|turn>model{{ '{}!'.format(messages | length) }}{% endif %}
"""
TOOLS = [{"name": "weather", "days": [1, 2], "of": {"city": "Zürich", "<b>": None}}]


def conversation(turns: int) -> list[Message]:
    turned: list[Message] = [{"role": "system", "content": "Be brief. <&'>"}]
    for turn in range(turns):
        turned.append({"role": "user", "content": f"question {turn} " + "word " * 40})
        turned.append({"role": "assistant", "content": f"<think>hm</think>\nanswer {turn} <|channel>x<channel|> " * 3})
    return [*turned, {"role": "user", "content": "and so on"}]


def by_plain_jinja(messages: list[Message], **values: Any) -> str:
    """Renders a template as transformers does."""
    plain = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    plain.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return plain.from_string(PUBLISHED).render(messages=messages, add_generation_prompt=True, **values)


@pytest.mark.parametrize("turns", [0, 1, 30])
def test_a_published_template_writes_what_plain_jinja_writes(turns: int) -> None:
    messages = conversation(turns)
    for more in ({}, {"tools": TOOLS}):
        rendered = ChatTemplate(PUBLISHED, {"bos_token": "<bos>"}).render(messages, **more)
        assert rendered == by_plain_jinja(messages, bos_token="<bos>", **more)
        assert rendered.count("and so on") == 1


def test_a_long_message_passes_through_each_filter() -> None:
    said = "x" * 40_000
    source = (
        "{% set text = messages[0].content %}{{ '{}'.format(text) }}{{ '%s'|format(text) }}{{ ''|default(text, true) }}"
        "{{ text.startswith(text) }}{{ text.split(text)|length }}{{ text.strip('x' * 1001) }}"
        "{{ text.replace(text, 'b') }}"
    )
    assert ChatTemplate(source, {}).render([{"role": "user", "content": said}]) == f"{said}{said}{said}True2b"


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(100000) %}{% for b in range(300) %}{% endfor %}{% endfor %}",
        "{% for a in range(99999) if 'b' in 'a' * 99999 %}{% endfor %}" * 30,
        "{% for a in range(99999) %}" + "{% if a %}{% endif %}" * 999 + "{% endfor %}",
        "{{ 'a' * 10**10 }}",
        "{{ 10**10**10 }}",
        "{{ '9'.ljust(4000, '9')|int * 2 }}",
        "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x=(1,)) %}{% for i in range(60) %}{% set ns.x = (ns.x, ns.x) %}{% endfor %}{{ {ns.x: 1} }}",  # noqa: E501
        "{% set ns = namespace(x=[]) %}{% for i in range(999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x|tojson }}",
        "{{ 'a'|center(1000000000) }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '%(a(b)c)1000000000d' % {'a(b)c': 1} }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ ('a' * 9999).replace('', 'b' * 99999) }}",
        "{{ ('a' * 99999)|join('b' * 99999) }}",
        "{{ ['a']|batch(1000000000, 'x')|list }}",
        "{{ ('a\n' * 9999)|indent(99999) }}",
        "{{ [[1]]|tojson(indent=1000000000) }}",
        "{{ 5|round(-1000000000) }}",
        "{{ strftime_now('%1000000000Y') }}",
        "{{ ('a' * 500000).rfind('b' + 'a' * 250000) }}",
        "{{ ('a' * 500000).strip('b' * 250000) }}",
        "{% set a = (range(99999)|list) * 10 %}" + "{{ a|sort(reverse=true)|length }}" * 20,
        "{{ ([[1]] * 90000)|sum(start=[])|length }}",
        "{% set s = 'a' * 500000 %}{% for i in range(99999) %}{{ 1 if s == 'b' }}{% endfor %}",
        "{% set s = 'a' * 500000 %}{% for i in range(99999) %}{% set t = s[1:] %}{% endfor %}",
        "{% set x %}{% for i in range(99999) %}" + "a" * 999 + "{% endfor %}{% endset %}",
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}",
        "{% for x in [1] recursive %}{{ loop([1, 1]) }}{% endfor %}",
        "{{ namespace(*('a' * 1000000 * 10)) }}",
        "{% set ns = namespace() %}{% set ns.a = ns %}{{ [ns] }}",
        "{{ 'x'.encode }}{{ 'x'.translate({120: 'y' * 99999}) }}",
        "{{ 'x'.format_map({}) }}",
        "{{ lipsum(100000) }}",
        "{% include '/etc/passwd' %}",
        "{{ ''.__class__.__mro__ }}",
        "{% set _ = messages.append(1) %}",
        "{{ raise_exception('two\nlines') }}",
        "{{ 1 / 0 }}",
    ],
)  # fmt: skip
def test_a_template_without_end_or_harmful_is_refused(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_sandbox, "SECONDS", 0.05)
    messages = [dict(message) for message in USER]
    with pytest.raises(SafelightError, match=r"^the model's chat template (refuses this conversation|is damaged): .*$"):
        ChatTemplate(source, {}).render(messages)
    assert messages == USER


@pytest.mark.parametrize("source", ["{{ '' | attr('__class__') }}", "{{ '{0.__class__}'.format(messages) }}"])
def test_a_look_outside_finds_nothing(source: str) -> None:
    assert ChatTemplate(source, {}).render(USER) == ""


@pytest.mark.parametrize(
    "source",
    [
        "{{ " + "(" * 5_000 + "1" + ")" * 5_000 + " }}",
        "{{ " + "a." * 5_000 + "b }}",
        "{{ 1" + "+1" * 4_000 + " }}",
        "{% if a %}" * 300 + "{% endif %}" * 300,
        "{% for a in b %}" * 30 + "{% endfor %}" * 30,
        "{{ " + "9" * 5_000 + " }}",
        "{# " + "x" * 200_000 + " #}",
        "{{ 'a'|wordwrap(1) }}",
    ],
)
def test_a_template_that_cannot_be_compiled_is_explained(source: str) -> None:
    with pytest.raises(SafelightError, match=r"the model's chat template (is damaged: \S|is longer than)"):
        ChatTemplate(source, {})


def test_the_bounds_grow_with_the_conversation() -> None:
    template = ChatTemplate("{% for a in range(9999) %}" + "twenty letters of it." * 10 + "{% endfor %}", {})
    with pytest.raises(SafelightError, match="larger"):
        template.render(USER)
    assert template.render([{"role": "user", "content": "x" * 200_000}]).startswith("twenty")


def test_a_value_counts_as_often_as_it_is_held() -> None:
    rendering = Rendering(1_000)
    inner = rendering.made(["a" * 98] * 4)
    assert rendering.size(inner) == 402
    assert rendering.size([inner, inner]) == 806
    with pytest.raises(LimitError, match="larger"):
        rendering.size([inner, inner, inner])
