"""Makes the servers of this process end at once; by itself uvicorn looks ten times a second whether it is to end."""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn.server

SHARE = 0.05  # of each of its pauses


class _Hasty:
    """``asyncio`` with short pauses."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    @staticmethod
    async def sleep(seconds: float) -> None:
        await asyncio.sleep(SHARE * seconds)


uvicorn.server.asyncio = _Hasty()  # type: ignore[assignment]
