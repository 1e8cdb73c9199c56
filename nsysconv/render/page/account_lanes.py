"""The lane of each GPU that says where its time went: the data of its pieces, gaps and tiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from nsysconv.codes import TIME_CLASSES
from nsysconv.render.page.markup import shortened

REPORTS = ("timeline_account", "account_tiles")
"""The reports that these lanes are drawn from, by the names that they have without options."""

CLASSES = tuple(name for name in TIME_CLASSES if name not in ("before", "after"))
_NUMBER = {name: number for number, name in enumerate(CLASSES)}

Columns = Mapping[str, Sequence[Any]]


def short_words(name: str) -> str:
    """Return a class of time in two or three words, of idle time only the cause: `CPU-bound`."""
    words = TIME_CLASSES[name].partition(":")[0]
    return words.removeprefix("idle").lstrip(", ") or words


def account_data(pieces: Columns, tiles: Columns, texts: Mapping[str, int]) -> dict[str, Any]:
    """Return the lanes by GPU as numbers; `texts` gives each text its number.

    Starts are written as what lies between a piece and the one before, tiles as numbers of their width,
    and ids without the kind where it is the same for all.
    """
    devices = dict.fromkeys([*pieces.get("device_id", ()), *tiles.get("device_id", ())])
    by_device = {device: _pieces(rows, texts) for device, rows in _by_device(pieces)}
    levels = dict.fromkeys(devices, ()) | {
        device: tuple(_levels(rows)) for device, rows in _by_device(tiles, in_order=False)
    }
    empty = _pieces([], texts)
    return {
        "classes": CLASSES,
        "words": [short_words(name) for name in CLASSES],
        "lanes": [
            {
                "device": device,
                "name": "GPU" if device is None else f"GPU {device}",
                **by_device.get(device, empty),
                "levels": levels[device],
            }
            for device in devices
        ],
    }


def idle_classes(pieces: Columns, tiles: Columns) -> list[str]:
    """Return the classes of idle time that occur, in their order."""
    there = {*pieces.get("time_class", ()), *tiles.get("time_class", ())}
    return [name for name in CLASSES if name in there and name.startswith("idle_")]


def _by_device(
    columns: Columns, *, in_order: bool = True
) -> Iterator[tuple[int | None, list[dict[str, Any]]]]:
    names = tuple(columns)
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if not in_order:
        rows.sort(key=lambda row: (row["device_id"] is not None, row["device_id"] or 0))
    for device, of_device in groupby(rows, lambda row: row["device_id"]):
        yield device, list(of_device)


def _pieces(rows: Sequence[Mapping[str, Any]], texts: Mapping[str, int]) -> dict[str, Any]:
    # A gap is said once, with its number; its pieces refer to its place among the gaps.
    gaps: dict[tuple[str | None, int], int] = {}
    said: dict[str, list[Any]] = {
        name: [] for name in ("id", "during", "during_ns", "op", "kind", "event", "call")
    }
    of_piece, before, starts = [], 0, []
    for row in rows:
        key = row["gap"], row["gap_start_ns"]
        if row["gap_start_ns"] is not None and key not in gaps:
            gaps[key] = len(gaps)
            kind, number = (row["event"] or ":0").split(":")
            values = (
                _number(row["gap"]),
                -1 if row["during"] is None else texts[row["during"]],
                row["during_ns"] or 0,
                -1 if row["next_op"] is None else texts[shortened(row["next_op"])],
                texts[kind],
                int(number),
                _number(row["call"]),
            )
            for column, value in zip(said.values(), values, strict=True):
                column.append(value)
        of_piece.append(gaps.get(key, -1))
        starts.append(row["start_ns"] - before)
        before = row["start_ns"] + row["dur_ns"]
    return {
        "start": starts,
        "dur": [row["dur_ns"] for row in rows],
        "class": [_NUMBER[row["time_class"]] for row in rows],
        "gap": of_piece,
        "gaps": said,
    }


def _number(event: str | None) -> int:
    # The number in an id; 0 for none.
    return 0 if event is None else int(event.partition(":")[2])


def _levels(rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for width, of_level in groupby(rows, lambda row: row["dur_ns"]):
        found = list(of_level)
        begin = found[0]["start_ns"]
        tile = [(row["start_ns"] - begin) // width for row in found]
        yield {
            "width": width,
            "begin": begin,
            "tile": [at - last for at, last in zip(tile, (0, *tile), strict=False)],
            "class": [_NUMBER[row["time_class"]] for row in found],
            "time": [row["class_ns"] for row in found],
        }
