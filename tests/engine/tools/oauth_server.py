"""A tool server and one that signs users in, who agree at once: both by the official SDK, in threads."""

from __future__ import annotations

import logging
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    ProviderTokenVerifier,
    RefreshToken,
    RegistrationError,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.routes import create_auth_routes
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.applications import Starlette

SCOPE = "sums"


class Accounts(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """What the server has given out.

    ``state`` replaces the one it was sent; ``denies`` refuses sign-ins, ``is_closed`` clients.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.renewals: dict[str, RefreshToken] = {}
        self.seconds, self.state, self.denies, self.is_closed, self.renewed = 3600, "", False, False, 0

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        if self.is_closed:
            raise RegistrationError("invalid_client_metadata", "ask by letter")
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        state = self.state or params.state
        if self.denies:
            return construct_redirect_uri(str(params.redirect_uri), error="access_denied", state=state)
        code = secrets.token_hex(16)
        self.codes[code] = AuthorizationCode(
            code=code, client_id=client.client_id, scopes=params.scopes or [], expires_at=time.time() + 60,
            code_challenge=params.code_challenge, redirect_uri=params.redirect_uri, resource=params.resource,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
        )  # fmt: skip
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        del client
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._give(client.client_id, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        del client
        return self.renewals.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        if self.renewals.pop(refresh_token.token, None) is None:
            raise TokenError("invalid_grant")
        self.renewed += 1
        return self._give(client.client_id, scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        found = self.access.get(token)
        return found if found is not None and (found.expires_at or 0) > time.time() else None

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.access.pop(token.token, None)

    def _give(self, client: str, scopes: list[str], resource: str | None) -> OAuthToken:
        token, renewal = secrets.token_hex(16), secrets.token_hex(16)
        ends = int(time.time()) + self.seconds
        self.access[token] = AccessToken(
            token=token, client_id=client, scopes=scopes, expires_at=ends, resource=resource
        )
        self.renewals[renewal] = RefreshToken(token=renewal, client_id=client, scopes=scopes, resource=resource)
        return OAuthToken(access_token=token, expires_in=self.seconds, refresh_token=renewal, scope=" ".join(scopes))


@contextmanager
def serving() -> Iterator[tuple[str, Accounts]]:
    """Serves the tool ``add`` to those who are signed in at a second server; yields its address."""
    with socket.socket() as near, socket.socket() as far:
        issuer, origin = (_bound(each) for each in (far, near))
        accounts, log = Accounts(), logging.getLogger()
        options = ClientRegistrationOptions(enabled=True, valid_scopes=[SCOPE], default_scopes=[SCOPE])
        signs_in = Starlette(
            routes=create_auth_routes(accounts, AnyHttpUrl(issuer), client_registration_options=options)
        )
        level, handlers = log.level, log.handlers[:]
        server = MCPServer(
            "sums",
            token_verifier=ProviderTokenVerifier(accounts),
            auth=AuthSettings(
                issuer_url=AnyHttpUrl(issuer),
                resource_server_url=AnyHttpUrl(f"{origin}/mcp"),
                validate_token_resource=True,
                required_scopes=[SCOPE],
            ),
        )
        log.level, log.handlers = level, handlers  # the SDK has set its own

        @server.tool()
        async def add(first: int, second: int) -> int:
            """Add two whole numbers."""
            return first + second

        with running(signs_in, far), running(server.streamable_http_app(), near):
            yield f"{origin}/mcp", accounts


def _bound(listening: socket.socket) -> str:
    listening.bind(("127.0.0.1", 0))
    return f"http://127.0.0.1:{listening.getsockname()[1]}"


@contextmanager
def running(app: Starlette, listening: socket.socket) -> Iterator[None]:
    """Runs an application at a socket, in a thread."""
    serves = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=serves.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        while not serves.started:
            time.sleep(0.01)
        yield
    finally:
        serves.should_exit = True
        thread.join(20)
