"""The runs of a store in the order in which they were recorded, and which of them a word selects."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from nsysconv import schema
from nsysconv.errors import UsageError, available_hint
from nsysconv.store.connection import Row
from nsysconv.store.read import Store

_LAST = "last:"
_COUNT = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class ProfileRecord:
    """A profile as the small tables of a store describe it; `attributes` is its row of `profile`.

    `devices` are the names of its GPUs, in the order of their numbers.
    """

    id: int
    label: str
    attributes: Row
    tags: Mapping[str, str]
    devices: tuple[str, ...]
    row_count: int


@dataclass(frozen=True)
class RunRecord:
    """A run of a store: its profiles are its ranks. `recorded_ns`: ns since 1970, None: not known."""

    id: int
    label: str
    profiles: tuple[ProfileRecord, ...]

    @property
    def recorded_ns(self) -> int | None:
        """Return when the first of its profiles was recorded."""
        return min(
            (t for p in self.profiles if (t := p.attributes["zero_utc_ns"]) is not None),
            default=None,
        )


def runs_in_order(store: Store) -> list[RunRecord]:
    """Return the runs, the oldest first: by time of recording, or as imported if one has no time."""
    extent, tag, device = schema.extent.c, schema.profile_tag.c, schema.device.c
    counts = sa.select(extent.profile_id, sa.func.sum(extent.row_count).label("count"))
    row_counts = {
        row["profile_id"]: int(row["count"])
        for row in store.rows(counts.group_by(extent.profile_id))
    }
    tags: dict[int, dict[str, str]] = {}
    for row in store.rows(sa.select(tag.profile_id, tag.key, tag.value)):
        tags.setdefault(row["profile_id"], {})[row["key"]] = row["value"]
    devices: dict[int, list[str]] = {}
    named = sa.select(device.profile_id, device.name).where(device.name.is_not(None))
    for row in store.rows(named.order_by(device.profile_id, device.device_id)):
        devices.setdefault(row["profile_id"], []).append(row["name"])
    of_runs: dict[int, list[ProfileRecord]] = {}
    for row in store.rows(sa.select(schema.profile).order_by(schema.profile.c.id)):
        number = row["id"]
        record = ProfileRecord(
            number,
            row["label"],
            row,
            tags.get(number, {}),
            tuple(devices.get(number, ())),
            row_counts.get(number, 0),
        )
        of_runs.setdefault(row["run_id"], []).append(record)
    labels = {row["id"]: row["label"] for row in store.runs()}
    runs = [RunRecord(i, labels.get(i, str(i)), tuple(each)) for i, each in of_runs.items()]
    if have_times(runs):
        runs.sort(key=lambda run: run.recorded_ns or 0)
    return runs


def have_times(runs: Iterable[RunRecord]) -> bool:
    """Return whether the time of recording of every run is known."""
    return all(run.recorded_ns is not None for run in runs)


def has_label(store: Store, word: str) -> bool:
    """Return whether a run or a profile of a store is called so."""
    tables = schema.run.c, schema.profile.c
    return any(store.rows(sa.select(c.id).where(c.label == word)) for c in tables)


def last_count(word: str) -> int | None:
    """Return N for `last:N`, None for other words. Raises UsageError if N is not a number above 0."""
    if not word.startswith(_LAST):
        return None
    count = word.removeprefix(_LAST)
    if not _COUNT.fullmatch(count) or not int(count):
        hint = "N of last:N is a number of runs: job.db@last:20 is the newest 20."
        raise UsageError(f"{word} selects no run", hint=hint)
    return int(count)


def last_runs(
    runs: Sequence[RunRecord], count: int, without: Collection[int] = ()
) -> list[RunRecord]:
    """Return the newest `count` of runs that are in order, except those with an id in `without`."""
    return [run for run in runs if run.id not in without][-count:]


def selected(runs: Sequence[RunRecord], word: str) -> list[ProfileRecord]:
    """Return the profiles that a word selects, at least one.

    It is the label of a run, the label or the id of a profile, KEY=VALUE of a tag, or last:N. Raises
    UsageError if it selects none.
    """
    of_run = [p for run in runs if run.label == word for p in run.profiles]
    profiles = [p for run in runs for p in run.profiles]
    labeled = [p for p in profiles if p.label == word]
    count = None if of_run or labeled else last_count(word)
    if count is not None:
        return [p for run in last_runs(runs, count) for p in run.profiles]
    key, sign, value = word.partition("=")
    tagged = [p for p in profiles if sign and p.tags.get(key) == value]
    numbered = [p for p in profiles if str(p.id) == word]
    found = of_run or labeled or tagged or numbered
    if not found:
        labels = list(dict.fromkeys(run.label for run in runs))
        hint = available_hint(word, labels, "`nsysconv runs` lists them all.")
        raise UsageError(f"no run or profile {word!r} in the store", hint=hint)
    return found
