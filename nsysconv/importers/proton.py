"""Profiles of Triton's Proton (`*.hatchet`): a tree of scopes, whose leaves are totals of kernels.

What the metrics mean, and where the traps are: docs/formats/proton.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nsysconv.facts import Fact
from nsysconv.importers import rocm
from nsysconv.importers.contract import No, Options, Yes

if TYPE_CHECKING:
    from nsysconv.importers.probe import Probe
    from nsysconv.store.recording import Batches, Recording

NAME = "proton"
VERSION = 1
TITLE = "Triton Proton profile"
GUARANTEED = frozenset({Fact.KERNEL_TOTALS})
POSSIBLE = frozenset({Fact.DEVICES})
JOINS = False
INCLUDABLE: Mapping[str, str] = {}
_TIMELINE = (
    "Proton adds up kernels. For each one on a timeline, use torch.profiler or `nsys profile …`."
)
ADVICE: Mapping[Fact, str] = {
    **dict.fromkeys((Fact.KERNELS, Fact.MEMCPYS, Fact.API_CALLS, Fact.RANGES), _TIMELINE),
    Fact.DEVICES: "Record with Triton 3.0 or later.",
}

_KEYS = (b'"children"', b'"frame"', b'"metrics"')
_TIME, _COUNT = "time (ns)", "count"
_PYTHON_FRAME = re.compile(r"^.*[/\\](?=[^/\\]+\.py\b)")
_MOST = 1 << 53
_TOKEN = re.compile(r'[\[\]{},:]|"(?:[^"\\]|\\.)*"|[^\s\[\]{},:"]+')


def sniff(probe: Probe) -> Yes | No:
    """Accept a JSON list of trees whose nodes have a frame, metrics and children."""
    text = probe.head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"[") and b'"ph"' not in text and all(key in text for key in _KEYS):
        return Yes(alone=True)
    return No("it is no JSON list of trees with frames and metrics")


def read(probes: Sequence[Probe], options: Options) -> Generator[Recording, None, None]:
    """Yield the one recording of a file."""
    from nsysconv.store.recording import Recording

    yield Recording(_batches(probes[0]), possible=GUARANTEED | POSSIBLE)


def _batches(probe: Probe) -> Batches:
    from nsysconv import codes, schema
    from nsysconv.errors import InputError
    from nsysconv.store.recording import ProfileAttributes, Summary, rows_of

    *trees, last = _parsed(probe)
    # The list ends with the properties of devices.
    descriptions = {} if "frame" in last else last
    totals = _Totals(descriptions)
    for tree in [*trees, last] if "frame" in last else trees:
        totals.add(tree)
    if totals.has_untimed and not totals.sums:
        raise InputError(
            "the Proton profile holds no times of kernels: cycles within them, or samples",
            where=str(probe.origin),
            hint="Record without a backend or mode: proton.start(NAME).",
        )
    kind = codes.AGGREGATE_KINDS.index("kernel")
    rows: list[dict[str, Any]] = []
    for (scope, kernel, device), (count, time_ns) in totals.sums.items():
        rows.append({
            "id": len(rows) + 1, "kind": kind, "device_id": device, "count": count, "sum_ns": time_ns,
            "name_id": totals.names[kernel],
            "range_name_id": None if scope is None else totals.names[scope],
        })  # fmt: skip
    yield rows_of(schema.aggregate, rows)
    yield rows_of(schema.device, list(totals.devices.values()))
    yield rows_of(schema.name, [{"id": i, "text": text} for text, i in totals.names.items()])
    facts = GUARANTEED | (
        {Fact.DEVICES} if any("sm_count" in d for d in totals.devices.values()) else set()
    )
    return Summary(ProfileAttributes(), facts, ADVICE, (*probe.notes, *totals.notes()))


def _parsed(probe: Probe) -> list[dict[str, Any]]:
    from nsysconv.errors import InputError

    text = probe.readable.read_text(encoding="utf-8-sig", errors="replace")
    try:
        try:
            found = json.loads(text)
        except RecursionError:
            found = _deeply_nested(text)
    except ValueError:
        raise InputError(
            "the Proton profile is cut off or damaged: not valid JSON",
            where=str(probe.origin),
            hint="Call proton.finalize() before the program ends, or copy the file again.",
        ) from None
    trees = [tree for tree in found if isinstance(tree, dict)] if isinstance(found, list) else []
    if not any("frame" in tree for tree in trees):
        raise InputError("the Proton profile holds no tree of scopes", where=str(probe.origin))
    return trees


def _deeply_nested(text: str) -> Any:
    # JSON that is nested more deeply than Python's own decoder goes, which has read it up to there.
    outermost: list[Any] = []
    open_ones: list[tuple[Any, list[str]]] = [(outermost, [])]
    for token in _TOKEN.findall(text):
        inside, key = open_ones[-1]
        if token in ("]", "}"):
            open_ones.pop()
            if not open_ones or isinstance(inside, list) != (token == "]"):
                raise ValueError
        elif token not in (",", ":"):
            value = {"[": [], "{": {}}[token] if token in "[{" else json.loads(token)
            if isinstance(inside, list):
                inside.append(value)
            elif key:
                inside[key.pop()] = value
            else:
                key.append(value)
                continue
            if token in "[{":
                open_ones.append((value, []))
    if len(open_ones) != 1 or not outermost:
        raise ValueError
    return outermost[0]


class _Totals:
    # Sums by scope (None: whatever the scope), kernel and device.
    def __init__(self, descriptions: Mapping[str, Any]) -> None:
        self.sums: dict[tuple[str | None, str, int | None], tuple[int, int | None]] = {}
        self.names: dict[str, int] = {}
        self.devices: dict[int, dict[str, Any]] = {}
        self.has_untimed = False
        self._left_out: dict[str, list[str]] = {"inner": [], "unreadable": []}
        for vendor, numbered in descriptions.items():
            for number, properties in numbered.items() if isinstance(numbered, dict) else ():
                device = _integer(number)
                if device is not None and isinstance(properties, dict):
                    self.devices.setdefault(device, _device_row(device, vendor, properties))

    def add(self, tree: dict[str, Any]) -> None:
        # A kernel is a node with a time without any below: below it may be samples of its instructions.
        # Trees are deeper than Python's stack: nodes are listed, each behind the one that it is in.
        listed: list[tuple[Any, tuple[str, ...], int]] = [(tree, (), 0)]
        has_time_below: set[int] = set()
        for place, (node, scopes, _) in enumerate(listed):
            name, _, children = _parts(node)
            inner = scopes if name in (None, "ROOT") else (*scopes, name)
            listed += [(child, inner, place) for child in children]
        for place, (node, _, above) in reversed([*enumerate(listed)]):
            if _TIME in _parts(node)[1] or place in has_time_below:
                has_time_below.add(above)
        for place, (node, scopes, _) in enumerate(listed):
            name, metrics, _ = _parts(node)
            if name is None:
                self._left_out["unreadable"].append("/".join(scopes))
            elif place in has_time_below:
                self._left_out["inner"] += [name] if metrics.get(_TIME) else []
            elif _TIME not in metrics:
                self.has_untimed |= bool(metrics)
            elif not self._add_kernel(name, metrics, scopes):
                self._left_out["unreadable"].append(name)

    def _add_kernel(self, kernel: str, metrics: Mapping[str, Any], scopes: Sequence[str]) -> bool:
        count, time_ns = _integer(metrics.get(_COUNT)), _integer(metrics[_TIME])
        if count is None or time_ns is None:
            return False
        device = _integer(metrics.get("device_id"))
        if device is not None:
            self.devices.setdefault(device, {"device_id": device, "ordinal": device})
        for scope in (None, *dict.fromkeys(scopes)) if count else ():
            for name in (kernel, scope):
                if name is not None:
                    self.names.setdefault(name, len(self.names) + 1)
            of, sum_ns = self.sums.get((scope, kernel, device), (0, 0))
            self.sums[scope, kernel, device] = of + count, (sum_ns or 0) + time_ns
        return True

    def notes(self) -> Any:
        from nsysconv.notes import Note, Severity

        for key, slug, text in (
            (
                "inner",
                "rows-not-read",
                "scopes with times of their own were not read: kernels are leaves",
            ),
            ("unreadable", "cell-unreadable", "nodes without a name, count or time were left out"),
        ):
            if found := self._left_out[key]:
                yield Note(slug, Severity.DROPPED, text, len(found), found[0], GUARANTEED)


def _parts(node: Any) -> tuple[str | None, Mapping[str, Any], Sequence[Any]]:
    # The name of a node, None where it has none, its metrics and its children.
    frame, metrics, children = (
        node.get(key) if isinstance(node, dict) else None
        for key in ("frame", "metrics", "children")
    )
    name = frame.get("name") if isinstance(frame, dict) else None
    return (
        _PYTHON_FRAME.sub("", name) if isinstance(name, str) else None,
        metrics if isinstance(metrics, dict) else {},
        children if isinstance(children, list) and isinstance(name, str) else [],
    )


def _integer(value: Any) -> int | None:
    # Numbers are spelled as texts, too, and whole ones as reals.
    if isinstance(value, str) and value.isdecimal():
        value = int(value) if len(value) < 17 else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value < _MOST else None


def _device_row(device: int, vendor: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    arch, count = str(properties.get("arch", "")), _integer(properties.get("num_sms"))
    row: dict[str, Any] = {"device_id": device, "ordinal": device}
    if count:
        row["sm_count"] = count
    if vendor == "CUDA" and arch.isdecimal() and 2 <= len(arch) <= 3:
        row |= {"compute_major": int(arch[:-1]), "compute_minor": int(arch[-1])}
    return row | ({"name": rocm.UNNAMED_GPU} if vendor == "HIP" else {})
