"""Texts that only quote a table: documents with the header of one, and a row as an example at most."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nsysconv.errors import InputError
from nsysconv.importers.probe import Probe

# How Markdown marks what it quotes. No profiler prints it.
_FENCE = re.compile(rb"^[ \t>]*(?:```|~~~)", re.MULTILINE)
_FEW = 2


def refuse_quoted(probes: Sequence[Probe], rows: int) -> None:
    """Raises InputError for texts of whose tables no row could be read, or one in a document.

    A log may tell of a single event; but then the text around it is not marked up.
    """
    if rows >= _FEW or (rows and not any(_FENCE.search(probe.head) for probe in probes)):
        return
    only = "one row of it" if rows else "no row that can be read"
    raise InputError(
        f"the text quotes the header of a table, and holds {only}",
        where=str(probes[0].origin),
        hint="It is no profile. Import the file that the profiler wrote.",
    )
