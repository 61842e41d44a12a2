"""Presets while they are edited: valid drafts are saved, others wait until they are valid. Knows no Qt."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence

from app.presets.preset import Preset, built_in, free_name, problem
from app.presets.store import PresetStore
from app.system.i18n import tr


class PresetDrafts:
    """The user's presets in the editor, as drafts of those in the store.

    Every draft has a saved preset to ``revert`` to. Each write also reads the changes of other windows.
    """

    def __init__(self, store: PresetStore) -> None:
        self._store = store
        self._built_in = built_in()
        self._drafts = list(store.own)
        self._deleted: list[tuple[int, tuple[Preset, Preset]]] = []  # place, (draft, saved); the latest last

    @property
    def presets(self) -> tuple[Preset, ...]:
        """The built-in presets, then the drafts."""
        return (*self._built_in, *self._drafts)

    @property
    def last_deleted(self) -> Preset | None:
        """The preset that ``undelete`` would restore."""
        return self._deleted[-1][1][1] if self._deleted else None

    def find(self, id: str) -> Preset:
        """Returns a draft or built-in preset by its id."""
        return next(preset for preset in self.presets if preset.id == id)

    def problem(self, id: str) -> str:
        """Returns the reason why a draft cannot be saved, in a sentence; empty if it can."""
        preset = self.find(id)
        if preset.is_built_in:
            return ""
        return self._problem(preset, self._store.presets)

    def unsaved(self) -> list[Preset]:
        """Returns the drafts that differ from their saved presets."""
        saved = {preset.id: preset for preset in self._store.own}
        return [draft for draft in self._drafts if draft != saved.get(draft.id)]

    def change(self, preset: Preset) -> None:
        """Replaces a draft by the form's preset; ``save`` writes it."""
        self._drafts[self._place(preset.id)] = preset

    def save(self) -> None:
        """Writes every valid draft; the stored versions of the others stay.

        Raises:
            SafelightError: the file cannot be written.
        """
        saved = {preset.id: preset for preset in self._store.presets}
        going_on = True
        while going_on:  # a name freed by one draft may be taken by another
            going_on = False
            for draft in self._drafts:
                if draft != saved[draft.id] and not self._problem(draft, saved.values()):
                    saved[draft.id] = draft
                    going_on = True
        wanted = tuple(saved[draft.id] for draft in self._drafts)
        if wanted != self._store.own:
            self._write(wanted)

    def revert(self, id: str) -> None:
        """Resets a draft to its saved preset."""
        saved = {preset.id: preset for preset in self._store.own}
        self._drafts[self._place(id)] = saved[id]

    def add(self, like: Preset) -> Preset:
        """Adds and saves a preset like this one, under a new id and name.

        Raises:
            SafelightError: the file cannot be written; no preset was added.
        """
        names = [preset.name for preset in (*self.presets, *self._store.own)]
        made = like.replace(id=uuid.uuid4().hex, name=free_name(tr("New preset"), names))
        self._write((*self._store.own, made))
        return made

    def delete(self, id: str) -> None:
        """Deletes a preset; ``undelete`` restores it.

        Raises:
            SafelightError: the file cannot be written; the preset was not deleted.
        """
        place, saved = self._place(id), self._store.find(id)
        draft = self._drafts[place]
        self._write([preset for preset in self._store.own if preset.id != id])
        self._deleted.append((place, (draft, saved)))

    def undelete(self) -> Preset:
        """Restores the last deleted preset in its place; a number is added to its name if it was taken since.

        Raises:
            SafelightError: the file cannot be written; the call may be repeated.
        """
        place, (draft, saved) = self._deleted[-1]
        names = [other.name for other in (*self.presets, *self._store.own)]
        saved = saved.replace(name=free_name(saved.name, names))
        own = list(self._store.own)
        own.insert(place, saved)
        self._write(own)
        self._deleted.pop()
        self.change(draft)
        return draft

    def _write(self, own: Sequence[Preset]) -> None:
        """Saves these presets; invalid drafts stay as they are."""
        waiting = {draft.id: draft for draft in self.unsaved()}
        self._store.write(own, waiting)
        self._drafts = [waiting.get(saved.id, saved) for saved in self._store.own]

    def _problem(self, preset: Preset, others: Iterable[Preset]) -> str:
        return problem(preset, (other.name for other in others if other.id != preset.id))

    def _place(self, id: str) -> int:
        return next(place for place, draft in enumerate(self._drafts) if draft.id == id)
