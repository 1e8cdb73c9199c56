"""Profiles removed from a store: by name, by age, or all but the newest runs."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Sequence

from nsysconv.api.shown_report import ShownReport
from nsysconv.api.targets import Target, Words, several
from nsysconv.document import Text
from nsysconv.errors import NsysconvError, UsageError
from nsysconv.notes import Note, Severity
from nsysconv.report import Column, Unit, human, report_table, utc
from nsysconv.store.location import (
    Location,
    reading,
    redacted_target,
    require_store,
    split_target,
    writing,
)
from nsysconv.store.selection import (
    ProfileRecord,
    RunRecord,
    have_times,
    last_runs,
    runs_in_order,
    selected,
)

KEPT = ("baseline",)
"""Labels of what is kept if nothing else is said."""

_AGE = re.compile(r"\s*([0-9]{1,6})\s*([hdw])\s*")
_HOURS = {"h": 1, "d": 24, "w": 7 * 24}
_NS_OF_HOUR = 3_600 * 10**9
_COLUMNS = (
    Column("run", Unit.TEXT, "The run.", key=True),
    Column("label", Unit.TEXT, "Name of the profile in the store.", key=True),
    Column("id", Unit.ID, "Number of the profile in the store."),
    Column("recorded", Unit.TEXT, "When it was recorded; null: not recorded in the source."),
    Column("row_count", Unit.COUNT, "Number of rows of its events."),
)


def forget(
    store: Target,
    which: Words = (),
    *,
    older_than: str | None = None,
    keep: int | None = None,
    never: Words = KEPT,
    dry_run: bool = False,
) -> ShownReport:
    """Remove profiles from a store, and give the space back; return a row for each removed one.

    `which` are words: the label of a run or a profile, an id, KEY=VALUE of a tag, or last:N; none means
    all runs. Of these go whole runs recorded before an age, `older_than` such as 90d, 12h or 4w, and all
    but the newest `keep` runs. What has a label of `never` stays (LABEL, or LABEL-2 and so on). With
    `dry_run` nothing is removed. All is removed in one transaction, or nothing.

    Raises UsageError if nothing says what to remove, or a word selects nothing; InputError for no store.
    """
    place, word = split_target(store)
    words = [*([word] if word is not None else ()), *several(which)]
    before_ns = None if older_than is None else time.time_ns() - _age_ns(older_than)
    if keep is not None and keep < 0:
        raise UsageError(f"--keep {keep} is negative", hint="--keep 20 keeps the newest 20 runs.")
    if not words and before_ns is None and keep is None:
        hint = "Name runs or profiles, an age (--older-than 90d), or a number of runs (--keep 20)."
        raise UsageError("forget what?", hint=hint)
    require_store(place)
    with reading(place) as opened, opened.snapshot():
        runs = runs_in_order(opened)
    chosen = _chosen(runs, words, keep)
    notes = []
    if before_ns is not None:
        unknown = [run for run in chosen if run.recorded_ns is None]
        if unknown:
            text = "runs without a time of recording have no age: they stay"
            notes.append(Note("no-recording-time", Severity.INFO, text, len(unknown)))
        chosen = [run for run in chosen if (run.recorded_ns or before_ns) < before_ns]
    if keep is not None and not have_times(runs):
        text = "a run has no time of recording: the newest are those imported last"
        notes.append(Note("in-order-of-import", Severity.INFO, text))
    kept = [run for run in chosen if _is_kept(run, several(never))]
    chosen = [run for run in chosen if run not in kept]
    if kept:
        text = f"runs that are kept by their label, the first {kept[0].label}"
        notes.append(Note("kept-by-label", Severity.INFO, text, len(kept)))
    freed = 0
    if not dry_run:
        chosen, freed = _remove(place, chosen, notes)
    return _report(redacted_target(str(place)), runs, chosen, freed, notes, dry_run=dry_run)


def _age_ns(text: str) -> int:
    match = _AGE.fullmatch(text)
    if match is None:
        hint = "A number of hours, days or weeks: 12h, 90d, 4w."
        raise UsageError(f"{text!r} is no age", hint=hint)
    return int(match[1]) * _HOURS[match[2]] * _NS_OF_HOUR


def _chosen(runs: Sequence[RunRecord], words: Sequence[str], keep: int | None) -> list[RunRecord]:
    # Runs with those of their profiles that the words select; of these all but the newest.
    found = list(runs)
    if words:
        ids = {profile.id for word in words for profile in selected(runs, word)}
        found = [each for run in runs if (each := _part(run, ids)).profiles]
    newest = {run.id for run in last_runs(found, keep)} if keep else set()
    return [run for run in found if run.id not in newest]


def _part(run: RunRecord, ids: Collection[int]) -> RunRecord:
    return RunRecord(run.id, run.label, tuple(p for p in run.profiles if p.id in ids))


def _is_kept(run: RunRecord, never: Sequence[str]) -> bool:
    # Several profiles that are imported under one label are LABEL, LABEL-2 and so on.
    labels = (run.label, *(profile.label for profile in run.profiles))
    patterns = [re.compile(rf"{re.escape(label)}(?:-[0-9]+)?") for label in never]
    return any(pattern.fullmatch(label) for pattern in patterns for label in labels)


def _remove(
    place: Location, chosen: Sequence[RunRecord], notes: list[Note]
) -> tuple[list[RunRecord], int]:
    identities = {p.id: p.attributes["identity"] for run in chosen for p in run.profiles}
    with writing(place) as writer:
        gone = writer.forget(identities) if identities else frozenset()
        try:
            # This also gives back what a killed one left.
            freed = writer.give_back_space()
        except NsysconvError as error:
            freed = 0
            text = f"the space is not given back, but later imports use it: {error.what}"
            notes.append(Note("space-not-given-back", Severity.INFO, text))
    return [each for run in chosen if (each := _part(run, gone)).profiles], freed


def _report(
    store: str,
    runs: Sequence[RunRecord],
    gone: Sequence[RunRecord],
    freed: int,
    notes: Sequence[Note],
    *,
    dry_run: bool,
) -> ShownReport:
    rows = [_row(run, profile) for run in gone for profile in run.profiles]
    whole = {run.id: len(run.profiles) for run in runs}
    stay = len(runs) - sum(len(run.profiles) == whole[run.id] for run in gone)
    title = "To be removed from" if dry_run else "Removed from"
    events = sum(row[-1] for row in rows)
    line = f"profiles: {len(rows):,}, with {events:,} rows of events; runs that stay: {stay:,}"
    if freed:
        line += f"; given back: {human(freed, Unit.BYTES)}"
    cells = zip(*rows, strict=True) if rows else [()] * len(_COLUMNS)
    data = {column.name: list(values) for column, values in zip(_COLUMNS, cells, strict=True)}
    return ShownReport(
        "forget",
        f"{title} {store}",
        _COLUMNS,
        report_table(_COLUMNS, data),
        row_count=len(rows),
        notes=tuple(notes),
        texts=(Text("", (line,)),),
    )


def _row(run: RunRecord, profile: ProfileRecord) -> tuple[str, str, int, str | None, int]:
    zero = profile.attributes["zero_utc_ns"]
    recorded = None if zero is None else utc(zero)
    return run.label, profile.label, profile.id, recorded, profile.row_count
