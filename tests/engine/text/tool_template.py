"""A chat template with tools, as the released model's is known to write them; and conversations for it."""

from __future__ import annotations

from typing import Any

TEMPLATE = r"""
{%- set q = '<|"|>' -%}
{%- macro value(it, keys_too=false) -%}
    {%- if it is string -%}
        {{- q ~ it ~ q -}}
    {%- elif it is boolean -%}
        {{- 'true' if it else 'false' -}}
    {%- elif it is none -%}
        {{- 'null' -}}
    {%- elif it is mapping -%}
        {{- '{' -}}
        {%- for key, inner in it | dictsort -%}
            {{- ',' if not loop.first -}}{{- (q ~ key ~ q) if keys_too else key -}}:{{- value(inner, keys_too) -}}
        {%- endfor -%}
        {{- '}' -}}
    {%- elif it is sequence -%}
        {{- '[' -}}
        {%- for inner in it -%}{{- ',' if not loop.first -}}{{- value(inner, keys_too) -}}{%- endfor -%}
        {{- ']' -}}
    {%- else -%}
        {{- it -}}
    {%- endif -%}
{%- endmacro -%}
{%- macro schema(it) -%}
    {%- set parts = namespace(all=[]) -%}
    {%- if it.description -%}{%- set parts.all = parts.all + ['description:' ~ q ~ it.description ~ q] -%}{%- endif -%}
    {%- if it.enum -%}{%- set parts.all = parts.all + ['enum:' ~ value(it['enum'])] -%}{%- endif -%}
    {%- if it['items'] is mapping -%}{%- set parts.all = parts.all + ['items:' ~ schema(it['items'])] -%}{%- endif -%}
    {%- if it.properties -%}
        {%- set inner -%}
            {%- for key, member in it['properties'] | dictsort -%}
                {{- ',' if not loop.first -}}{{- key -}}:{{- schema(member) -}}
            {%- endfor -%}
        {%- endset -%}
        {%- set parts.all = parts.all + ['properties:{' ~ inner ~ '}'] -%}
    {%- endif -%}
    {%- if it.required -%}{%- set parts.all = parts.all + ['required:' ~ value(it['required'])] -%}{%- endif -%}
    {%- if it.type is string -%}{%- set parts.all = parts.all + ['type:' ~ q ~ (it.type | upper) ~ q] -%}{%- endif -%}
    {{- '{' ~ (parts.all | join(',')) ~ '}' -}}
{%- endmacro -%}
{%- macro said(content) -%}
    {%- if content is string -%}
        {{- content | trim -}}
    {%- else -%}
        {%- for part in content or [] -%}
            {%- if part.type == 'text' -%}{{- part.text | trim -}}
            {%- elif part.type in ['image', 'audio', 'video'] -%}{{- '<|' ~ part.type ~ '|>' -}}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro -%}
{%- macro without_thought(text) -%}
    {%- set kept = namespace(text='') -%}
    {%- for part in text.split('<channel|>') -%}
        {%- set kept.text = kept.text ~ part.split('<|channel>')[0] -%}
    {%- endfor -%}
    {{- kept.text | trim -}}
{%- endmacro -%}
{%- macro result(message) -%}
    {{- '<|tool_response>response:' ~ (message.name or 'unknown') -}}
    {{- value(message.content) if message.content is mapping else '{value:' ~ q ~ said(message.content) ~ q ~ '}' -}}
    {{- '<tool_response|>' -}}
{%- endmacro -%}

{{- bos_token -}}
{%- set all = namespace(messages=messages, last_user=-1, before='') -%}
{%- set thinks = enable_thinking is defined and enable_thinking -%}
{%- if thinks or tools or messages[0].role in ['system', 'developer'] -%}
    {{- '<|turn>system\n' -}}
    {%- if thinks -%}{{- '<|think|>\n' -}}{%- endif -%}
    {%- if messages[0].role in ['system', 'developer'] -%}
        {{- said(messages[0].content) -}}
        {%- set all.messages = messages[1:] -%}
    {%- endif -%}
    {%- for tool in tools or [] -%}
        {{- '<|tool>declaration:' ~ tool.function.name ~ '{description:' ~ q ~ tool.function.description ~ q -}}
        {%- if tool.function.parameters -%}{{- ',parameters:' ~ schema(tool.function.parameters) -}}{%- endif -%}
        {{- '}<tool|>' -}}
    {%- endfor -%}
    {{- '<turn|>\n' -}}
{%- endif -%}
{%- for message in all.messages -%}
    {%- if message.role == 'user' -%}{%- set all.last_user = loop.index0 -%}{%- endif -%}
{%- endfor -%}
{%- for message in all.messages -%}
    {%- if message.role == 'tool' -%}
        {{- result(message) -}}
        {%- set all.before = 'result' -%}
        {%- continue -%}
    {%- endif -%}
    {%- set role = 'model' if message.role == 'assistant' else message.role -%}
    {%- if not (role == 'model' and all.before == 'result') -%}{{- '<|turn>' ~ role ~ '\n' -}}{%- endif -%}
    {%- if role == 'model' and message.tool_calls and message.reasoning_content and loop.index0 > all.last_user -%}
        {{- '<|channel>thought\n' ~ message.reasoning_content ~ '\n<channel|>' -}}
    {%- endif -%}
    {%- for call in message.tool_calls or [] -%}
        {%- set arguments = call.function.arguments -%}
        {{- '<|tool_call>call:' ~ call.function.name -}}
        {{- value(arguments) if arguments is mapping else '{' ~ arguments ~ '}' -}}
        {{- '<tool_call|>' -}}
    {%- endfor -%}
    {%- set all.before = 'calls' if message.tool_calls else 'text' -%}
    {{- without_thought(message.content) if role == 'model' and message.content is string else said(message.content) -}}
    {%- if not message.tool_calls or message.content -%}{{- '<turn|>\n' -}}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt and all.before != 'result' -%}
    {{- '<|turn>model\n' -}}
    {%- if not thinks -%}{{- '<|channel>thought\n<channel|>' -}}{%- endif -%}
{%- endif -%}
"""

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Its name"},
                "days": {"type": "array", "items": {"type": "integer"}},
            },
            "required": ["city"],
        },
    },
}

CALL: dict[str, Any] = {
    "role": "assistant",
    "content": "",
    "reasoning_content": "I look it up.",
    "tool_calls": [
        {
            "id": "call_1",
            "type": "function",
            "function": {
                "name": "weather",
                "arguments": {"days": [1, 2], "city": 'Zürich "ZH"', "exact": True, "in": None},
            },
        }
    ],
}
RESULT: dict[str, Any] = {"role": "tool", "name": "weather", "tool_call_id": "call_1", "content": "cold, 3 degrees"}
QUESTION: dict[str, Any] = {"role": "user", "content": "Is it cold?"}
