"""Numbers of names that are made here: those of the file's own string table are no names of theirs.

They must not be numbers that a row of the file refers to. The file's ids count up from 0; what is made
here counts down from far below, so that the -1 which stands for none somewhere is not among them, either.
"""

from __future__ import annotations

from nsysconv.importers.probe import Probe

_HIGHEST = -(1 << 30)


def base(probe: Probe) -> int:
    """The number from which to count down: below every id of the file's strings."""
    rows = probe.select("SELECT min(id) FROM StringIds")
    lowest = rows[0][0] if rows and isinstance(rows[0][0], int) else 0
    return min(_HIGHEST, lowest - 1)


def construct(base: int, place: int) -> int:
    """The construct of OpenACC at this place of the list of all."""
    return base - 2 * place


def metric(base: int, place: int) -> int:
    """The metric at this place of the list of all."""
    return base - 2 * place - 1
