"""Damage to JSON traces: to values, events, their order, their spelling, their compression."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

import mutate_bytes

_DEEP = 3000
Trace = dict[str, Any] | list[Any]


class _Literal(float):
    """A number that is spelled as JSON does not allow, or as no other number."""

    def __new__(cls, text: str) -> _Literal:
        found = super().__new__(cls, 0.0)
        found.text = text  # type: ignore[attr-defined]
        return found

    def __repr__(self) -> str:
        return str(self.text)  # type: ignore[attr-defined]


VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 7, 0.5, -0.0, 1 << 31, 1 << 32, 1 << 53, (1 << 63) - 1, 1 << 63,
    -(1 << 63), 1 << 64, 10**40, 1e300, 1e-300, "", "7", "-1", "abc", "NaN", "1e999", "stream 7",
    "9" * 400, [], {}, [1, 2, 3], {"a": 1}, [[[]]], "a\0b", "\x1b[31m", "\ud800", "</script>",
    "=1+1", "x" * 5000,
)  # fmt: skip
SPELLED = (
    "NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1e-999", "-0", "1E5", "0.1e1", "nan", "-nan(ind)",
    "inf", "N/A", "01", "+1", ".5", "5.", "1e999999999", "9" * 5000, "0x10", "undefined",
)  # fmt: skip
_KEYS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "args")
_CATEGORIES = (
    "kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver", "cpu_op", "user_annotation",
    "python_function", "cuda_sync", "overhead", "cpu_instant_event", "ac2g", "gpu_user_annotation",
    "hip_runtime", "Kernel", "x", "", "Trace", "fwdbwd", "privateuse1_runtime",
)  # fmt: skip


def _events(trace: Trace) -> list[Any]:
    found = trace if isinstance(trace, list) else trace.get("traceEvents")
    return found if isinstance(found, list) else []


def _event(random_: random.Random, trace: Trace) -> dict[str, Any]:
    events = [event for event in _events(trace) if isinstance(event, dict)]
    rows = [event for event in events if event.get("ph") == "X"]
    return random_.choice(rows if rows and random_.random() < 0.9 else events or [{}])


def _place(random_: random.Random, trace: Trace) -> dict[str, Any]:
    kind = random_.random()
    if kind < 0.15 and isinstance(trace, dict):
        return trace
    event = _event(random_, trace)
    args = event.get("args")
    return args if kind < 0.5 and isinstance(args, dict) and args else event


def _some(random_: random.Random, trace: Trace) -> list[dict[str, Any]]:
    if random_.random() < 0.6:
        return [_event(random_, trace)]
    step = random_.choice((1, 2, 7))
    return [event for event in _events(trace)[::step] if isinstance(event, dict)]


def drop_key(random_: random.Random, trace: Trace) -> str:
    """Remove a key; return what was done."""
    place = _place(random_, trace)
    key = random_.choice(list(place) or ["x"])
    for each in [place, *_some(random_, trace)]:
        each.pop(key, None)
    return f"without {key}"


def rename_key(random_: random.Random, trace: Trace) -> str:
    """Rename a key, at times to one that is there."""
    place = _place(random_, trace)
    key = random_.choice(list(place) or ["x"])
    new = random_.choice((*_KEYS, key.upper(), key + " ", "traceEvents", "", "x" * 2000, "a\0b"))
    if key in place:
        place[new] = place.pop(key)
    return f"{key} is called {new[:20]!r}"


def value(random_: random.Random, trace: Trace) -> str:
    """Replace a value of one event or of many."""
    place = _place(random_, trace)
    key = random_.choice(list(place) or ["x"])
    if key == "traceEvents" and random_.random() < 0.8:
        key = random_.choice(_KEYS)
    new = _Literal(random_.choice(SPELLED)) if random_.random() < 0.25 else random_.choice(VALUES)
    place[key] = new
    if random_.random() < 0.3:
        for event in _some(random_, trace):
            if key in event:
                event[key] = new
    return f"{key} is {str(new)[:30]!r}"


def deep(random_: random.Random, trace: Trace) -> str:
    """Nest a value very deep."""
    place = _place(random_, trace)
    key = random_.choice([*list(place), "x"])
    if key == "traceEvents":
        key = "x"
    depth = random_.choice((50, 900, _DEEP))
    nested: Any = 1
    for _ in range(depth):
        nested = [nested] if depth % 2 else {"a": nested}
    place[key] = _Literal(_spelled_deep(depth))
    return f"{key} nested {depth} deep"


def _spelled_deep(depth: int) -> str:
    return "[" * depth + "1" + "]" * depth if depth % 100 else '{"a":' * depth + "1" + "}" * depth


def times(random_: random.Random, trace: Trace) -> str:
    """Shift, scale or round times, or make them texts or negative."""
    kind = random_.choice(
        ("shifted", "scaled", "whole", "text", "negative", "alike", "later", "tiny")
    )
    key = random_.choice(("ts", "ts", "dur"))
    for event in _some(random_, trace):
        old = event.get(key)
        if isinstance(old, int | float) and not isinstance(old, bool):
            event[key] = {
                "shifted": old + 1.7e15, "scaled": old * 1e6, "whole": int(old), "text": str(old),
                "negative": -old, "alike": 5, "later": old + 9.1e12, "tiny": _Literal(f"{old}e-9"),
            }[kind]  # fmt: skip
    return f"{key} {kind}"


def remove_events(random_: random.Random, trace: Trace) -> str:
    """Remove events."""
    events = _events(trace)
    if not events:
        return "no events"
    low = random_.randrange(len(events))
    count = random_.choice((1, 3, 50))
    del events[low : low + count]
    return f"events {low}+{count} removed"


def repeat_events(random_: random.Random, trace: Trace) -> str:
    """Repeat events."""
    events = _events(trace)
    if not events:
        return "no events"
    low, to = random_.randrange(len(events)), random_.randrange(len(events))
    events[to:to] = json.loads(json.dumps(events[low : low + 5], default=str))
    return f"events {low}+5 again at {to}"


def reorder(random_: random.Random, trace: Trace) -> str:
    """Put events into another order."""
    events = _events(trace)
    random_.shuffle(events)
    return "events in another order"


def phases(random_: random.Random, trace: Trace) -> str:
    """Change the phases of events: beginnings and ends in place of whole ones."""
    events = _events(trace)
    kind = random_.choice(("pairs", "B", "E", "i", "M", "s", "C", "X", "", "XX"))
    for place in range(len(events) - 1, -1, -1):
        event = events[place]
        if not isinstance(event, dict) or random_.random() < 0.7:
            continue
        if kind != "pairs":
            event["ph"] = kind
        elif event.get("ph") == "X" and isinstance(event.get("ts"), int | float):
            dur = event.pop("dur", 0)
            event["ph"] = "B"
            end = event["ts"] + (dur if isinstance(dur, int | float) else 0)
            events.insert(place + 1, {**event, "ph": "E", "ts": end})
    return f"phases: {kind}"


def foreign(random_: random.Random, trace: Trace) -> str:
    """Put something that is no event among the events."""
    events = _events(trace)
    new: object = random_.choice(
        (None, 5, "text", [], [{}], {}, {"ph": "X"}, {"args": {}}, True, {"cat": "kernel"})
    )
    events.insert(random_.randrange(len(events) + 1), new)
    return f"{new!r} among the events"


def category(random_: random.Random, trace: Trace) -> str:
    """Change the category of events."""
    new = random_.choice(_CATEGORIES)
    for event in _some(random_, trace):
        event["cat"] = new
    return f"category {new}"


def owners(random_: random.Random, trace: Trace) -> str:
    """Change processes, threads, devices, streams and correlations of events."""
    key = random_.choice(
        ("pid", "tid", "device", "stream", "context", "correlation", "External id")
    )
    new = random_.choice((0, 1, -1, 1 << 31, 1 << 40, "text", None, "5", "random"))
    for event in _some(random_, trace):
        args = event.get("args")
        where = args if key not in ("pid", "tid") and isinstance(args, dict) else event
        where[key] = random_.randrange(1 << 20) if new == "random" else new
    return f"{key} {new}"


def whole(random_: random.Random, trace: Trace) -> str:
    """Change the keys around the events: their order, and values of another kind."""
    if not isinstance(trace, dict):
        return "a list"
    kind = random_.choice(("first", "last", "shuffled", "events", "devices", "distributed"))
    if kind in ("first", "last", "shuffled"):
        keys = list(trace)
        random_.shuffle(keys)
        if kind != "shuffled" and "traceEvents" in keys:
            keys.remove("traceEvents")
            keys.insert(0 if kind == "first" else len(keys), "traceEvents")
        for key in keys:
            trace[key] = trace.pop(key)
    elif kind == "events":
        trace["traceEvents"] = random_.choice((None, {}, 5, "text", [], [[]], _events(trace)))
    elif kind == "devices":
        trace["deviceProperties"] = random_.choice(
            (
                None,
                {},
                5,
                [None],
                [[]],
                [{"id": "a"}],
                [{"id": 0, "name": 7, "numSms": "x"}],
                [
                    {
                        "id": 0,
                        "name": "\x1b[31m",
                        "totalGlobalMem": 1e30,
                        "numSms": -1,
                        "maxThreadsPerBlock": None,
                    }
                ],
            )
        )
    else:
        trace["distributedInfo"] = random_.choice(
            (None, [], 5, {"rank": None}, {"rank": "0"}, {"rank": -1, "world_size": 1e30},
             {"rank": 1 << 63}, {"rank": [0], "pg_config": 5}))  # fmt: skip
    return f"around the events: {kind}"


STEPS: tuple[Callable[[random.Random, Trace], str], ...] = (
    drop_key, drop_key, rename_key, value, value, value, value, deep, times, times, remove_events,
    repeat_events, reorder, phases, phases, foreign, category, category, owners, owners, whole, whole,
)  # fmt: skip


def _spelled(random_: random.Random, trace: Trace) -> str:
    kind = random_.randrange(5)
    if kind == 0:
        return json.dumps(trace, separators=(",", ":"))
    if kind == 1:
        return json.dumps(trace, indent=random_.choice((0, 1, 2, 4)))
    if kind == 2:
        return json.dumps(trace, ensure_ascii=False)
    if kind == 3:
        return json.dumps(trace, sort_keys=True) if _sortable(trace) else json.dumps(trace)
    return json.dumps(trace).replace("}, {", "},\n{")


def _sortable(trace: Trace) -> bool:
    return isinstance(trace, dict) and all(isinstance(key, str) for key in trace)


def doubled_key(random_: random.Random, text: bytes) -> tuple[bytes, str]:
    """Write a key of an object twice."""
    found = list(re.finditer(rb'"(\w+)"\s*:\s*', text))
    if not found:
        return text, "no key"
    match = random_.choice(found)
    new = random_.choice((b'"x", ', b"7, ", b"null, ", b"{}, ", b"[], "))
    return text[: match.end()] + new + match.group() + text[
        match.end() :
    ], f"{match.group()!r} twice"


def no_text(random_: random.Random, text: bytes) -> tuple[bytes, str]:
    """Put bytes that are no UTF-8 into texts of one key."""
    key = random_.choice(list({*re.findall(rb'"([\w ]+)"\s*:\s*(?:\[\s*)?"', text)}) or [b""])
    bad = random_.choice((b"\xed", b"\xed\xa0\x80", b"\xff", b"\xc3", b"\x80"))
    begins = re.compile(rb'("%b"\s*:\s*(?:\[\s*)?")' % re.escape(key))
    count = random_.choice((1, 1, 0))
    return begins.sub(lambda match: match[1] + bad, text, count), f"{bad!r} in {key!r}"


def documents(random_: random.Random, text: bytes, other: bytes) -> tuple[bytes, str]:
    """Write several documents into one file."""
    glue = random_.choice((b"", b"\n", b",", b"\0"))
    kind = random_.choice(("itself", "another", "in a list", "in an object", "rubbish"))
    found = {
        "itself": text + glue + text, "another": text + glue + other,
        "in a list": b"[" + text + b"," + other + b"]", "in an object": b'{"trace": ' + text + b"}",
        "rubbish": text + b"\n<html></html>",
    }[kind]  # fmt: skip
    return found, f"documents: {kind} with {glue!r}"


def at_border(random_: random.Random, text: bytes) -> tuple[bytes, str]:
    """Cut, double or splice where an event ends."""
    ends = [match.start() + 1 for match in re.finditer(rb"\}\s*,", text)]
    if len(ends) < 3:
        return mutate_bytes.cut(random_, text)
    one, two = sorted(random_.sample(ends, 2))
    kind = random_.randrange(4)
    if kind == 0:
        return text[:one], f"cut behind the event that ends at {one}"
    if kind == 1:
        return text[:one] + text[two:], f"events from {one} to {two} removed"
    if kind == 2:
        return text[:one] + b"]" + text[one:], f"the array ends at {one}"
    return text[:one] + text[one + 1 :], f"no comma at {one}"


def mutate(
    content: bytes, steps: list[random.Random], others: list[bytes], *, packed: bool
) -> tuple[bytes, list[str]]:
    """Return a trace with a step of damage for each of these generators, and what was done."""
    done: list[str] = []
    trace: Trace | None = None
    try:
        found = json.loads(content)
        trace = found if isinstance(found, dict | list) else None
    except (ValueError, RecursionError):
        pass
    by_structure = trace is not None and steps[0].random() < 0.75
    rest = list(steps)
    if by_structure and trace is not None:
        count = random.Random(steps[0].random()).randint(1, len(steps))
        done += [random_.choice(STEPS)(random_, trace) for random_ in steps[:count]]
        rest = steps[count:]
        content = _spelled(steps[0], trace).encode("utf-8", "surrogatepass")
    for random_ in rest:
        kind = random_.random()
        if kind < 0.35:
            content, what = random_.choice(mutate_bytes.GENERAL)(random_, content)
        elif kind < 0.5:
            content, what = mutate_bytes.splice(random_, content, random_.choice(others))
        elif kind < 0.65:
            content, what = doubled_key(random_, content)
        elif kind < 0.75:
            content, what = documents(random_, content, random_.choice(others))
        elif kind < 0.88:
            content, what = at_border(random_, content)
        elif kind < 0.95:
            content, what = no_text(random_, content)
        else:
            encoding = random_.choice(("utf-16", "utf-8-sig", "utf-32", "latin-1"))
            content = content.decode("utf-8", "replace").encode(encoding, "replace")
            what = f"in {encoding}"
        done.append(what)
    last = random.Random(steps[-1].random())
    if packed or last.random() < 0.1:
        if last.random() < 0.03:
            content, what = mutate_bytes.inflating(last, content, last.choice((1, 8, 64)) << 20)
        else:
            content, what = mutate_bytes.packed(last, content)
        done.append(what)
    return content, done
