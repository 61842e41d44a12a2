"""Models that another machine runs: any server of OpenAI's kind, vLLM, or another Safelight.

``address`` is the place of a model, ``calls`` finds the models of a server, ``backend`` runs one.
``engine.exchange`` opens the sockets.
"""

from __future__ import annotations

from engine.service.remote.address import RemoteAddress
from engine.service.remote.backend import RemoteBackend
from engine.service.remote.calls import Reachability, RemotePatience, probe
from engine.service.remote.problems import RemoteError

__all__ = [
    "Reachability",
    "RemoteAddress",
    "RemoteBackend",
    "RemoteError",
    "RemotePatience",
    "probe",
]
