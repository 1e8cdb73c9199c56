"""The profiles of one store on their way into another: with their names, notes and tags."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path

import pyarrow as pa
import sqlalchemy as sa

from nsysconv import schema
from nsysconv.errors import InputError, UsageError
from nsysconv.facts import Fact
from nsysconv.notes import Note
from nsysconv.store.location import Location, reading, writing
from nsysconv.store.read import Extent, Profile, Store, find_profile
from nsysconv.store.recording import (
    SOURCE,
    ArrowRows,
    Batch,
    Batches,
    ProfileAttributes,
    Recording,
    SourceRows,
    Summary,
)
from nsysconv.store.runs import RANK_REPEATED, coverage_by_run
from nsysconv.store.write import Origin, tags_of

_ROWS_AT_ONCE = 100_000
# These tables are made anew from the recording's summary.
_MADE_ANEW = (
    *(schema.profile_fact, schema.profile_tag, schema.extent, schema.note),
    schema.checksum,
)


@dataclass(frozen=True)
class StoredRun:
    """The run of a profile: `profile_count` profiles, which hold these ranks."""

    id: int
    label: str
    profile_count: int
    ranks: frozenset[int]


@dataclass(frozen=True)
class StoredProfile:
    """A profile as a recording, its number there, where it comes from, and its run."""

    profile_id: int
    recording: Recording
    origin: Origin
    run: StoredRun


@contextmanager
def stored_profiles(place: Location) -> Iterator[Iterator[StoredProfile]]:
    """Open a store and yield its profiles as recordings, in their order. Raises as `reading`."""
    with reading(place) as store:
        runs = _runs(store)
        yield (
            StoredProfile(
                profile.id,
                _recording(store, profile, place),
                Origin(
                    profile.ref.label,
                    profile.attributes["source"],
                    profile.attributes["path"],
                    profile.attributes["sha256"],
                    profile.attributes["identity"],
                    tags_of(profile),
                ),
                runs[profile.attributes["run_id"]],
            )
            for profile in store.profiles()
        )


def only_profile(store: Store, place: Location, selector: str | None) -> Profile:
    """Return the profile that is meant. Raises UsageError where none or several are."""
    profiles = store.profiles()
    if selector is not None or len(profiles) == 1:
        return find_profile(store, selector or profiles[0].ref.label)
    hint = f"Name one: {place}@LABEL. `nsysconv runs {place}` lists them."
    raise UsageError(f"the store holds {len(profiles)} profiles", where=str(place), hint=hint)


def copy_profile(place: Location, selector: str | None, target: Path) -> None:
    """Write a store with one profile of another one. Raises as `only_profile`."""
    with reading(place) as store:
        profile_id = only_profile(store, place, selector).id
    with stored_profiles(place) as profiles, writing(target) as writer:
        found = next(each for each in profiles if each.profile_id == profile_id)
        writer.add([found.recording], found.origin, lambda *_: None)


def _runs(store: Store) -> dict[int, StoredRun]:
    labels = {row["id"]: row["label"] for row in store.runs()}
    return {
        run_id: StoredRun(run_id, labels[run_id], len(run.profiles), frozenset(run.ranks))
        for run_id, run in coverage_by_run(store).items()
    }


def _recording(store: Store, profile: Profile, place: Location) -> Recording:
    return Recording(
        batches=_batches(store, profile, place),
        sqlite_source=place if isinstance(place, Path) else None,
        possible=profile.facts | profile.missing,
    )


def _batches(store: Store, profile: Profile, place: Location) -> Batches:
    extents = profile.extents
    for table in schema.metadata.sorted_tables:
        if "profile_id" not in table.c or table in _MADE_ANEW:
            continue
        if not store.has_table(table.name):
            continue  # an older store has no such table
        if table.name not in schema.EVENT_TABLES:
            yield from _rows(profile, table, ("profile_id",))
        elif table.name in extents:
            if isinstance(place, Path):
                yield _source_rows(table, extents[table.name], store.lacking(table.name))
            else:
                yield from _rows(profile, table, ("profile_id", "id"))
    # The rows were read under a lock, their extents before it.
    if profile.current_extents() != extents:
        raise InputError(
            "the store was changed while it was read", where=str(place), hint="Import it again."
        )
    advice = {Fact(row["fact"]): row["advice"] for row in profile.rows(schema.profile_fact.name)}
    return Summary(
        ProfileAttributes(
            **{part.name: profile.attributes[part.name] for part in fields(ProfileAttributes)}
        ),
        profile.facts,
        {fact: text for fact, text in advice.items() if text is not None},
        # The note on the profile's place in a run is made anew.
        [note for note in profile.notes if note.slug != RANK_REPEATED],
        constants={name: extent.constants for name, extent in extents.items()}
        if isinstance(place, Path)
        else {},
    )


def _rows(profile: Profile, table: sa.Table, without: tuple[str, ...]) -> Iterator[Batch]:
    for batch in profile.batches(table.name, _ROWS_AT_ONCE):
        rows = pa.Table.from_batches([batch])
        yield ArrowRows(table.name, rows.drop_columns(list(without)))


def _source_rows(table: sa.Table, extent: Extent, lacking: Iterable[str]) -> SourceRows:
    names = [c.name for c in table.columns if c.name not in ("id", "profile_id", *lacking)]
    source = sa.table(table.name, *(sa.column(c.name, c.type) for c in table.c), schema=SOURCE)

    def guarded() -> tuple[SourceRows, list[Note]]:
        raise InputError(f"the table {table.name} of the store holds what none may hold")

    return SourceRows(
        table.name,
        sa.select(*(source.c[name] for name in names)),
        source.c.id,
        extent.first_id,
        extent.last_id,
        guarded,
    )
