"""An OpenAI-compatible HTTP server over one ``Scheduler``; Starlette on uvicorn. Knows neither Qt nor torch.

To add a route: write a file with ``routes(context) -> list[Route]`` and name it in ``ROUTES`` of ``app``. A route that
needs no key is named in ``PUBLIC_PATHS`` of ``app``. A route that runs the model makes a ``RunPlan`` and returns a
``RunResponse`` with its own ``AnswerWriter``.
"""

from __future__ import annotations

from engine.server.live import LiveRequest, LiveRequests
from engine.server.options import ServerOptions, make_key
from engine.server.running import RunningServer

__all__ = ["LiveRequest", "LiveRequests", "RunningServer", "ServerOptions", "make_key"]
