"""An answer's tokens to what the window shows: text, thinking, a line for each call, and never a tag."""

from __future__ import annotations

import pytest
from tokenizers import AddedToken, decoders, models
from tokenizers import Tokenizer as FastTokenizer

from engine.text.reply import Reply, read_reply
from engine.text.tags import TAGS
from engine.text.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """A token for each character, and for each tag; ``<eos>`` and ``<|turn>`` have no place in an answer."""
    signs = [chr(code) for code in range(32, 127)] + ["\n"]
    fast = FastTokenizer(models.BPE(vocab={sign: place for place, sign in enumerate(signs)}, merges=[]))
    fast.add_special_tokens([AddedToken(tag, special=True) for tag in (*TAGS, "<eos>") if "think>" not in tag])
    fast.decoder = decoders.Fuse()
    return Tokenizer(fast)


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("Plain, a < b.\n", Reply("Plain, a < b.\n")),
        ("<|channel>thought\nhm\n<channel|>Answer.", Reply("Answer.", "hm")),
        ("<|channel>thought\nhm", Reply("", "hm")),
        ("hm<channel|>Answer.<eos>", Reply("hmAnswer.")),
        ("thought\nhm<channel|>Answer.", Reply("Answer.", "hm")),
        ("<think>hm</think>\nAnswer.", Reply("Answer.", "hm")),
        ("about `<think>`", Reply("about `<think>`")),
        ("Answer.<|turn> still", Reply("Answer. still")),
        ('See.<|tool_call>call:f{a:<|"|>x<|"|>}<tool_call|>', Reply('See.\ncall f({"a": "x"})\n')),
        ("<|tool_call>call:f{}<tool_call|><|tool_call>call:g{a:1", Reply('call f({})\ncall g({"a": …)\n')),
    ],
)
def test_a_reply(tokenizer: Tokenizer, text: str, reply: Reply) -> None:
    assert read_reply(tokenizer, tokenizer.encode(text)) == reply


def test_tags_in_letters_are_text_where_no_token_is_one(tokenizer: Tokenizer) -> None:
    letters = [token for sign in "the <|tool_call> tag and <turn|>, see" for token in tokenizer.encode(sign)]
    assert read_reply(tokenizer, letters) == Reply("the <|tool_call> tag and <turn|>, see")
