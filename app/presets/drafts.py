"""Presets while they are edited: what is valid is saved, what is not waits here until it is. Knows no Qt."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence

from app.presets.preset import Preset, built_in, free_name, problem
from app.presets.store import PresetStore
from app.system.i18n import tr
from engine import GenerationConfig


class PresetDrafts:
    """The user's presets as they stand in the editor, over those in the store.

    Every draft has a saved preset behind it, so ``revert`` always has somewhere to go. What other windows have saved
    comes in with each write.
    """

    def __init__(self, store: PresetStore, defaults: GenerationConfig) -> None:
        self._store = store
        self._defaults = defaults
        self._drafts = list(store.own)
        self._deleted: list[tuple[int, tuple[Preset, Preset]]] = []  # place, draft and saved; the latest last

    @property
    def presets(self) -> tuple[Preset, ...]:
        """Those that come with Safelight, then the drafts."""
        return (*built_in(), *self._drafts)

    @property
    def last_deleted(self) -> Preset | None:
        """What ``undelete`` would bring back."""
        return self._deleted[-1][1][1] if self._deleted else None

    def find(self, id: str) -> Preset:
        """A draft or built-in preset by its id."""
        return next(preset for preset in self.presets if preset.id == id)

    def problem(self, id: str) -> str:
        """Why a draft is not saved as it stands, in a sentence; empty when it can be."""
        preset = self.find(id)
        if preset.is_built_in:
            return ""
        return self._problem(preset, self._store.presets)

    def unsaved(self) -> list[Preset]:
        """Drafts that differ from what is saved."""
        saved = {preset.id: preset for preset in self._store.own}
        return [draft for draft in self._drafts if draft != saved.get(draft.id)]

    def change(self, preset: Preset) -> None:
        """Take a draft over as it stands in the form; ``save`` writes it."""
        self._drafts[self._place(preset.id)] = preset

    def save(self) -> None:
        """Write every draft that is valid; the others stay as they are saved.

        Raises:
            SafelightError: the file cannot be written.
        """
        saved = {preset.id: preset for preset in self._store.presets}
        going_on = True
        while going_on:  # a name that one draft gives up may be another's
            going_on = False
            for draft in self._drafts:
                if draft != saved[draft.id] and not self._problem(draft, saved.values()):
                    saved[draft.id] = draft
                    going_on = True
        wanted = tuple(saved[draft.id] for draft in self._drafts)
        if wanted != self._store.own:
            self._write(wanted)

    def revert(self, id: str) -> None:
        """Bring a draft back to what is saved of it."""
        saved = {preset.id: preset for preset in self._store.own}
        self._drafts[self._place(id)] = saved[id]

    def add(self, like: Preset | None = None) -> Preset:
        """Add a preset, a copy where there is one to be ``like``, and save it. Of what is not valid the saved is taken.

        Raises:
            SafelightError: the file cannot be written; nothing was added.
        """
        names = [preset.name for preset in (*self.presets, *self._store.own)]
        if like is None:
            made = Preset(uuid.uuid4().hex, free_name(tr("New preset"), names))
        else:
            if self.problem(like.id):
                like = self._store.find(like.id)
            made = like.replace(id=uuid.uuid4().hex, name=free_name(like.name.strip() or tr("New preset"), names))
        self._write((*self._store.own, made))
        return made

    def delete(self, id: str) -> None:
        """Take a preset away; ``undelete`` brings it back as it stood.

        Raises:
            SafelightError: the file cannot be written; the preset is still there.
        """
        place, saved = self._place(id), self._store.find(id)
        draft = self._drafts[place]
        self._write([preset for preset in self._store.own if preset.id != id])
        self._deleted.append((place, (draft, saved)))

    def undelete(self) -> Preset:
        """Bring back what was deleted last, at its place; its name gets a number where it was taken since.

        Raises:
            SafelightError: the file cannot be written; it can be tried again.
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
        """Save these; drafts that are not saved as they stand stay as they are."""
        waiting = {draft.id: draft for draft in self.unsaved()}
        self._store.write(own, waiting)
        self._drafts = [waiting.get(saved.id, saved) for saved in self._store.own]

    def _problem(self, preset: Preset, others: Iterable[Preset]) -> str:
        return problem(preset, (other.name for other in others if other.id != preset.id), self._defaults)

    def _place(self, id: str) -> int:
        return next(place for place, draft in enumerate(self._drafts) if draft.id == id)
