"""The record of a run: in memory while it grows, and as a ``.sltrace`` file that replays without a model.

``format`` and ``codec`` document the file. Nothing here needs torch or a tokenizer.
"""

from __future__ import annotations

from engine.trace.folder import (
    REMOVED,
    GalleryTrace,
    end_removing,
    forks_in,
    gallery,
    name_of,
    name_trace,
    prune_traces,
    removing,
    trace_files,
    with_forks,
)
from engine.trace.format import SUFFIX, TraceError
from engine.trace.header import ModelIdentity, Parent, TraceHeader, identify_model, new_id
from engine.trace.reader import TraceFile, open_trace, read_header
from engine.trace.recording import Draft, Entry, Recording
from engine.trace.writer import Trace, TraceWriter

__all__ = [
    "REMOVED",
    "SUFFIX",
    "Draft",
    "Entry",
    "GalleryTrace",
    "ModelIdentity",
    "Parent",
    "Recording",
    "Trace",
    "TraceError",
    "TraceFile",
    "TraceHeader",
    "TraceWriter",
    "end_removing",
    "forks_in",
    "gallery",
    "identify_model",
    "name_of",
    "name_trace",
    "new_id",
    "open_trace",
    "prune_traces",
    "read_header",
    "removing",
    "trace_files",
    "with_forks",
]
