"""Which rank a recording is of, as far as what lies around it tells: its name, its record, the user.

The recording itself comes first, but for `--rank-from`. Importers know nothing of names and records:
the rows of processes are completed on their way into the store.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nsysconv import record, schema
from nsysconv.errors import UsageError
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity
from nsysconv.record import Record
from nsysconv.store.recording import ArrowRows, Batch, Batches, Recording, filter_batches, rows_of

Row = dict[str, Any]

_RANK = r"[0-9]{1,9}"
_NAMED = re.compile(rf"(?<![a-z])(?<!local[_-])rank[_-]?({_RANK})(?![0-9])", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]+")
_RANKS = frozenset({Fact.RANKS})
_USER = "--rank-from"
# What goes with a rank: of another rank it says nothing.
_WITH_RANK = ("local_rank", "world_size")
_WITHOUT_RANK = ("host", "job")


@dataclass(frozen=True)
class Told:
    """What one voice says of a recording; `voice` names it."""

    voice: str
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    host: str | None = None
    job: str | None = None
    guessed: bool = False


def pattern(text: str | None) -> re.Pattern[str] | None:
    """The expression of `--rank-from`. Raises UsageError where it is none, or has no group."""
    if text is None:
        return None
    hint = r"Its first group is the rank: --rank-from 'train\.(\d+)\.'"
    try:
        compiled = re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(
            f"--rank-from {text!r} is no regular expression: {error}", hint=hint
        ) from None
    if not compiled.groups:
        raise UsageError(f"--rank-from {text!r} has no group", hint=hint)
    return compiled


def rank_from(path: str, wanted: re.Pattern[str]) -> int | None:
    """The rank that `--rank-from` finds in a path as it was named; None where it finds none."""
    match = wanted.search(path)
    found = match.group(1) if match else None
    return int(found) if found is not None and re.fullmatch(_RANK, found) else None


def rank_in_name(path: Path) -> int | None:
    """The rank where a file's name says `rank` and one number: rank0, rank_0, rank-12."""
    found = {int(number) for number in _NAMED.findall(path.name)}
    return found.pop() if len(found) == 1 else None


def voices(path: Path, wanted: re.Pattern[str] | None, named: Sequence[str] = ()) -> list[Told]:
    """What the user, a record beside it and its name say of a file, those that say something.

    `named` is how the user named it, where that is not `path`.
    """
    found = []
    forced = rank_from(named[0] if named else str(path), wanted) if wanted is not None else None
    if forced is not None:
        found.append(Told(_USER, forced))
    beside = record_of(path)
    if beside is not None:
        found.append(
            Told(
                "the record beside it",
                beside.rank,
                beside.local_rank,
                beside.world_size,
                beside.host,
                beside.job,
            )
        )
    guess = rank_in_name(path)
    if guess is not None:
        found.append(Told("the file's name", guess, guessed=True))
    return found


def record_of(path: Path) -> Record | None:
    """The record beside a file; None where there is none, or it is that of another file."""
    found = record.read(record.record_path(path))
    if found is None or (found.report is not None and Path(found.report).stem != path.stem):
        return None
    return found


def suggestion(paths: Sequence[Path]) -> str | None:
    """The `--rank-from` by which the one number in which names differ is their rank.

    Ranks begin at 0; where no name has that, the numbers are those of repeats.
    """
    shapes: dict[str, list[tuple[int, ...]]] = {}
    for path in paths:
        numbers = tuple(int(n) for n in _NUMBER.findall(path.name) if len(n) < 10)
        shapes.setdefault(_NUMBER.sub("0", path.name), []).append(numbers)
    if len(shapes) != 1:
        return None
    ((shape, numbers_of),) = shapes.items()
    if len(numbers_of) < 2 or len({len(numbers) for numbers in numbers_of}) != 1:
        return None
    columns = list(zip(*numbers_of, strict=True))
    differing = [i for i, column in enumerate(columns) if len(set(column)) > 1]
    if len(differing) != 1:
        return None
    ranks = columns[differing[0]]
    if len(set(ranks)) != len(ranks) or min(ranks) != 0:
        return None
    parts = [re.escape(part).replace("\\-", "-") for part in shape.split("0")]
    (at,) = differing
    head = r"\d+".join(parts[: at + 1])
    tail = r"\d+".join(parts[at + 1 :])
    return rf"{head}(\d+){tail}$"


def ranked(recording: Recording, told: Sequence[Told]) -> Recording:
    """The recording with what is told of it in its rows of processes.

    Nothing outside a file tells one of its several recordings from another.
    """
    if not told or recording.one_of_several:
        return recording
    return replace(recording, batches=_Completing(told).batches(recording.batches))


class _Completing:
    """Completes the rows of processes, which come last: the summary says which are at work."""

    def __init__(self, told: Sequence[Told]) -> None:
        self._told = told
        self._ranked = False
        self._notes: list[Note] = []
        self._processes: list[ArrowRows] = []

    def batches(self, batches: Batches) -> Batches:
        summary = yield from filter_batches(batches, self._is_no_process)
        for batch in self._processes:
            rows = self._completed(batch.rows.to_pylist(), summary.gpu_pids)
            yield rows_of(schema.process, rows)
        host = next((told.host for told in self._told if told.host), None)
        attributes = summary.attributes
        return replace(
            summary,
            attributes=attributes if attributes.host else replace(attributes, host=host),
            facts=summary.facts | (_RANKS if self._ranked else frozenset()),
            notes=(*summary.notes, *self._notes),
        )

    def _is_no_process(self, batch: Batch) -> bool:
        if not isinstance(batch, ArrowRows) or batch.table != schema.process.name:
            return True
        self._processes.append(batch)
        return False

    def _completed(self, rows: list[Row], gpu_pids: frozenset[int]) -> list[Row]:
        for row in rows:
            for word in _WITHOUT_RANK:
                values = (getattr(told, word) for told in self._told)
                row[word] = row.get(word) or next((value for value in values if value), None)
        ranked = [row for row in rows if row.get("rank") is not None]
        speakers = [told for told in self._told if told.rank is not None]
        working = gpu_pids or {row["pid"] for row in rows}
        alone = [row for row in rows if row["pid"] in working] if len(working) == 1 else []
        if speakers and alone and ranked in ([], alone):
            self._settle(alone[0], speakers)
        elif speakers and not ranked and rows:
            voices = " and ".join(told.voice for told in speakers)
            text = f"{voices}: rank {speakers[0].rank}, but {len(working)} processes are at work"
            self._notes.append(Note("rank-unused", Severity.INFO, text, facts=_RANKS))
        return rows

    def _settle(self, row: Row, speakers: Sequence[Told]) -> None:
        own = Told("the recording", row.get("rank"), row.get("local_rank"), row.get("world_size"))
        forced = [told for told in speakers if told.voice == _USER]
        order = [*forced, own, *(told for told in speakers if told not in forced)]
        first, *others = [told for told in order if told.rank is not None]
        row["rank"] = first.rank
        for word in _WITH_RANK:
            agreeing = (getattr(told, word) for told in (first, *others) if told.rank == first.rank)
            row[word] = next((value for value in agreeing if value is not None), None)
        self._ranked = True
        if first.guessed:
            # The rank is the place, so that the notes of a run's profiles are one with their number.
            text, where = "the rank was taken from the file's name", f"rank {first.rank}"
            note = Note("rank-from-name", Severity.APPROXIMATED, text, 1, where, _RANKS)
            self._notes.append(note)
        for other in others:
            if other.rank != first.rank:
                text = (
                    f"{first.voice} says rank {first.rank}, {other.voice} {other.rank}; "
                    f"{first.rank} was kept"
                )
                self._notes.append(Note("rank-clash", Severity.INFO, text, facts=_RANKS))
