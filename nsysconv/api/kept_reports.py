"""Short reports that an import keeps in a store of many runs, for a history of runs by the thousand.

A report on a run of a few thousand events takes 20 ms, and reading what is kept of it 0.1 ms. What other
code has computed, or of a large profile, is not kept: a history computes it, as it does other reports.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import nsysconv
from nsysconv.api.targets import Say, silent
from nsysconv.store import kept_reports
from nsysconv.store.read import Profile, Store
from nsysconv.store.write import Writer
from nsysconv.timeline.slices import StepRule

STEPS = "steps"
_KEPT = (STEPS, "overview")
MANY = 100
"""From this many profiles on, an import says that it computes reports: that takes seconds."""
FEWEST_RUNS = 20
"""Imports into a store of fewer runs keep nothing: its history is soon computed."""
# With more events the import would take a tenth longer.
_MOST_EVENTS = 200_000
# What makes these values: the store's columns, what is derived of them, and the reports.
_CODE = ("*.*", "store/*.py", "timeline/*.*", "queries/*.*", "diff/rows.py", "api/kept_reports.py")

Rows = Sequence[Mapping[str, Any]]


def computed(profile: Profile, names: Sequence[str], rule: StepRule) -> dict[str, Rows]:
    """Return the rows of reports on a profile; of steps a row by rank, and none without annotations."""
    # Most imports keep nothing, and load none of these.
    from nsysconv import queries
    from nsysconv.diff import rows
    from nsysconv.queries.columns import PROFILE
    from nsysconv.queries.contract import Request
    from nsysconv.timeline.timeline import Timeline

    def unlabeled(row: dict[str, Any]) -> dict[str, Any]:
        # In another store the profile may have another label.
        return {name: value for name, value in row.items() if name != PROFILE.name}

    request = Request(steps=rule)
    reports = queries.compute_reports([(name, request) for name in names], Timeline(profile))
    found = dict(zip(names, reports, strict=True))
    if STEPS in found:
        found[STEPS] = rows.steps_per_rank(rows.without_unannotated(found[STEPS]))
    return {name: [unlabeled(row) for row in report.rows()] for name, report in found.items()}


def keep(writer: Writer, say: Say = silent) -> None:
    """Keep the reports of all profiles of which this program has kept none, but for large ones."""
    count = 0

    def as_json(store: Store, profile_id: int) -> dict[str, str]:
        nonlocal count
        count += 1
        if count == MANY:
            say("computing reports of profiles that another nsysconv imported, which takes a while")
        try:
            found = computed(store.profile(profile_id), _KEPT, StepRule())
        except Exception:
            return {}  # it is gone, or a history will say why: the import is done whatever a report does
        return {name: json.dumps(rows) for name, rows in found.items()}

    writer.keep_reports(kept_reports.Lacking(_program, _MOST_EVENTS, FEWEST_RUNS), as_json)


def kept(store: Store, names: Sequence[str], rule: StepRule) -> dict[int, dict[str, Rows]]:
    """Return the rows of these reports by profile, of profiles of which all are kept."""
    if rule or not set(names) <= set(_KEPT):
        return {}
    found: dict[int, dict[str, Rows]] = {}
    for number, name, text in kept_reports.kept(store, _program(), names):
        found.setdefault(number, {})[name] = json.loads(text)
    return {number: mine for number, mine in found.items() if len(mine) == len(names)}


@cache
def _program() -> str:
    # A version is many states of the code: one that computes something else has another sum.
    root, digest = Path(nsysconv.__file__).parent, sha256(nsysconv.__version__.encode())
    for path in sorted(path for pattern in _CODE for path in root.glob(pattern)):
        digest.update(path.read_bytes() if path.is_file() else b"")
    return digest.hexdigest()[:16]
