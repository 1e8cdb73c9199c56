"""The contract of output formats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TextIO

from nsysconv.document import Section
from nsysconv.errors import UsageError


@dataclass(frozen=True)
class Options:
    """For whom to write.

    `width` is that of the terminal in cells; None = no terminal: nothing is shortened, left out or
    padded to a width. `color` allows escape sequences.
    """

    width: int | None = None
    color: bool = False


Render = Callable[[Sequence[Section], TextIO, Options], None]
"""Writes the reports to the stream, in their order."""


class RendererModule(Protocol):
    """A module of this package that is a format: its files' suffix, and its function."""

    SUFFIX: str
    render: Render


def single_report(reports: Sequence[Section], format_name: str) -> Section:
    """Return the only report of a format that holds one; raises UsageError."""
    check_single([report.name for report in reports], format_name)
    return reports[0]


def check_single(names: Sequence[object], format_name: str) -> None:
    """Raise UsageError unless there is one report, for a format that holds one."""
    if len(names) != 1:
        several = f"name one of {', '.join(map(str, names))}, or write a folder of all: -o DIR/"
        hint = several if names else "Name a report."
        raise UsageError(f"{format_name} holds one report, and there are {len(names)}", hint=hint)
