"""The small models' tokenizer, and its files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models

from engine.files import replacing, write_json, write_text

EOS, PAD = 1, 0
SPECIAL = ("<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "<|turn>system", "<|turn>user", "<|turn>model", "<turn|>")
CHARACTERS = "\n" + "".join(map(chr, range(32, 127))) + "·•°±×÷«»¿¡éèàäöüßñçøåπ→"

CHAT_TEMPLATE = (
    "{#- This small model was trained on single questions: it reads the last one. -#}"
    "{{ bos_token }}<|turn>user\n{{ messages[-1]['content'] }}<turn|>\n"
    "{%- if add_generation_prompt %}{{ '\n' }}<|turn>model\n{% endif %}"
)
# the images of the last message that has any, then the text of the last one
SEEING_TEMPLATE = CHAT_TEMPLATE.replace(
    "{{ messages[-1]['content'] }}",
    "{%- set seen = namespace(parts=[]) -%}"
    "{%- for message in messages if message['content'] is not string -%}"
    "{%- set seen.parts = message['content'] | selectattr('type', 'equalto', 'image') | list -%}{%- endfor -%}"
    "{{ '\\n' }}{%- for image in seen.parts -%}<|image|>{%- endfor -%}{%- set last = messages[-1]['content'] -%}"
    "{{ last if last is string else last | map(attribute='text', default='') | join }}",
)

# from the last message of the user on: the names of the tools, the question, and the calls so far with their results
CALLING_TEMPLATE = (
    "{#- This small model was trained on single questions with a few tools: it reads the last one. -#}"
    "{%- set last = namespace(user=0) -%}"
    "{%- for message in messages -%}"
    "{%- if message['role'] == 'user' -%}{%- set last.user = loop.index0 -%}{%- endif -%}{%- endfor -%}"
    "{{ bos_token }}"
    "{%- if tools -%}{{ '<|turn>system\\n' }}"
    "{%- for tool in tools -%}<|tool>{{ tool['function']['name'] }}{%- endfor -%}{{ '<turn|>\\n' }}{%- endif -%}"
    "{{ '<|turn>user\\n' + messages[last.user]['content'] + '<turn|>\\n<|turn>model\\n' }}"
    "{%- for message in messages[last.user + 1:] -%}"
    "{%- if message['role'] == 'tool' -%}{{ '<|tool_response>' + message['content'] + '<tool_response|>' }}"
    "{%- else -%}{{ message['content'] }}{%- for call in message['tool_calls'] or [] -%}"
    "{{ '<|tool_call>call:' + call['function']['name'] + '{' }}"
    "{%- for name, value in call['function']['arguments'] | items -%}"
    "{{ name + ':' }}{%- if value is string -%}{{ '<|\"|>' + value + '<|\"|>' }}{%- else -%}{{ value | tojson }}"
    "{%- endif -%}{%- if not loop.last -%},{%- endif -%}{%- endfor -%}{{ '}<tool_call|>' }}"
    "{%- endfor -%}{%- endif -%}{%- endfor -%}"
)


def build_tokenizer(more: Sequence[str] = ()) -> Tokenizer:
    """Builds a tokenizer of 128 tokens: 9 special ones, then the characters; ``more`` special ones follow them."""
    vocabulary = {token: index for index, token in enumerate([*SPECIAL, *CHARACTERS, *more])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    special = [AddedToken(token, special=True, normalized=False) for token in (*SPECIAL, *more)]
    tokenizer.add_special_tokens(special)
    tokenizer.decoder = decoders.Fuse()
    return tokenizer


def write_tokenizer(folder: Path, more: Sequence[str] = (), template: str = CHAT_TEMPLATE) -> None:
    """Writes tokenizer.json, tokenizer_config.json and chat_template.jinja in the layout of released checkpoints.

    Args:
        more: special tokens of images or tools.
        template: the chat template.
    """
    with replacing(folder / "tokenizer.json") as unfinished:
        build_tokenizer(more).save(str(unfinished))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",  # otherwise transformers would take it for Gemma's
        "bos_token": "<bos>",
        "eos_token": "<eos>",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
    }
    write_json(folder / "tokenizer_config.json", settings)
    write_text(folder / "chat_template.jinja", template + "\n")
