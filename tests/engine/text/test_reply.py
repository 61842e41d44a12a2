"""An answer's tokens to what the window shows: text, thinking, a line for each call, and never a tag."""

from __future__ import annotations

import pytest
from tokenizers import AddedToken, decoders, models
from tokenizers import Tokenizer as FastTokenizer

from engine.text.reply import Reply, read_reply
from engine.text.tags import TAGS, THINK, THINK_END
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


def test_a_thought_that_the_prompt_opened_is_known_by_the_token_that_ends_it(tokenizer: Tokenizer) -> None:
    fast = FastTokenizer.from_str(tokenizer.fast.to_str())
    fast.add_tokens([AddedToken(tag, special=False) for tag in (THINK, THINK_END)])
    thinks = Tokenizer(fast)
    assert read_reply(thinks, thinks.encode("hm</think>\nAnswer.")) == Reply("Answer.", "hm")
    assert read_reply(thinks, thinks.encode("<think>hm</think>\nAnswer.")) == Reply("Answer.", "hm")
    letters = [token for sign in "hm</think>" for token in thinks.encode(sign)]  # as text that is about the tag
    assert read_reply(thinks, letters).thinking == ""


def test_tags_in_letters_are_text_where_no_token_is_one(tokenizer: Tokenizer) -> None:
    letters = [token for sign in "the <|tool_call> tag and <turn|>, see" for token in tokenizer.encode(sign)]
    assert read_reply(tokenizer, letters) == Reply("the <|tool_call> tag and <turn|>, see")
