"""What every report says of a target: all that must not depend on the way it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import make_fixtures
from conftest import FIXTURES

from nsysconv import api
from nsysconv.api.targets import silent
from nsysconv.errors import NsysconvError, UsageError
from nsysconv.importers import detection
from nsysconv.importers.probe import Probe
from nsysconv.queries import REPORTS
from nsysconv.store.location import Location, Url

EXAMPLES = [FIXTURES / source.EXAMPLE for source in make_fixtures.SOURCES.values()]
"""One workload of each source."""
SEVERAL = [
    FIXTURES / "kineto" / "odd-merged-ranks.json.gz",
    FIXTURES / "nvprof_log" / "odd-several-runs.txt",
]
"""Files of several profiles."""

ON_DAMAGE = frozenset({"wrong-type", "impossible-time"})
"""Notes on damaged rows. Of a file in place they are told of the columns that were read, for what is not
read is not looked through.
"""

Said = dict[str, Any]
"""Of each report its rows, its notes and what it lacks."""


def said(target: Location, names: Sequence[str] = REPORTS, include: Sequence[str] = ()) -> Said:
    """What these reports say, asked for together; of several runs each by itself."""
    try:
        found = api.report_on(target, names, limit=0, include=include)
    except UsageError as error:
        if "runs: name one" not in str(error):
            raise
        labels = [line.split()[0].rpartition("@")[2] for line in error.hint.splitlines()]
        return {
            f"{label} {name}": told
            for label in labels
            for name, told in said(_of(target, label), names, include).items()
        }
    return {
        report.name: {
            "rows": None if report.table is None else report.table.to_pylist(),
            "notes": sorted(
                (n.slug, n.severity, n.count, n.text, n.where)
                for n in report.notes
                if n.slug not in ON_DAMAGE
            ),
            "lacks": report.not_recorded,
        }
        for report in found
    }


def _of(target: Location, label: str) -> str:
    return f"{target.secret if isinstance(target, Url) else target}@{label}"


def one_by_one(target: Location, names: Sequence[str]) -> Said:
    """The same of reports that are asked for one by one."""
    found: Said = {}
    for name in names:
        found |= said(target, [name])
    return found


def includable(path: Path) -> list[str]:
    """The words for rows of a file that are left out unless asked for."""
    with detection.open_probe(path, silent) as probe:
        return list(detection.detect(probe).INCLUDABLE)


def is_readable(path: Path) -> bool:
    """Whether it is a profile at all."""
    try:
        with Probe(path) as probe:
            detection.detect(probe)
            api.open(path).close()
    except NsysconvError as error:
        return "name one" in str(error)
    return True
