"""Addresses: what they mean, and what is refused in a sentence."""

from __future__ import annotations

import pytest

from engine.errors import SafelightError
from engine.service import is_remote
from engine.service.remote.address import RemoteAddress


@pytest.mark.parametrize(
    ("text", "base", "root", "model"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1", "http://127.0.0.1:8000", ""),
        ("http://box:8000/v1/", "http://box:8000/v1", "http://box:8000", ""),
        ("https://a.b.example/v1#o/m:4b", "https://a.b.example/v1", "https://a.b.example", "o/m:4b"),
        ("http://[::1]:80#m#2", "http://[::1]:80/v1", "http://[::1]:80", "m#2"),
        ("  http://h/api/v1#m ", "http://h/api/v1", "http://h/api", "m"),
        ("http://h/openai#m", "http://h/openai", "http://h/openai", "m"),
    ],
)
def test_an_address_says_where(text: str, base: str, root: str, model: str) -> None:
    address = RemoteAddress.parse(text)
    assert (address.base, address.root, address.model) == (base, root, model)
    assert RemoteAddress.parse(str(address)) == address
    assert is_remote(text.strip())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "begins with http://"),
        ("ftp://h/v1", "begins with http://"),
        ("/models/m", "begins with http://"),
        ("http://", "no valid host"),
        ("http:///v1", "no valid host"),
        ("http://h:0", "no valid host"),
        ("http://h:99999", "no valid host"),
        ("http://h:http", "no valid host"),
        ("http://[::1", "no valid host"),
        ("http://a b", "no valid host"),
        ("http://-h", "no valid host"),
        ("http://h\\evil", "no valid host"),
        ("http://user:word@h/v1", "key in its own field"),
        ("http://user@h", "key in its own field"),
        ("http://h/v1?key=1", "not contain a question mark"),
        ("http://h/../v1", "no valid path"),
        ("http://h/v1;x", "no valid path"),
        ("http://h/" + "a/" * 20, "no valid path"),
        ("http://h\n/v1", "contains invalid characters"),
        ("http://bücher", "contains invalid characters"),
        ("http://" + "h" * 3000, "contains invalid characters"),
        ("http://h#" + "m" * 600, "not a name of a model"),
        ("http://h# m", "not a name of a model"),
    ],
)
def test_what_is_none_is_refused_in_a_sentence(text: str, said: str) -> None:
    with pytest.raises(SafelightError, match=said) as raised:
        RemoteAddress.parse(text)
    assert "word@" not in str(raised.value)


@pytest.mark.parametrize(
    ("host", "near"),
    [
        ("localhost", True),
        ("127.0.0.2", True),
        ("[::1]", True),
        ("LocalHost.", True),
        ("box", False),
        ("10.0.0.1", False),
    ],
)
def test_this_machine_is_known(host: str, near: bool) -> None:
    assert RemoteAddress.parse(f"http://{host}:1").is_near is near
