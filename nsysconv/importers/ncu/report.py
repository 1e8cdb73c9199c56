"""Launches of a report, as NVIDIA's own module `ncu_report` reads it; it runs in a process of its own.

That module is native code that opens files from anywhere: should one crash it, an error says so. The
report's blocks are counted here, because the module does not say that a report was cut.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nsysconv.errors import InputError
from nsysconv.importers import wire
from nsysconv.importers.ncu.launches import GPU_NAME, Launch, Metric, scale

_HEADER_AT, _LENGTH_BYTES = 4, 4
# Fields of a block's header.
_RESULTS, _PAYLOAD, _PROCESS, _PID = 2, 5, 6, 1
_LONGEST_HEADER = 1 << 26
_KERNEL = 0
_FAILED = "cannot be opened by NVIDIA's ncu_report: "
_HINT = "Copy the report again, or print it where it was made: ncu --import FILE --csv"


@dataclass
class Blocks:
    """The blocks of a report: the process of each result, and where the file ends within a block."""

    pids: list[int | None] = field(default_factory=list)
    cut_at: int | None = None


def blocks_of(path: Path) -> Blocks:
    """Return the blocks of a report. Raises InputError for bytes that are none."""
    found, size = Blocks(), path.stat().st_size
    with path.open("rb") as file:
        file.seek(_HEADER_AT)
        at = _HEADER_AT + _LENGTH_BYTES + int.from_bytes(file.read(_LENGTH_BYTES), "little")
        while at < size:
            file.seek(at)
            length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
            if length > _LONGEST_HEADER:
                raise _damage_error(path, at)
            header = file.read(length)
            if len(header) < length:
                break
            try:
                numbers = wire.numbers(header)
                pids = [wire.numbers(each).get(_PID) for each in wire.messages(header, _PROCESS)]
            except wire.WireError:
                raise _damage_error(path, at) from None
            payload, results = numbers.get(_PAYLOAD, 0), numbers.get(_RESULTS, 0)
            if not 0 <= results <= max(payload, 0):
                raise _damage_error(path, at)
            end = at + _LENGTH_BYTES + length + payload
            if end > size:
                break
            found.pids += [next(iter(pids), None)] * results
            at = end
    found.cut_at = at if at != size else None
    return found


def _damage_error(path: Path, at: int) -> InputError:
    what = f"the Nsight Compute report is damaged: no block begins at byte {at:,}"
    return InputError(what, where=str(path), hint=_HINT)


def launches_of(path: Path, origin: Path, blocks: Blocks) -> Iterator[Launch | None]:
    """Yield the launches of a report, in order; None for one that cannot be read.

    Raises InputError without the module, and for what it does not open.
    """
    if importlib.util.find_spec("ncu_report") is None:
        raise InputError(
            "an Nsight Compute report: reading it needs NVIDIA's ncu-report",
            where=str(origin),
            hint="pip install 'nsysconv[ncu]', or print it: ncu --import FILE --csv",
        )
    from nsysconv.processes import ProcessDiedError, Processes

    with Processes[int | None, Any](1, Reader, str(path)) as process:
        try:
            (count,) = process.map([None])
            if isinstance(count, str):
                raise InputError(f"{_FAILED}{count[:200]}", where=str(origin), hint=_HINT)
            known = blocks.pids if len(blocks.pids) == count else [None] * count
            # A launch at which the module crashes is lost alone: another process takes its place.
            for launch, pid in zip(process.map(range(count), lost=_lost), known, strict=True):
                if launch is not None:
                    launch.pid = pid
                yield launch
            yield from [None] * (len(blocks.pids) - count)
        except ProcessDiedError:
            what = f"{_FAILED}it crashed"
            raise InputError(what, where=str(origin), hint=_HINT) from None


def _lost(item: int | None) -> None:
    return None


# -- in the process that opens the report


class Reader:
    """Reads the launches of a report by their number; None asks how many there are.

    What the module does not open gives a text that says why.
    """

    def __init__(self, path: str) -> None:
        """Take the report's path; the first question opens it."""
        self._path = path
        self._report: Any = None
        self._places: list[tuple[Any, int]] = []
        # The module's library prints complaints about damage.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)

    def __call__(self, number: int | None) -> Launch | int | str:
        """Return a launch, the number of them, or why there are none."""
        if self._report is None:
            import ncu_report

            try:
                self._report = ncu_report.load_report(self._path)
                ranges = map(self._report.range_by_idx, range(self._report.num_ranges()))
                self._places = [(each, i) for each in ranges for i in range(each.num_actions())]
            except Exception as error:  # what it raises is not documented
                return str(error) or type(error).__name__
        if number is None:
            return len(self._places)
        range_, place = self._places[number]
        return _launch(range_.action_by_idx(place))


def _launch(action: Any) -> Launch:
    launch = Launch(
        kernel=_text(action.name(action.NameBase_DEMANGLED)),
        short=_text(action.name(action.NameBase_FUNCTION)) or None,
        symbol=_text(action.name(action.NameBase_MANGLED)) or None,
        is_kernel=action.workload_type() == _KERNEL,
    )
    for name in action.metric_names():
        try:
            metric = action.metric_by_name(name)
            value, unit = metric.value() if metric.has_value() else None, metric.unit()
        except (AttributeError, TypeError, ValueError):  # names and units that are no text
            launch.unreadable += 1
            continue
        if name == GPU_NAME and isinstance(value, str):
            launch.gpu = _text(value)
        if isinstance(value, int | float):
            kind, spelled, factor = scale(unit)
            value *= factor
            launch.metrics.append(Metric(name, kind, spelled, value, value, value))
        else:
            launch.left_out += 1
    return launch


def _text(text: str) -> str:
    # What is not UTF-8 comes with lone surrogates.
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
