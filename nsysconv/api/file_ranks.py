"""Ranks that a recording does not know: what the user, the record beside a file and its name say of it.

The rank that a recording knows comes first, but for `--rank-from`. Importers know nothing of these: rows
of processes are completed on their way into the store.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from nsysconv import record, schema
from nsysconv.facts import Fact
from nsysconv.launch import dimensions_in
from nsysconv.notes import Note, Severity
from nsysconv.store.recording import ArrowRows, Batch, Batches, Recording, mapped_batches, rows_of

Row = dict[str, Any]

_RANK = r"[0-9]{1,9}"
_RANK_IN_NAME = re.compile(rf"(?<![a-z])(?<!local[_-])rank[_-]?({_RANK})(?![0-9])", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]+")
_RANKS = frozenset({Fact.RANKS})
_USER = "--rank-from"
# These columns of a claim belong to its rank, and mean nothing for another rank.
_WITH_RANK = ("local_rank", "world_size")
_WITHOUT_RANK = ("host", "job", "dimensions")


@dataclass(frozen=True)
class RankClaim:
    """Hold the rank, host and job that the user, a record or a file's name gives a recording.

    `voice` says in words which of these it was.
    """

    voice: str
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    host: str | None = None
    job: str | None = None
    dimensions: str | None = None
    guessed: bool = False


def rank_from(path: str, pattern: re.Pattern[str]) -> int | None:
    """Return the rank that `--rank-from` finds in a path as it was named, or None."""
    match = pattern.search(path)
    rank = match.group(1) if match else None
    return int(rank) if rank is not None and re.fullmatch(_RANK, rank) else None


def rank_in_name(path: Path) -> int | None:
    """Return the rank if the file's name says `rank` and one number (rank0, rank_0, rank-12), or None."""
    ranks = {int(number) for number in _RANK_IN_NAME.findall(path.name)}
    return ranks.pop() if len(ranks) == 1 else None


def rank_claims(
    paths: Sequence[Path], pattern: re.Pattern[str] | None, named: Sequence[str] = ()
) -> list[RankClaim]:
    """Return what the user, the record beside a file and its name say of it, in this order.

    `named` is how the user named the file, if that is not its path. Voices that say nothing are left out;
    for a recording of several files, what is said of each of them counts.
    """
    first, *others = [_claims_on(path, pattern, named) for path in paths]
    return [claim for claim in first if all(claim in other for other in others)]


def _claims_on(
    path: Path, pattern: re.Pattern[str] | None, named: Sequence[str]
) -> list[RankClaim]:
    claims = []
    forced = pattern and rank_from(named[0] if named else str(path), pattern)
    if forced is not None:
        claims.append(RankClaim(_USER, forced))
    own = record.read(record.record_path(path))
    # The record may name another report, and is then ignored.
    if own is not None and (own.report is None or Path(own.report).stem == path.stem):
        voice = "the record beside it"
        claims.append(RankClaim(voice, own.rank, own.local_rank, own.world_size, own.host, own.job))
    guess, place = rank_in_name(path), dimensions_in(path.name)
    if guess is not None or place is not None:
        claims.append(RankClaim("the file's name", guess, dimensions=place, guessed=True))
    return claims


def suggest_rank_from(paths: Sequence[Path]) -> str | None:
    """Return the `--rank-from` for the only number in which names differ, if that begins at 0."""
    shapes: dict[str, list[tuple[int, ...]]] = {}
    for path in paths:
        numbers = tuple(int(n) for n in _NUMBER.findall(path.name) if len(n) < 10)
        shapes.setdefault(_NUMBER.sub("0", path.name), []).append(numbers)
    shape, numbers_of = next(iter(shapes.items()), ("", []))
    if len(shapes) != 1 or len(numbers_of) < 2 or len(set(map(len, numbers_of))) != 1:
        return None
    columns = list(zip(*numbers_of, strict=True))
    differing = [i for i, column in enumerate(columns) if len(set(column)) > 1]
    if len(differing) != 1:
        return None
    (at,) = differing
    ranks = columns[at]
    if len(set(ranks)) != len(ranks) or min(ranks) != 0:
        return None
    parts = [re.escape(part).replace("\\-", "-") for part in shape.split("0")]
    head = r"\d+".join(parts[: at + 1])
    tail = r"\d+".join(parts[at + 1 :])
    return rf"{head}(\d+){tail}$"


def with_ranks(recording: Recording, claims: Sequence[RankClaim]) -> Recording:
    """Return the recording with what the claims say of its processes; one of several as it is."""
    # If a file holds several recordings, nothing outside it says which of them the claims mean.
    if not claims or recording.one_of_several:
        return recording
    return replace(recording, batches=_with_completed_processes(recording.batches, claims))


def _with_completed_processes(batches: Batches, claims: Sequence[RankClaim]) -> Batches:
    processes: list[ArrowRows] = []

    def hold_back_processes(batch: Batch) -> Batch | None:
        if not isinstance(batch, ArrowRows) or batch.table != schema.process.name:
            return batch
        processes.append(batch)
        return None

    # Rows of processes come last: only the summary says which of them are at work.
    summary = yield from mapped_batches(batches, hold_back_processes)
    notes: list[Note] = []
    has_rank = False
    for batch in processes:
        rows = batch.rows.to_pylist()
        for row, column in product(rows, _WITHOUT_RANK):
            values = (getattr(claim, column) for claim in claims)
            row[column] = row.get(column) or next((value for value in values if value), None)
        has_rank |= _set_rank(rows, claims, summary.gpu_pids, notes)
        yield rows_of(schema.process, rows)
    host = next((claim.host for claim in claims if claim.host), None)
    attributes = summary.attributes
    return replace(
        summary,
        attributes=attributes if attributes.host else replace(attributes, host=host),
        facts=summary.facts | (_RANKS if has_rank else frozenset()),
        notes=(*summary.notes, *notes),
    )


def _set_rank(
    rows: Sequence[Row], claims: Sequence[RankClaim], gpu_pids: frozenset[int], notes: list[Note]
) -> bool:
    # A claim sets the rank of the only process at work. The result says whether it did.
    ranked = [row for row in rows if row.get("rank") is not None]
    claims = [claim for claim in claims if claim.rank is not None]
    working = gpu_pids or {row["pid"] for row in rows}
    only = [row for row in rows if row["pid"] in working] if len(working) == 1 else []
    if not claims or not only or ranked not in ([], only):
        if claims and not ranked and rows:
            voices = " and ".join(claim.voice for claim in claims)
            text = f"{voices}: rank {claims[0].rank}, but {len(working)} processes used GPUs"
            notes.append(Note("rank-unused", Severity.INFO, text, facts=_RANKS))
        return False
    row = only[0]
    own = RankClaim("the recording", row.get("rank"), row.get("local_rank"), row.get("world_size"))
    forced = [claim for claim in claims if claim.voice == _USER]
    order = [*forced, own, *(claim for claim in claims if claim not in forced)]
    first, *others = [claim for claim in order if claim.rank is not None]
    row["rank"] = first.rank
    for column in _WITH_RANK:
        agreeing = (getattr(c, column) for c in (first, *others) if c.rank == first.rank)
        row[column] = next((value for value in agreeing if value is not None), None)
    if first.guessed:
        # The rank is the place, so that the notes of a run's profiles are one with their number.
        text, where = "the rank was taken from the file's name", f"rank {first.rank}"
        notes.append(Note("rank-from-name", Severity.APPROXIMATED, text, 1, where, _RANKS))
    for other in others:
        if other.rank != first.rank:
            says = f"{first.voice} says rank {first.rank}, {other.voice} {other.rank}"
            text = f"{says}; {first.rank} was kept"
            notes.append(Note("rank-clash", Severity.INFO, text, facts=_RANKS))
    return True
