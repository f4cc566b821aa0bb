"""How many scenarios passed, failed, or were not driven, by group."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Report:
    """The counts of one run."""

    passed: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    left_out: list[tuple[str, str, str]] = field(default_factory=list)

    def add(self, group: str, *, passed: bool) -> None:
        """Count a scenario that was driven."""
        (self.passed if passed else self.failed)[group] += 1

    def not_driven(self, group: str, name: str, reason: str) -> None:
        """Note a scenario that was left out."""
        self.left_out.append((group, name, reason))

    def lines(self) -> list[str]:
        """Return the counts as text, a line a group, and one for each scenario that was not driven."""
        groups = sorted({*self.passed, *self.failed, *(group for group, _, _ in self.left_out)})
        if not groups:
            return []
        missing = Counter(group for group, _, _ in self.left_out)
        rows = [(group, self.passed[group], self.failed[group], missing[group]) for group in groups]
        rows.append(("all", self.passed.total(), self.failed.total(), len(self.left_out)))
        table = [f"{group:5} {passed:6} {failed:6} {left:10}" for group, passed, failed, left in rows]
        reasons = [f"not driven: {name}: {reason}" for _, name, reason in self.left_out]
        return ["group passed failed not driven", *table, *reasons]


REPORT = Report()
