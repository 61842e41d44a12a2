"""A recorded run, given away: a page that replays it, moving and still pictures, JSON. Knows no window and no network.

``FORMATS`` is the one list of formats: ``safelight export``, the dialog and the tests go by it. To add one, write
``app/export/NAME.py`` with ``write(run, path, options) -> Share`` and add its line here. A writer is a generator that
yields the share that is done, so that a window can work slice by slice and stop between two of them; the file appears
whole at the end or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ExportFormat:
    """One kind of file.

    Args:
        suffix: of the file's name; of two formats with one suffix, the first is the suffix's own.
        title: for people, in English; shown through ``tr``.
        module: the module of ``app.export`` that writes it, imported when it is used: most need Qt's painting.
        is_drawn: whether frames are painted; then frames, theme, view, layer and scale may be chosen.
        is_single: whether it holds one frame alone, the last where none is named.
        is_moving: whether frames follow each other in time; then the speed may be chosen.
        has_direction: whether several frames stand side by side or one under another, a few where none are named.
    """

    name: str
    suffix: str
    title: str
    module: str
    is_drawn: bool = False
    is_single: bool = False
    is_moving: bool = False
    has_direction: bool = False


FORMATS: dict[str, ExportFormat] = {
    format.name: format
    for format in (
        ExportFormat("html", ".html", "Web page that replays the run", "html"),
        ExportFormat("gif", ".gif", "Animation (GIF)", "gif", is_drawn=True, is_moving=True),
        ExportFormat("mp4", ".mp4", "Video (MP4)", "video", is_drawn=True, is_moving=True),
        ExportFormat("png", ".png", "Picture of one step (PNG)", "pictures", is_drawn=True, is_single=True),
        ExportFormat("strip", ".png", "Strip of steps (PNG)", "pictures", is_drawn=True, has_direction=True),
        ExportFormat("json", ".json", "Data (JSON)", "json"),
    )
}
"""All formats by name, in the order of the dialog."""
