"""Runs models for a client: a window, a server, a test. Knows neither Qt nor HTTP; torch is imported with a model.

Requests and replies are plain data; those of a run carry its id.
"""

from __future__ import annotations

from engine.service.backend import Backend, RunSteps, run_alone
from engine.service.capabilities import Capabilities
from engine.service.decisions import DecisionReads, DecisionUsage, decision_requests
from engine.service.local import LocalBackend
from engine.service.racing import Racing
from engine.service.reading_boards import read_rows
from engine.service.replies import (
    AdapterChanged,
    BoardAdvanced,
    BoardEnded,
    InfluenceMeasured,
    LanePassed,
    LoadedModel,
    LoadFailed,
    LoadProgress,
    LoadReply,
    LoadStarted,
    MemoryUsed,
    ModelLoaded,
    ModelUnloaded,
    PassWanted,
    PromptRead,
    PromptScored,
    RaceEnded,
    RaceLoading,
    RunAdvanced,
    RunEnded,
    RunReply,
    RunStarted,
    ServiceReply,
    TraceNotKept,
)
from engine.service.requests import (
    AdapterRequest,
    BoardRequest,
    ChatRun,
    CompletionRun,
    DecisionRun,
    ForkRun,
    GapRun,
    InfillRun,
    InfluenceRequest,
    Lane,
    LoadRequest,
    PuzzleRun,
    RaceRequest,
    RunRequest,
    is_remote,
)
from engine.service.routing import BackendRouter
from engine.service.scheduler import BusyError, Scheduler
from engine.service.sibling import Runner, load_sibling

__all__ = [
    "AdapterChanged",
    "AdapterRequest",
    "Backend",
    "BackendRouter",
    "BoardAdvanced",
    "BoardEnded",
    "BoardRequest",
    "BusyError",
    "Capabilities",
    "ChatRun",
    "CompletionRun",
    "DecisionReads",
    "DecisionRun",
    "DecisionUsage",
    "ForkRun",
    "GapRun",
    "InfillRun",
    "InfluenceMeasured",
    "InfluenceRequest",
    "Lane",
    "LanePassed",
    "LoadFailed",
    "LoadProgress",
    "LoadReply",
    "LoadRequest",
    "LoadStarted",
    "LoadedModel",
    "LocalBackend",
    "MemoryUsed",
    "ModelLoaded",
    "ModelUnloaded",
    "PassWanted",
    "PromptRead",
    "PromptScored",
    "PuzzleRun",
    "RaceEnded",
    "RaceLoading",
    "RaceRequest",
    "Racing",
    "RunAdvanced",
    "RunEnded",
    "RunReply",
    "RunRequest",
    "RunStarted",
    "RunSteps",
    "Runner",
    "Scheduler",
    "ServiceReply",
    "TraceNotKept",
    "decision_requests",
    "is_remote",
    "load_sibling",
    "read_rows",
    "run_alone",
]
