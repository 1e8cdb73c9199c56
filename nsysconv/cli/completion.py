"""What a shell offers to complete a word with."""

from __future__ import annotations

from nsysconv.export import FORMATS


def report_names(incomplete: str) -> list[str]:
    """The reports whose names begin so."""
    from nsysconv.queries import REPORTS

    return [name for name in REPORTS if name.startswith(incomplete)]


def formats(incomplete: str) -> list[str]:
    """The formats of export whose names begin so."""
    return [name for name in FORMATS if name.startswith(incomplete)]
