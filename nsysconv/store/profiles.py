"""What a store holds of a profile as a whole: its own row, its facts, tags and notes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

import sqlalchemy as sa

from nsysconv import schema
from nsysconv.facts import Fact, in_order
from nsysconv.notes import Note
from nsysconv.store.connection import Connection
from nsysconv.store.read import Profile
from nsysconv.store.recording import Summary
from nsysconv.store.runs import Belonging, Place


@dataclass(frozen=True)
class Origin:
    """Where a recording comes from: `source` the importer's name, `identity` what makes it the same.

    `label` and `tags` are what the user calls it and wants kept with it, `run` says which run it is of;
    none of them is part of its identity.
    """

    label: str
    source: str
    path: str
    sha256: str
    identity: str
    tags: Mapping[str, str] = field(default_factory=dict)
    run: Belonging | None = None


def tags_of(profile: Profile) -> dict[str, str]:
    """A profile's tags, ordered by key."""
    rows = profile.rows(schema.profile_tag.name)
    return dict(sorted((str(row["key"]), str(row["value"])) for row in rows))


def remove_profile(connection: Connection, profile_id: int) -> None:
    """Deletes a profile and all its rows, and with the last profile of a run the run."""
    for table in schema.metadata.sorted_tables:
        if "profile_id" in table.c:
            connection.execute(sa.delete(table).where(table.c.profile_id == profile_id))
    run_ids = sa.select(schema.profile.c.run_id).where(schema.profile.c.id == profile_id)
    run_id = connection.number(run_ids)
    connection.execute(sa.delete(schema.profile).where(schema.profile.c.id == profile_id))
    if not _profiles_of(connection, run_id):
        connection.execute(sa.delete(schema.run).where(schema.run.c.id == run_id))


def add_profile(
    connection: Connection,
    profile_id: int,
    possible: frozenset[Fact],
    summary: Summary,
    origin: Origin,
    place: Place,
) -> tuple[str, int]:
    """Write what is known of a profile as a whole, its rows apart.

    Return its label, made unique in the store, and the id of its run.
    """
    label, run_id = _storable(origin.label), place.run_id
    if run_id is None:
        label, run_id = _new_run(connection, label, place)
    else:
        label = _free(connection, label, schema.profile)
        _rename(connection, run_id, place.label)
    connection.execute(
        sa.insert(schema.profile).values(
            id=profile_id,
            run_id=run_id,
            label=label,
            identity=origin.identity,
            source=origin.source,
            path=_storable(origin.path),
            sha256=origin.sha256,
            **asdict(summary.attributes),
        )
    )
    for key, value in origin.tags.items():
        tag = sa.insert(schema.profile_tag)
        connection.execute(tag.values(profile_id=profile_id, key=key, value=value))
    _add_facts(connection, profile_id, possible, summary)
    _add_notes(connection, profile_id, summary.notes)
    return label, run_id


def _new_run(connection: Connection, label: str, place: Place) -> tuple[str, int]:
    """Makes a run; the labels of its first profile and, unless it is named, its own are one."""
    run = schema.run
    run_id = connection.number(sa.select(sa.func.coalesce(sa.func.max(run.c.id), 0) + 1))
    if place.named:
        label = _free(connection, label, schema.profile)
        of_run = _free(connection, _storable(place.label or label), run)
    else:
        label = of_run = _free(connection, label, schema.profile, run)
    values = {"id": run_id, "label": of_run, "job": place.job}
    connection.execute(sa.insert(run).values(**values))
    return label, run_id


def _rename(connection: Connection, run_id: int, label: str | None) -> None:
    """Calls a run by its own name as soon as it gets a second profile."""
    run = schema.run
    labels = _profiles_of(connection, run_id)
    old = connection.value(sa.select(run.c.label).where(run.c.id == run_id))
    if label is not None and labels == [old]:
        new = _free(connection, _storable(label), run)
        connection.execute(sa.update(run).where(run.c.id == run_id).values(label=new))


def _profiles_of(connection: Connection, run_id: int) -> list[str]:
    """Labels of a run's profiles, two at most."""
    profile = schema.profile
    few = sa.select(profile.c.label).where(profile.c.run_id == run_id).limit(2)
    return [str(row["label"]) for row in connection.rows(few)]


def _add_facts(
    connection: Connection, profile_id: int, possible: frozenset[Fact], summary: Summary
) -> None:
    for fact in in_order(possible | summary.facts | summary.advice.keys()):
        connection.execute(
            sa.insert(schema.profile_fact).values(
                profile_id=profile_id,
                fact=fact.value,
                held=int(fact in summary.facts),
                advice=summary.advice.get(fact),
            )
        )


def _add_notes(connection: Connection, profile_id: int, notes: Iterable[Note]) -> None:
    for note in notes:
        connection.execute(sa.insert(schema.note).values(profile_id=profile_id, **note_row(note)))


def note_row(note: Note) -> dict[str, object]:
    """A note as its table has it, but for the numbers of row and profile."""
    return {
        "slug": note.slug,
        "severity": note.severity.value,
        "count": note.count,
        "place": note.where,
        "text": note.text,
        "facts": " ".join(f.value for f in in_order(note.facts)),
    }


def _free(connection: Connection, wanted: str, *tables: sa.Table) -> str:
    """The label, or with a number behind it that makes it one which no row of the tables has.

    The first such number, unless labels in between were removed: thousands of files may have one name.
    """

    def is_free(label: str) -> bool:
        same = [sa.select(t.c.label).where(t.c.label == label) for t in tables]
        return not any(connection.rows(one) for one in same)

    if is_free(wanted):
        return wanted
    taken, free = 1, 2
    while not is_free(f"{wanted}-{free}"):
        taken, free = free, free * 2
    while free - taken > 1:
        middle = (taken + free) // 2
        if is_free(f"{wanted}-{middle}"):
            free = middle
        else:
            taken = middle
    return f"{wanted}-{free}"


def _storable(text: str) -> str:
    """Text that a database takes: bytes of a file name that are no UTF-8 are spelled out."""
    return text.encode("utf-8", "backslashreplace").decode()
