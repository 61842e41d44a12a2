"""Exports recorded runs: as a page that replays them, moving and still pictures, JSON. Knows no window, no network.

``FORMATS`` is the only list of formats: ``safelight export``, the dialog and the tests use it. To add one, write
``app/export/NAME.py`` with ``write(run, path, options) -> Share`` and add a line here. A writer is a generator that
yields the share done, so that a window can call it slice by slice and stop in between. The file appears complete at
the end or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ExportFormat:
    """A file format.

    Args:
        suffix: the file name's suffix.
        title: the title in English, shown through ``tr``.
        module: the module of ``app.export`` that writes it, imported on use, since most need Qt's painting.
        is_drawn: frames are painted; then frames, theme, view, layer and scale can be chosen.
        is_single: it has only one frame, by default the last.
        is_moving: frames follow each other in time; then the speed can be chosen.
    """

    name: str
    suffix: str
    title: str
    module: str
    is_drawn: bool = False
    is_single: bool = False
    is_moving: bool = False


FORMATS: dict[str, ExportFormat] = {
    format.name: format
    for format in (
        ExportFormat("html", ".html", "Web page that replays the run", "html"),
        ExportFormat("gif", ".gif", "Animation (GIF)", "gif", is_drawn=True, is_moving=True),
        ExportFormat("mp4", ".mp4", "Video (MP4)", "video", is_drawn=True, is_moving=True),
        ExportFormat("png", ".png", "Picture of one step (PNG)", "pictures", is_drawn=True, is_single=True),
        ExportFormat("json", ".json", "Data (JSON)", "json"),
    )
}
"""All formats by name, in the dialog's order."""
