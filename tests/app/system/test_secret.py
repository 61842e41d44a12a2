"""A secret, with a keyring that works, one that does not, and one that only says so."""

from __future__ import annotations

from collections.abc import Iterator

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import NoKeyringError, PasswordDeleteError

from app.system.secret import HUB_TOKEN, SERVER_KEY, Secret


class Working(KeyringBackend):
    priority = 1  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if self.kept.pop((service, username), None) is None:
            raise PasswordDeleteError


class Absent(Working):
    def get_password(self, service: str, username: str) -> str | None:  # noqa: ARG002
        raise NoKeyringError

    def set_password(self, service: str, username: str, password: str) -> None:  # noqa: ARG002
        raise NoKeyringError


class Forgetful(Working):
    def set_password(self, service: str, username: str, password: str) -> None:
        pass


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    before = keyring.get_keyring()
    yield
    keyring.set_keyring(before)


def test_a_keyring_keeps_it() -> None:
    keyring.set_keyring(Working())
    assert Secret(HUB_TOKEN).write("hf_secret") == "keyring"
    assert Secret(HUB_TOKEN).read() == "hf_secret"
    assert Secret(HUB_TOKEN).write("") == "nowhere"
    assert Secret(HUB_TOKEN).read() == ""
    assert Secret(HUB_TOKEN).write("") == "nowhere"


@pytest.mark.parametrize("kind", [Absent, Forgetful])
def test_without_a_keyring_it_lasts_for_the_session(kind: type[Working]) -> None:
    keyring.set_keyring(kind())
    tokens = Secret(HUB_TOKEN)
    assert tokens.read() == ""
    assert tokens.write("hf_secret") == "session"
    assert tokens.read() == "hf_secret"
    assert Secret(HUB_TOKEN).read() == ""
    assert tokens.write("") == "nowhere"
    assert tokens.read() == ""


def test_secrets_of_other_names_are_left_alone() -> None:
    keyring.set_keyring(Working())
    Secret(HUB_TOKEN).write("hf_secret")
    Secret(SERVER_KEY).write("sk-key")
    Secret(SERVER_KEY).write("")
    assert Secret(HUB_TOKEN).read() == "hf_secret"
