"""What a store holds of a profile as a whole: its own row, its facts, tags and notes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

import sqlalchemy as sa

from nsysconv import schema
from nsysconv.facts import Fact, in_order
from nsysconv.notes import Note
from nsysconv.store.connection import Connection
from nsysconv.store.database import compiled
from nsysconv.store.read import Profile
from nsysconv.store.recording import Recording


@dataclass(frozen=True)
class Origin:
    """Where a recording comes from: `source` the importer's name, `identity` what makes it the same.

    `label` and `tags` are what the user calls it and wants kept with it; neither is part of its identity.
    """

    label: str
    source: str
    path: str
    sha256: str
    identity: str
    tags: Mapping[str, str] = field(default_factory=dict)


def tags_of(profile: Profile) -> dict[str, str]:
    """A profile's tags, ordered by key."""
    rows = profile.rows(schema.profile_tag.name)
    return dict(sorted((str(row["key"]), str(row["value"])) for row in rows))


def remove_profile(connection: Connection, profile_id: int) -> None:
    """Deletes a profile and all its rows, and its run."""
    for table in schema.metadata.sorted_tables:
        if "profile_id" in table.c:
            connection.execute(compiled(sa.delete(table).where(table.c.profile_id == profile_id)))
    run_ids = sa.select(schema.profile.c.run_id).where(schema.profile.c.id == profile_id)
    run_id = connection.value(compiled(run_ids))
    connection.execute(compiled(sa.delete(schema.profile).where(schema.profile.c.id == profile_id)))
    connection.execute(
        compiled(sa.delete(schema.run).where(schema.run.c.id == sa.literal_column(str(run_id))))
    )


def add_profile(
    connection: Connection,
    recording: Recording,
    origin: Origin,
    profile_id: int,
    facts: Iterable[Fact],
    notes: Iterable[Note],
) -> str:
    """Writes what is told of a profile as a whole; returns its label, made unique in the store."""
    label = _free_label(connection, _storable(origin.label))
    run_id = int(
        str(
            connection.value(
                compiled(sa.select(sa.func.coalesce(sa.func.max(schema.run.c.id), 0) + 1))
            )
        )
    )
    connection.execute(compiled(sa.insert(schema.run).values(id=run_id, label=label)))
    connection.execute(
        compiled(
            sa.insert(schema.profile).values(
                id=profile_id,
                run_id=run_id,
                label=label,
                identity=origin.identity,
                source=origin.source,
                path=_storable(origin.path),
                sha256=origin.sha256,
                **asdict(recording.attributes()),
            )
        )
    )
    for key, value in origin.tags.items():
        tag = sa.insert(schema.profile_tag)
        connection.execute(compiled(tag.values(profile_id=profile_id, key=key, value=value)))
    _add_facts(connection, recording, profile_id, set(facts))
    _add_notes(connection, profile_id, notes)
    return label


def _add_facts(
    connection: Connection, recording: Recording, profile_id: int, held: set[Fact]
) -> None:
    for fact in in_order(recording.possible | held | recording.advice.keys()):
        connection.execute(
            compiled(
                sa.insert(schema.profile_fact).values(
                    profile_id=profile_id,
                    fact=fact.value,
                    held=int(fact in held),
                    advice=recording.advice.get(fact),
                )
            )
        )


def _add_notes(connection: Connection, profile_id: int, notes: Iterable[Note]) -> None:
    for note in notes:
        row = sa.insert(schema.note).values(profile_id=profile_id, **note_row(note))
        connection.execute(compiled(row))


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


def _free_label(connection: Connection, wanted: str) -> str:
    taken = {row["label"] for row in connection.rows(compiled(sa.select(schema.profile.c.label)))}
    label, number = wanted, 1
    while label in taken:
        number += 1
        label = f"{wanted}-{number}"
    return label


def _storable(text: str) -> str:
    """Text that a database takes: bytes of a file name that are no UTF-8 are spelled out."""
    return text.encode("utf-8", "backslashreplace").decode()
