"""The part of a profile that a query looks at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Slice:
    """The time [start_ns, end_ns). Rows belong to it whole if they intersect it; unions are clipped."""

    start_ns: int
    end_ns: int

    def holds(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Which intervals intersect the slice; one without length does where it starts inside."""
        inside = (starts < self.end_ns) & (ends > self.start_ns)
        point = (starts == ends) & (starts >= self.start_ns) & (starts < self.end_ns)
        result: np.ndarray = inside | point
        return result

    def as_dict(self) -> dict[str, int]:
        """What reports print."""
        return {"start_ns": self.start_ns, "end_ns": self.end_ns}
