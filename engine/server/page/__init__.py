"""The page at ``/``: a prompt, and the canvas of its answer while it develops. Plain files that need no key.

The page holds no secret and calls only this server; it takes the key from ``/#key=…``, which browsers do not send, or
from a field.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.catalog import ASSETS
from engine.server.context import ServerContext

HERE = Path(__file__).resolve().parent
FONTS = ("Inter-Regular.ttf", "Inter-SemiBold.ttf", "JetBrainsMono-Regular.ttf")
FILES = {
    "/": HERE / "index.html",
    "/page.css": HERE / "page.css",
    "/page.js": HERE / "page.js",
    "/icon.svg": HERE / "icon.svg",
    **{f"/fonts/{name}": ASSETS / "fonts" / name for name in FONTS},
}
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".ttf": "font/ttf",
}
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "font-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)


def routes(_context: ServerContext) -> list[Route]:
    """Returns a route for each file; no other path is served."""
    return [Route(path, _serve, methods=["GET"]) for path in FILES]


async def _serve(request: Request) -> Response:
    path = FILES[request.url.path]
    return Response(_read(path), headers={"Content-Security-Policy": POLICY}, media_type=TYPES[path.suffix])


@lru_cache(maxsize=len(FILES))
def _read(path: Path) -> bytes:
    return path.read_bytes()
