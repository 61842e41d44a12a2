"""The reports of all sections as plain data, for a table or JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class CheckResult:
    name: str
    ok: bool | None  # None: not checked; ``said`` is the reason
    said: str


@dataclass(frozen=True)
class Fact:
    """A figure of this machine."""

    name: str
    value: str | float | bool | None
    unit: str


@dataclass
class SectionReport:
    """The reports of one section's processes, in order."""

    name: str
    checks: list[CheckResult] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    rows: list[dict[str, str | float | None]] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def failed(self) -> list[CheckResult]:
        return [check for check in self.checks if check.ok is False]

    @property
    def status(self) -> str:
        """``wrong``, ``right``, ``not checked`` (all were left out), or ``told`` for a section without checks."""
        if self.failed:
            return "wrong"
        if any(check.ok for check in self.checks):
            return "right"
        return "not checked" if self.checks else "told"

    def value(self, name: str) -> str | float | bool | None:
        """Returns a fact's value; None if it was not reported."""
        return next((fact.value for fact in self.facts if fact.name == name), None)

    def take(self, record: dict[str, Any]) -> str | None:
        """Adds a process's record; returns the name of a check that has begun."""
        match record:
            case {"begin": str(name)}:
                return name
            case {"check": str(name), "ok": bool() | None as ok, "said": str(said)}:
                self.checks.append(CheckResult(name, ok, said))
            case {"fact": str(name), "value": value, "unit": str(unit)}:
                self.facts = [fact for fact in self.facts if fact.name != name]  # reported again by a second process
                self.facts.append(Fact(name, value, unit))
            case {"row": dict(row)}:
                self.rows.append(row)
        return None


@dataclass(frozen=True)
class Report:
    """All sections."""

    sections: list[SectionReport]
    quick: bool

    @property
    def failed(self) -> list[str]:
        """Names of failed checks, each with its section's."""
        return [f"{section.name}: {check.name}" for section in self.sections for check in section.failed]

    @property
    def verdict(self) -> str:
        """The last line: says that everything is right, or what is not."""
        if not (failed := self.failed):
            return "All checks are right."
        return f"{len(failed)} check{'s' * (len(failed) != 1)} failed: {'; '.join(failed)}"

    def as_dict(self) -> dict[str, Any]:
        """Returns the report as the command line prints it with ``--json``."""
        sections = [{"status": section.status, **asdict(section)} for section in self.sections]
        return {"ok": not self.failed, "failed": self.failed, "quick": self.quick, "sections": sections}
