"""Results of a file: findings, their identity, and the seconds of each step."""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Finding:
    """Something that must not be: which promise, and what happened; `sign` is alike for one cause."""

    promise: str
    detail: str
    sign: str = ""


@dataclass(frozen=True)
class Step:
    """Something that was done with a file: of which kind, whether by a command, its seconds and bytes."""

    kind: str
    by_command: bool
    seconds: float
    memory: int = 0


@dataclass
class Looked:
    """The result of one file."""

    findings: list[Finding] = field(default_factory=list)
    outcome: str = ""
    """`refused`, or what was imported."""
    steps: list[Step] = field(default_factory=list)

    def wrong(self, promise: str, detail: str, sign: str = "") -> None:
        """Add a finding."""
        self.findings.append(
            Finding(promise, detail[:3000], sign or f"{promise}: {shape_of(detail)}")
        )


def sign_of(error: BaseException) -> str:
    """Return a sign of the defect: the kind of exception and where in the program it was raised."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "nsysconv" in f.filename]
    where = frames[-1] if frames else None
    place = f"{Path(where.filename).name}:{where.name}" if where else "?"
    return f"{type(error).__name__} in {place}"


def shape_of(text: str) -> str:
    """Return a text without what differs from one file to the next."""
    return re.sub(r"'[^']*'|\"[^\"]*\"|/\S+|\d[\d,.]*", "…", text.strip())[:120]
