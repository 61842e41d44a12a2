"""Signing in to a server by OAuth, by the official SDK: discovery, registration, PKCE, tokens and their renewal.

The SDK signs in as soon as a server answers 401. Here nothing is registered, and no address opened, unless the user has
asked for it: without that, a token that has expired is renewed, and what else would need the user is an error.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.client.auth.utils import extract_field_from_www_auth, union_scopes
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from engine.errors import SafelightError, quoted
from engine.tools.declared import LONGEST, ToolServer, is_loopback
from engine.tools.redirect_page import PATH, RedirectPage
from engine.tools.state import SIGN_IN_NEEDED
from engine.tools.tokens import ToolTokens, apart
from engine.tools.transports import bound

LONGEST_STORED = 65_536  # characters of a server's tokens and what belongs to them
UNUSED_ADDRESS = f"http://127.0.0.1{PATH}"  # the SDK asks for an address to come back to, also where none is used
LONG_AGO = 1.0  # seconds since 1970; the SDK takes 0 for a token that never expires


class SignInNeededError(SafelightError):
    """The server wants the user to sign in.

    Args:
        challenge: the header of its refusal, from which the sign-in begins.
    """

    def __init__(self, challenge: str) -> None:
        super().__init__(SIGN_IN_NEEDED)
        self.challenge = challenge


@dataclass(frozen=True)
class SignIn:
    """A sign-in that the user has asked for."""

    challenge: str
    page: RedirectPage
    open_address: Callable[[str], None]


class _Stored(BaseModel):
    """The tokens of a server, and what is needed to renew them."""

    client: OAuthClientInformationFull
    tokens: OAuthToken
    expires_at: float | None = None
    metadata: OAuthMetadata | None = None
    resource: ProtectedResourceMetadata | None = None

    @property
    def is_expired(self) -> bool:
        return self.expires_at is not None and time.time() > self.expires_at


class ServerAuth(OAuthClientProvider):
    """Sends a server's token with each request, and renews it. It is its own storage, as the SDK names it.

    Args:
        may_ask: returns True if a host may be asked.
        sign_in: None renews tokens alone.
    """

    def __init__(
        self, server: ToolServer, tokens: ToolTokens, may_ask: Callable[[str], bool], sign_in: SignIn | None = None
    ) -> None:
        address = UNUSED_ADDRESS if sign_in is None else sign_in.page.address
        about_us = OAuthClientMetadata(
            client_name="Safelight", redirect_uris=[AnyUrl(address)], token_endpoint_auth_method="none"
        )
        super().__init__(server.url, about_us, self, self._open, self._answer)
        self.refusal: SafelightError | None = None
        self.awaited = ""  # the host that is asked for a sign-in at present
        self._server, self._tokens, self._may_ask, self._sign_in = server, tokens, may_ask, sign_in
        self._stored: _Stored | None = None
        self._has_key = any(name.lower() == "authorization" for name, _ in server.headers)
        self._is_read = self._has_key or sign_in is not None  # a new sign-in makes no use of former tokens

    @property
    def is_signing_in(self) -> bool:
        """True until a sign-in has given a token."""
        return self._sign_in is not None

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Yields the requests that a request takes, itself among them.

        Raises:
            SafelightError: it was refused; ``refusal`` is the error.
        """
        self.refusal = None
        try:
            if not self._is_read:
                self._stored, self._is_read = await self._read(), True
            flow = self._signed_flow(request)
            try:
                outgoing = await anext(flow)
                while True:
                    outgoing = await flow.asend((yield outgoing))
            except StopAsyncIteration:
                return
            finally:
                await flow.aclose()
        except SafelightError as error:
            self.refusal = error
            raise
        except (OAuthFlowError, httpx2.InvalidURL, ValueError, OverflowError) as error:
            self.refusal = _worded(error)
            raise self.refusal from error

    async def _signed_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        response: httpx2.Response | None = None
        challenge: str | None = None  # of the server's refusal
        stored = self._stored
        if stored is not None and stored.is_expired:
            stored = await self._newest(stored)
        if self._sign_in is None and not (stored is not None and stored.is_expired):
            if stored is not None:
                request.headers["authorization"] = f"Bearer {stored.tokens.access_token}"
            response = yield request  # past the SDK, which sends one request at a time
            if not self._refuses(response):
                return
            if stored is not None and response.status_code == 401:
                is_renewed = await self._newest(stored) is not stored
                if not is_renewed and stored.tokens.refresh_token:
                    stored.expires_at = self.context.token_expiry_time = LONG_AGO  # so that the SDK renews it
                    is_renewed = True
                response = None if is_renewed else response
        flow = super().async_auth_flow(request)
        try:
            outgoing = await anext(flow)
            if self._sign_in is not None and self._stored is None:
                refused = {"www-authenticate": self._sign_in.challenge}
                response = httpx2.Response(401, headers=refused, request=request)
            while True:
                self.awaited = "" if outgoing is request else self._checked(outgoing, challenge)
                if response is None:
                    response = yield outgoing
                if outgoing is request and self._refuses(response):
                    challenge = self._challenge(response)
                elif outgoing.method == "POST" and outgoing is not request and response.status_code >= 500:
                    host, status = outgoing.url.host, response.status_code
                    raise SafelightError(f"cannot be signed in to: {host} answered with the status {status}")
                outgoing = await flow.asend(response)
                response = None
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    async def _newest(self, stored: _Stored) -> _Stored:
        """Returns the present tokens in place of useless ones, which another request or process may have renewed."""
        found = await self._read()
        if self._stored is stored and found is not None and found.tokens.access_token != stored.tokens.access_token:
            self._stored = found
            self.context.current_tokens, self.context.client_info = await self.get_tokens(), found.client
        return self._stored or stored

    def _refuses(self, response: httpx2.Response) -> bool:
        is_narrow = response.status_code == 403 and self._stored is not None
        return response.status_code == 401 or (
            is_narrow and extract_field_from_www_auth(response, "error") == "insufficient_scope"
        )

    def _challenge(self, response: httpx2.Response) -> str:
        """Returns the header of a refusal that the SDK may answer, so far as no user is needed.

        Raises:
            SafelightError: it is answered by the user alone.
        """
        challenge = str(response.headers.get("www-authenticate", ""))[:LONGEST]
        if self._sign_in is not None:
            return challenge
        if self._stored is not None:
            raise SignInNeededError(challenge if response.status_code == 401 else _wider(response, self._stored.tokens))
        if self._has_key:
            raise SafelightError("refuses the key in its headers (401); change it under Edit")
        if not self._is_safe(self._server.url):
            raise SafelightError(_KEY_NEEDED)
        return challenge

    def _checked(self, outgoing: httpx2.Request, challenge: str | None) -> str:
        """Checks a request of the sign-in, and bounds its answer. Returns its host.

        Args:
            challenge: of the server's refusal; None if a token is renewed.

        Raises:
            SafelightError: it is not sent.
        """
        if challenge is not None and self._sign_in is None and outgoing.method == "POST":  # it would register us
            raise SafelightError(_KEY_NEEDED) if self.context.oauth_metadata is None else SignInNeededError(challenge)
        self._check_address(str(outgoing.url))
        bound(outgoing)
        return outgoing.url.host

    def _is_safe(self, address: str) -> bool:
        """Returns True for https, and for http within this machine."""
        try:
            parts = urlsplit(address)
            host = parts.hostname or ""
        except ValueError:
            return False
        is_within = is_loopback(host) and not self._server.is_remote
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_within)
        return is_safe and bool(host) and len(address) <= LONGEST

    def _check_address(self, address: str) -> None:
        if not self._is_safe(address):
            raise SafelightError(f"cannot be signed in to: {quoted(address)} is not https")
        host = urlsplit(address).hostname or ""
        if not self._may_ask(host):
            raise SafelightError(f"cannot be signed in to: Safelight is offline, and {host} is elsewhere")

    async def _open(self, address: str) -> None:
        assert self._sign_in is not None, "only a sign-in registers, and goes on to here"
        self._check_address(address)
        self._sign_in.open_address(address)

    async def _answer(self) -> AuthorizationCodeResult:
        assert self._sign_in is not None
        return await self._sign_in.page.answer()

    async def get_tokens(self) -> OAuthToken | None:
        stored, context = self._stored, self.context
        if stored is None:
            return None
        context.oauth_metadata, context.protected_resource_metadata = stored.metadata, stored.resource
        context.auth_server_url = None if stored.resource is None else str(stored.resource.authorization_servers[0])
        context.token_expiry_time = stored.expires_at
        return stored.tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None if self._stored is None else self._stored.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Stores nothing: until there are tokens, the SDK's memory is enough."""

    async def set_tokens(self, tokens: OAuthToken) -> None:
        context = self.context
        assert context.client_info is not None, "tokens are given to clients"
        stored = _Stored(
            client=context.client_info,
            tokens=tokens,
            expires_at=context.token_expiry_time,
            metadata=context.oauth_metadata,
            resource=context.protected_resource_metadata,
        )
        text = stored.model_dump_json(exclude_none=True)
        if len(text) > LONGEST_STORED:
            raise SafelightError(f"gave tokens of more than {LONGEST_STORED:,} characters")
        self._stored, self._sign_in = stored, None
        await apart(lambda: self._tokens.write(self._server.identity, text))

    async def _read(self) -> _Stored | None:
        text = await apart(lambda: self._tokens.read(self._server.identity))
        try:
            return _Stored.model_validate_json(text) if text else None
        except ValidationError:  # from another version, or damaged
            return None


def _wider(response: httpx2.Response, tokens: OAuthToken) -> str:
    """Returns a challenge for what was granted before and what a request was refused for."""
    scope = union_scopes(tokens.scope, extract_field_from_www_auth(response, "scope"))
    where = extract_field_from_www_auth(response, "resource_metadata")
    return f'Bearer scope="{scope or ""}"' + (f', resource_metadata="{where}"' if where else "")


_KEY_NEEDED = "asks for a key (401), and offers no sign-in; add the key as a header under Edit"


def _worded(error: Exception) -> SafelightError:
    text = quoted(" ".join(str(error).split()), 200)
    if isinstance(error, OAuthRegistrationError):
        return SafelightError(f"lets no new program sign in; add a key as a header under Edit. It answered: {text}")
    if isinstance(error, OAuthTokenError):
        return SafelightError(f"gave no token: {text}")
    if str(error).startswith("State parameter mismatch"):
        return SafelightError("got an answer that does not belong to this sign-in; sign in again")
    return SafelightError(f"cannot be signed in to: {text}")
