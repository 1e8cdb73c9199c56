"""Launches of a report, as NVIDIA's own module `ncu_report` reads it, in a process of its own.

That module is native code, and reports come from anywhere: a launch at which it crashes is lost alone.
The report's blocks are counted here, because the module does not say that a report was cut.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import Any

from nsysconv.errors import InputError
from nsysconv.importers import wire
from nsysconv.importers.ncu.launches import GPU_NAME, Launch, Metric, scale

_HEADER_AT, _LENGTH_BYTES = 4, 4
# Fields of a block's header.
_RESULTS, _PAYLOAD, _PROCESS, _PID = 2, 5, 6, 1
_LONGEST_HEADER = 1 << 26
_HINT = "Copy the report again, or print it where it was made: ncu --import FILE --csv"
_MOST_CHARACTERS = 200


def blocks_of(path: Path, origin: Path) -> tuple[list[int | None], int | None]:
    """Return the process of each launch, and where the block begins that the file ends in.

    None: not recorded, and not cut. Raises InputError for other bytes.
    """
    pids: list[int | None] = []
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(_HEADER_AT)
        at = _HEADER_AT + _LENGTH_BYTES + int.from_bytes(file.read(_LENGTH_BYTES), "little")
        while at < size:
            file.seek(at)
            length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
            header = file.read(min(length, _LONGEST_HEADER))
            if len(header) < length <= _LONGEST_HEADER:
                return pids, at
            try:
                numbers = wire.numbers(header)
                own = [wire.numbers(each).get(_PID) for each in wire.messages(header, _PROCESS)]
            except wire.WireError:
                numbers = {_PAYLOAD: -1}
            payload, results = numbers.get(_PAYLOAD, 0), numbers.get(_RESULTS, 0)
            if not 0 <= results <= payload or length > _LONGEST_HEADER:
                what = f"the Nsight Compute report is damaged: no block begins at byte {at:,}"
                raise InputError(what, where=str(origin), hint=_HINT)
            if at + _LENGTH_BYTES + length + payload > size:
                return pids, at
            pids += [next(iter(own), 0) or None] * results
            at += _LENGTH_BYTES + length + payload
    return pids, None if at == size else at


def launches_of(
    path: Path, origin: Path, pids: list[int | None], *, is_cut: bool
) -> Iterator[Launch | None]:
    """Yield the launches of a report, in order, of these processes; None for one that cannot be read.

    `is_cut`: only these are whole. Raises InputError without the module, and for what it does not open.
    """
    if importlib.util.find_spec("ncu_report") is None:
        raise InputError(
            "an Nsight Compute report: NVIDIA's ncu-report is needed to read it",
            where=str(origin),
            hint="pip install 'nsysconv[ncu]', or print it: ncu --import FILE --csv",
        )
    from nsysconv.processes import ProcessDiedError, Processes

    with Processes[int | None, Any](1, Reader, str(path)) as process:
        try:
            (count,) = process.map([None])
        except ProcessDiedError:
            count = "it crashed"
        if isinstance(count, str):
            what = f"NVIDIA's ncu_report does not open it: {count[:_MOST_CHARACTERS]}"
            raise InputError(what, where=str(origin), hint=_HINT)
        whole = min(count, len(pids)) if is_cut else count
        for number, launch in enumerate(process.map(range(whole), lost=lambda _: None)):
            if launch is not None and len(pids) == whole:
                launch.pid = pids[number]
            yield launch
    yield from [None] * (len(pids) - count)


class Reader:
    """Reads the launches of a report by their number, in the process that opens it.

    None asks how many there are. What the module does not open gives a text that says why.
    """

    def __init__(self, path: str) -> None:
        """Take the report's path; the first question opens it."""
        self._path = path
        self._report: Any = None
        self._places: list[tuple[Any, int]] = []
        # The module's library prints complaints about damage.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)

    def __call__(self, number: int | None) -> Launch | int | str | None:
        """Return a launch (None: unreadable), the number of them, or why there are none."""
        try:
            if self._report is None:
                import ncu_report

                self._report = ncu_report.load_report(self._path)
                ranges = map(self._report.range_by_idx, range(self._report.num_ranges()))
                self._places = [(each, i) for each in ranges for i in range(each.num_actions())]
            if number is None:
                return len(self._places)
            range_, place = self._places[number]
            return _launch(range_.action_by_idx(place))
        except Exception as error:  # what it raises for damage is not documented
            return None if number is not None else str(error) or type(error).__name__


def _launch(action: Any) -> Launch | None:
    bases = (action.NameBase_DEMANGLED, action.NameBase_FUNCTION, action.NameBase_MANGLED)
    name, short, symbol = (_text(action.name(base) or "") for base in bases)
    if not name:
        return None
    is_kernel = action.workload_type() == action.WorkloadType_KERNEL
    launch = Launch(name, short or None, symbol or None, is_kernel=is_kernel)
    for metric_name in action.metric_names():
        try:
            metric = action.metric_by_name(metric_name)
            value, unit = metric.value() if metric.has_value() else None, metric.unit()
        except (AttributeError, TypeError, ValueError):  # names and units that are no text
            launch.counts["unreadable"] += 1
            continue
        if metric_name == GPU_NAME and isinstance(value, str):
            launch.gpu = _text(value)
        if isinstance(value, int | float) and isfinite(value):
            kind, spelled, factor = scale(unit)
            launch.metrics[metric_name] = Metric(kind, spelled, *[value * factor] * 3)
        else:
            launch.counts["text"] += 1
    return launch


def _text(text: str) -> str:
    # What is not UTF-8 comes with lone surrogates.
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
