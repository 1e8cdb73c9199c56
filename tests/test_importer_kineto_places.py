"""Each note on a trace names the byte at which its own first event begins."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import REAL, real

import nsysconv
from nsysconv.importers.kineto.arrays import tables_of
from nsysconv.importers.kineto.decode import decode_text


def event(name: str, category: str = "kernel", **changes: Any) -> dict[str, Any]:
    args = {"correlation": 1, "device": 0, "stream": 7}
    return {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": 7, "ts": 10.5, "dur": 5.25,
            "args": args} | changes  # fmt: skip


FINE = [event("fine", ts=10.5 + at) for at in range(30)]
ODD = {
    "no duration": event("a", dur=None),
    "negative duration": event("a", dur=-7.5),
    "no time stamp": event("a", ts="x"),
    "impossible time": event("a", ts=1e13),
    "category unknown": event("a", "odd", args={}),
    "category assumed": event("a", "odd"),
}


def places(events: list[Any], spelled: str | None = None, **options: Any) -> dict[str, int]:
    """What is noted of these events, and the number of the event at the place that is said."""
    texts = [json.dumps(each) for each in events]
    if spelled:
        texts = [text.replace('"ODD"', spelled) for text in texts]
    # As a chunk that begins somewhere in a trace, indented.
    text = "\n  " + ",\n  ".join(texts) + "\n"
    starts = [1000 + text.index(each) for each in texts]
    assert len({*texts}) == len(texts), "events are told apart by their texts"
    chunk = decode_text(text.encode(), 1000, python_functions=False, **options)
    tables_of(chunk, 1)
    return {key: starts.index(place) for key, place in chunk.first_offsets.items()}


@pytest.mark.parametrize("key", ODD)
@pytest.mark.parametrize("at", [0, 1, 13, 30])
@pytest.mark.parametrize("size", [200, 1000, 1 << 19])
def test_the_place_of_the_first(key: str, at: int, size: int) -> None:
    """In batches of one or two events, of some, and of all."""
    odd, later = ODD[key], ODD[key] | {"name": "later"}
    events = [*FINE[:at], odd, *FINE[at:], later]
    assert places(events, batch_bytes=size) == {key: at}


def test_each_note_has_its_own() -> None:
    events = [*FINE]
    for number, odd in enumerate(ODD.values()):
        events.insert(4 * number + 2, odd)
    assert places(events) == {key: 4 * number + 2 for number, key in enumerate(ODD)}


def test_whole_microseconds_have_their_places() -> None:
    fine = [event("fine", ts=10 + at, dur=5) for at in range(9)]
    events = [*fine[:5], event("a", dur=-7, ts=3), *fine[5:], event("b", dur="x", ts=4)]
    assert places(events) == {"negative duration": 5, "no duration": 10}


@pytest.mark.parametrize(("spelled", "key"), [
    ("-nan", "no number"), ('"a\\q"', "lone backslash"), ('"a"b"', "unescaped quote"),
])  # fmt: skip
def test_what_is_no_json_has_its_place(spelled: str, key: str) -> None:
    events = [*FINE[:6], event("ODD"), *FINE[6:], event("a", dur=-7.5)]
    assert places(events, spelled) == {key: 6, "negative duration": 31}


def test_objects_that_look_like_events_leave_the_place_of_the_batch() -> None:
    events = [event("a", args={"list": [{"id": 1}, {"id": 2}]}), *FINE[:3], event("a", dur=-7.5)]
    chunk = decode_text(",".join(map(json.dumps, events)).encode(), 70, python_functions=False)
    tables_of(chunk, 1)
    assert chunk.first_offsets == {"negative duration": 70}


@real
def test_a_real_trace_with_two_notes() -> None:
    path = REAL / "bug_reports/b55.json"
    text = path.read_bytes()
    with nsysconv.open(path) as profile:
        notes = {note.slug: note.where for note in profile.report("overview").notes}
    for slug, name in (("wrong-type", b'"nodur"'), ("negative-duration", b'"neg"')):
        at = int(notes[slug].removeprefix("byte ").replace(",", ""))
        following = text[at : text.index(b"\n  }", at)]
        assert following.startswith(b"{") and name in following
