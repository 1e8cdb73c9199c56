"""Addresses: where in the time line a row of a report is, for links that the page's script follows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nsysconv.document import Section
from nsysconv.render.page.markup import rows

_KIND_OF = {
    "kernels": "kernel",
    "operator_kernels": "kernel",
    "operators": "operator",
    "ranges": "range",
    "api_vs_kernel": "api_call",
    "launch_stats": "api_call",
    "kernel_categories": "kernel",
}
"""The kind of events whose names a report has in its rows, by the name of the report."""


class Addresses:
    """The events that a page knows: single ones, and the longest of each kind and name."""

    def __init__(self, reports: Mapping[str, Section]) -> None:
        """Take the reports of a page, by name without options."""
        self._is_drawn = "timeline_tiles" in reports or "timeline_events" in reports
        self._known: set[str] = set()
        self._longest: dict[tuple[str, str], tuple[int, str]] = {}
        for row in rows(reports.get("timeline_events")):
            self._known.add(f"{row['kind']}:{row['id']}")
        for row in rows(reports.get("timeline_account")):
            if row["gap"] is not None:
                self._known.add(row["gap"])
        for row in rows(reports.get("event_durations")):
            key, event = (row["kind"], row["name"]), f"{row['kind']}:{row['max_id']}"
            self._known.add(event)
            self._longest[key] = max(self._longest.get(key, (-1, "")), (row["max_ns"], event))

    def of(self, report: str, row: Mapping[str, Any]) -> str | None:
        """Return the address that a row of a report links to, without `#`; None if the page has none.

        It is that of an event, of the longest event of the row, or of a time with its surroundings; of a
        step it selects the time.
        """
        if not self._is_drawn:
            return None
        # For idle time the gap itself, all of which is then in view, and not what followed it.
        ids = (row.get("gap"), row.get("event"))
        event = next((each for each in ids if each is not None and each in self._known), None)
        parts = [] if event is None else [f"event={event}"]
        start, dur = row.get("start_ns"), row.get("dur_ns")
        if report == "steps" and row["occurrence"] is None:
            start = None  # the time between steps is in many places
        if start is not None and dur is not None:
            room = max(dur // 4, 10)
            parts.insert(0, f"time={start - room}:{start + dur + room}")
            if report == "steps":
                parts.append(f"select={start}:{start + dur}")
        kind = row.get("activity") if report == "idle_host" else _KIND_OF.get(report)
        name = row["tree"].lstrip() if "tree" in row else row.get("name")
        if not parts and (str(kind), str(name)) in self._longest:
            parts = [f"event={self._longest[str(kind), str(name)][1]}"]
        return "&".join(parts) or None
