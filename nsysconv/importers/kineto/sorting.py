"""Events by what they are, whatever release wrote them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from nsysconv.importers.kineto.cells import numbers
from nsysconv.importers.kineto.events import Event
from nsysconv.importers.kineto.piece import ACCELERATOR, MISSING, Piece
from nsysconv.importers.kineto.words import (
    ANNOTATION,
    CATEGORIES,
    OLD_COPIES,
    OLD_SET,
    PASSED_OVER,
    accelerator,
)

_CELLS = (str, int, float, type(None))
_THREAD_NAME = re.compile(r"thread -?\d+ \((.*)\)$")


def by_kind(events: Sequence[Event], piece: Piece, place: int) -> dict[str, list[Event]]:
    """The events by what they are (the values of CATEGORIES); names of threads go into the piece."""
    categories: dict[Any, list[Event]] = defaultdict(list)
    try:
        for event in events:
            categories[event.cat].append(event)
    except TypeError:  # a category that is a list or an object
        categories.clear()
        for event in events:
            categories[str(event.cat)].append(event)
    kinds: dict[str, list[Event]] = defaultdict(list)
    for category, rows in categories.items():
        word = str(category).lower()
        if category is None:
            _metadata(rows, piece)
            # Without a category in the first releases.
            kinds["instant"] += [event for event in rows if event.name == "[memory]"]
            intervals = [event for event in rows if event.ph == "X"]
            _unknown(intervals, "category unknown", kinds, piece, place)
        elif word == "operator":
            # In the first releases annotations were operators.
            for event in rows:
                told = ANNOTATION.match(str(event.name))
                kinds["annotation" if told else "operator"].append(event)
        elif word == "kernel":
            _kernels_and_old_copies(rows, kinds)
        elif word in CATEGORIES:
            of_accelerator = accelerator(word)
            if of_accelerator:
                calls = [event for event in rows if not _is_on_device(event)]
                piece.note(f"{ACCELERATOR}{of_accelerator}", len(rows) - len(calls), place)
                rows = calls
            kinds[CATEGORIES[word]] += rows
        elif word not in PASSED_OVER:
            of_accelerator = accelerator(word)
            what = f"{ACCELERATOR}{of_accelerator}" if of_accelerator else "category unknown"
            _unknown(rows, what, kinds, piece, place)
    return kinds


def _is_on_device(event: Event) -> bool:
    """Whether a row stands in a lane of its device, which has the device's number for a process."""
    return event.args.device is not None and event.args.device == event.pid


def _kernels_and_old_copies(rows: list[Event], kinds: dict[str, list[Event]]) -> None:
    names = distinct([event.name for event in rows])
    if names.isdisjoint(OLD_COPIES) and OLD_SET not in names:
        kinds["kernel"] += rows
        return
    for event in rows:
        name = hashable(event.name)
        kind = "memcpy" if name in OLD_COPIES else "memset" if name == OLD_SET else "kernel"
        kinds[kind].append(event)


def _unknown(
    rows: list[Event], what: str, kinds: dict[str, list[Event]], piece: Piece, place: int
) -> None:
    """Rows of a category that is not known: told by what they carry; others are noted as `what`."""
    assumed = 0
    for event in rows:
        args = event.args
        if event.ph == "X" and isinstance(args.stream, int) and args.stream >= 0:
            if args.device is not None:
                kinds["kernel"].append(event)
                assumed += 1
        elif event.ph == "X" and (args.cbid is not None or args.cid is not None):
            kinds["runtime"].append(event)
            assumed += 1
    piece.note("category assumed", assumed, place)
    piece.note(what, len(rows) - assumed, place)


def _metadata(rows: list[Event], piece: Piece) -> None:
    for event in rows:
        if event.ph != "M" or not isinstance(event.args.name, str):
            continue
        pid, tid, rank = numbers([event.pid, event.tid, event.args.rank])
        if event.args.pid_raw is not None and rank >= 0:
            piece.ranks[pid] = rank
        if event.name == "thread_name" and tid != MISSING:
            told = _THREAD_NAME.match(event.args.name)
            piece.threads[pid, tid] = told.group(1) if told else event.args.name
        elif event.name == "process_name":
            piece.process_names[pid] = event.args.name


def hashable(value: Any) -> Any:
    """The value as a key: itself where it is one cell, else its text."""
    return value if isinstance(value, _CELLS) else str(value)


def distinct(values: Sequence[Any]) -> set[Any]:
    """The distinct values as keys."""
    try:
        return set(values)
    except TypeError:  # a list or an object among them
        return set(map(hashable, values))
