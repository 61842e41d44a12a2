"""An OpenAI-compatible HTTP server over one ``Scheduler``; Starlette on uvicorn. Knows neither Qt nor torch.

To add a route: write a file with ``routes(context) -> list[Route]`` and name it in ``ROUTES`` of ``app``. A route that
needs no key is named in ``PUBLIC_PATHS`` of ``security``.
"""
