"""Several files as one profile: parts of one recording, or a timeline and what another run measured.

Of files with metrics, launches, samples and names are taken; `timeline/measured.py` finds the kernels
that they are of. Of files with source lines, these; `timeline/line_operators.py` finds the operators.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from nsysconv import schema
from nsysconv.api.inputs import Input
from nsysconv.errors import InputError, NoProfileError
from nsysconv.facts import Fact
from nsysconv.importers import detection
from nsysconv.importers.contract import Importer, Options
from nsysconv.importers.probe import Probe
from nsysconv.notes import Note, Severity
from nsysconv.store.location import is_store, reading
from nsysconv.store.merging import only_profile, stored_profiles
from nsysconv.store.recording import (
    ArrowRows,
    Batch,
    Batches,
    Recording,
    SourceRows,
    mapped_batches,
    take_batches,
)

_METRICS, _LINES = frozenset({Fact.METRICS}), frozenset({Fact.CPU_LINES})
_NAME, _LAUNCH, _SAMPLE, _LINE = (
    schema.name.name,
    schema.measured_launch.name,
    schema.metric_sample.name,
    schema.cpu_line.name,
)
# Columns that hold ids of names.
_NAMES = (
    *("name_id", "mangled_name_id", "description_id", "kernel_name_id"),
    *("file_id", "function_id"),
)
# What says where a kernel ran in the other run.
_OF_OTHER_RUN = ("id", "profile_id", "pid", "context_id", "stream_id")
_ROWS_AT_ONCE = 100_000


def importer_of_joined(item: Input, probes: Sequence[Probe]) -> Importer:
    """Return what reads these files as one profile. Raises InputError for what cannot be joined."""
    selectors = [
        selector if url is None else None
        for selector, url in zip(item.selectors, item.urls, strict=True)
    ]
    importers: list[Importer] = []
    for probe, selector in zip(probes, selectors, strict=True):
        try:
            importers.append(_importer_of(probe, selector))
        except NoProfileError:
            # A list of GPUs, say, is part of a recording, and none itself.
            importers += [each for each in importers if _is_part(each, probe)][:1]
            if len(importers) <= probes.index(probe):
                raise
    measuring = [each for each in importers if _measures(each)]
    timelines = [each for each in importers if not _measures(each)]
    titles = ", ".join(dict.fromkeys(importer.TITLE for importer in importers))
    if not timelines:
        raise InputError(
            f"there is no timeline to join these to: {titles}",
            where=str(probes[0].origin),
            hint="Name a recording of the same program's timeline, too.",
        )
    first, *others = timelines
    if others and not (first.JOINS and all(other is first for other in others)):
        raise InputError(
            f"files of this kind cannot be joined: {titles}",
            where=str(probes[0].origin),
            hint="Only files that are parts of one recording can be, and metrics of the same program's "
            "kernels or times of its source lines. Import these without --join.",
        )
    if not measuring:
        return first
    return cast("Importer", _WithMeasured(first, importers, item.paths))


def _importer_of(probe: Probe, selector: str | None) -> Importer:
    # The contract is that of modules, whose functions have no instance.
    if is_store(probe.path):
        return cast("Importer", _StoredProfile(probe.path, selector))
    return detection.detect(probe)


def _is_part(importer: Importer, probe: Probe) -> bool:
    is_part = getattr(importer, "is_part", None)
    return is_part is not None and bool(is_part(probe))


def _measures(importer: Importer) -> bool:
    # Whether it reads metrics of kernels, or source lines, and no timeline.
    has_metrics = Fact.METRICS in importer.GUARANTEED and Fact.KERNELS in importer.POSSIBLE
    return has_metrics or Fact.CPU_LINES in importer.GUARANTEED


def _measured_by(importer: Importer) -> frozenset[Fact]:
    return importer.GUARANTEED & (_METRICS | _LINES)


class _StoredProfile:
    """The contract of importers for a profile of a store, with metrics or source lines alone or not."""

    VERSION = 0
    ADVICE: Mapping[Fact, str] = {}
    JOINS = False
    INCLUDABLE: Mapping[str, str] = {}

    def __init__(self, place: Path, selector: str | None) -> None:
        """Find the profile. Raises UsageError where none or several are meant."""
        self._place = place
        with reading(place) as store:
            profile = only_profile(store, place, selector)
            self.profile_id, self.NAME = profile.id, profile.attributes["source"]
            self.TITLE = f"profile {profile.ref.label} of a store"
            self.POSSIBLE = profile.facts | profile.missing
            # A timeline is one, whatever was measured besides.
            has_calls = Fact.API_CALLS in profile.facts
            has_more = not profile.facts <= _LINES | {Fact.UTC}
            self.GUARANTEED = profile.facts - (_METRICS if has_calls else frozenset())
            self.GUARANTEED -= _LINES if has_more else frozenset()

    def read(self, probes: Sequence[Probe], options: Options) -> Generator[Recording, None, None]:
        """Yield the profile as a recording."""
        with stored_profiles(self._place) as profiles:
            yield next(each.recording for each in profiles if each.profile_id == self.profile_id)


class _WithMeasured:
    """The contract of importers for a timeline, and the metrics or source lines in the other files."""

    def __init__(
        self, timeline: Importer, importers: Sequence[Importer], paths: Sequence[Path]
    ) -> None:
        """Take the importer of each file; `timeline` reads those that are of the timeline."""
        self.NAME, self.TITLE, self.JOINS = timeline.NAME, timeline.TITLE, timeline.JOINS
        self.VERSION = 1000 * timeline.VERSION + max(each.VERSION for each in importers)
        others = (each for each in importers if each is not timeline)
        self._facts = frozenset[Fact]().union(*map(_measured_by, others))
        self.GUARANTEED = timeline.GUARANTEED | self._facts
        self.POSSIBLE = timeline.POSSIBLE | self._facts
        self.ADVICE, self.INCLUDABLE = timeline.ADVICE, timeline.INCLUDABLE
        self._timeline, self._importers = timeline, importers
        self.own_paths = tuple(
            path for path, each in zip(paths, importers, strict=True) if each is timeline
        )
        """The files of the timeline, whose names and records say of which rank it is."""

    def read(self, probes: Sequence[Probe], options: Options) -> Generator[Recording, None, None]:
        """Yield the recording of the timeline, with what was measured. Raises InputError for several."""
        files = [*zip(probes, self._importers, strict=True)]
        own = [probe for probe, each in files if each is self._timeline]
        others = [(probe, each) for probe, each in files if each is not self._timeline]
        if self._facts >= _LINES:
            # The functions around operators are call stacks, which name lines.
            functions = {Fact.PYTHON_FUNCTIONS} & self.INCLUDABLE.keys()
            options = replace(options, include=options.include | functions)
        for recording in self._timeline.read(own, options):
            _require_one(recording, own[0])
            batches = _with_measured(recording.batches, others, self._facts)
            yield replace(recording, batches=batches, possible=recording.possible | self._facts)


def _require_one(recording: Recording, probe: Probe) -> None:
    if recording.one_of_several:
        raise InputError(
            "the file holds several recordings: which of them is to be joined?",
            where=str(probe.origin),
            hint="Import it, and join one profile of the store: STORE@LABEL.",
        )


def _with_measured(
    batches: Batches, others: Sequence[tuple[Probe, Importer]], facts: frozenset[Fact]
) -> Batches:
    last = {_NAME: 0, _LAUNCH: 0, _LINE: 0, "part": 0}

    def counted(batch: Batch) -> Batch:
        if not isinstance(batch, SourceRows):
            if batch.table in last:
                _count(last, batch.table, batch.rows)
            return batch
        # Rows of one table from two places cannot be read in place.
        return replace(batch, sparse=True) if batch.table in (_SAMPLE, _LINE) else batch

    summary = yield from mapped_batches(batches, counted)
    notes: list[Note] = []
    for probe, importer in others:
        tables, noted = _tables(probe, importer)
        notes += noted
        last["part"] += _SAMPLE in tables
        if last[_LINE] and _LINE in tables:
            raise InputError(
                "source lines of several recordings cannot be joined to one timeline",
                where=str(probe.origin),
                hint="Join one of them.",
            )
        for table, rows in _shifted(tables, last).items():
            yield ArrowRows(table, rows)
            _count(last, table, rows)
    summary_notes = (*summary.notes, *notes)
    return replace(summary, facts=summary.facts | facts, notes=summary_notes)


def _count(last: dict[str, int], table: str, rows: pa.Table) -> None:
    # Keeps the greatest number of rows, and of files that were joined before.
    for key, column in ((table, "id"), ("part", "part")):
        if key in last and column in rows.column_names and rows.num_rows:
            last[key] = max(last[key], pc.max(rows.column(column)).as_py() or 0)


def _tables(probe: Probe, importer: Importer) -> tuple[dict[str, pa.Table], list[Note]]:
    # The rows of a file with metrics or source lines by table, and its notes on these.
    found: dict[str, list[pa.Table]] = {_NAME: [], _LAUNCH: [], _SAMPLE: [], _LINE: []}
    profile_id = getattr(importer, "profile_id", None)
    if profile_id is not None:
        with reading(probe.path) as store:
            profile = store.profile(profile_id)
            for table, parts in found.items():
                parts += [pa.Table.from_batches([b]) for b in profile.batches(table, _ROWS_AT_ONCE)]
            notes: Sequence[Note] = profile.notes
    else:
        with ExitStack() as stack:
            recordings = stack.enter_context(closing(importer.read([probe], Options())))

            def take(batch: Batch) -> None:
                if not isinstance(batch, SourceRows) and batch.table in found:
                    found[batch.table].append(batch.rows)

            recording = next(recordings)
            _require_one(recording, probe)
            notes = take_batches(recording.batches, take).notes
    tables = {
        table: pa.concat_tables(parts, promote_options="default")
        for table, parts in found.items()
        if parts
    }
    # Notes on kernels of the other run say nothing of those here.
    facts = _measured_by(importer)
    of_these = [replace(note, facts=facts) for note in notes if note.facts <= facts]
    return tables, [n for n in of_these if n.severity is not Severity.INFO or facts == _LINES]


def _shifted(tables: Mapping[str, pa.Table], last: Mapping[str, int]) -> dict[str, pa.Table]:
    # The rows with numbers that follow those there are.
    shifted = {}
    for table in (_NAME, _LINE):
        if table in tables:
            rows = tables[table].drop_columns(_present(tables[table], ("profile_id",)))
            shifted[table] = _moved(_moved(rows, _NAMES, last[_NAME]), ("id",), last[table])
    return shifted | (_shifted_metrics(tables, last) if _SAMPLE in tables else {})


def _shifted_metrics(
    tables: Mapping[str, pa.Table], last: Mapping[str, int]
) -> dict[str, pa.Table]:
    samples = tables[_SAMPLE]
    launches = tables.get(_LAUNCH, pa.table({}))
    if not launches.num_rows:
        launches, samples = _summarized(samples)
    samples = samples.filter(pc.is_valid(samples["launch_id"]))
    part = pa.array([last["part"]] * launches.num_rows, pa.int64())
    launches = launches.drop_columns(_present(launches, ("profile_id", "part")))
    return {
        _LAUNCH: _moved(
            _moved(launches, _NAMES, last[_NAME]), ("id",), last[_LAUNCH]
        ).append_column("part", part),
        _SAMPLE: _moved(
            _moved(samples.drop_columns(_present(samples, _OF_OTHER_RUN)), _NAMES, last[_NAME]),
            ("launch_id",),
            last[_LAUNCH],
        ),
    }


def _summarized(samples: pa.Table) -> tuple[pa.Table, pa.Table]:
    # Metrics without launches are a summary of each kernel.
    kernels = samples["kernel_name_id"]
    of_kernel = samples.group_by("kernel_name_id").aggregate([("execution_count", "max")])
    of_kernel = of_kernel.filter(pc.is_valid(of_kernel["kernel_name_id"]))
    ids = pa.array(range(1, of_kernel.num_rows + 1), pa.int64())
    launches = pa.table(
        {
            "id": ids,
            "name_id": of_kernel["kernel_name_id"],
            "launch_count": pc.fill_null(of_kernel["execution_count_max"], 1),
        }
    )
    numbers = pc.index_in(kernels, of_kernel["kernel_name_id"].combine_chunks(), skip_nulls=True)
    launch_ids = pc.add(pc.cast(numbers, pa.int64()), 1)
    kept = samples.drop_columns(_present(samples, ("launch_id",)))
    return launches, kept.append_column("launch_id", launch_ids)


def _moved(rows: pa.Table, columns: Sequence[str], by: int) -> pa.Table:
    for name in _present(rows, columns):
        place = rows.column_names.index(name)
        rows = rows.set_column(place, name, pc.add(rows.column(name), by))
    return rows


def _present(rows: pa.Table, names: Sequence[str]) -> list[str]:
    return [name for name in names if name in rows.column_names]
