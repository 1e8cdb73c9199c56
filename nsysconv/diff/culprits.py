"""The largest parts of a change by name: kernels, API calls, and what the host did in idle time.

Definitions, with a worked example: docs/definitions.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from nsysconv.diff.account import ChangeAccount, round_to_sum, split_change
from nsysconv.report import Column, ProfileRef, Report, report_table
from nsysconv.units import Unit


class ComparedRow(Protocol):
    """A row of both sides of a comparison: what it is about, and its values by measure."""

    @property
    def base(self) -> Mapping[str, Any]:
        """The row as base spells it; empty where base has none."""

    @property
    def other(self) -> Mapping[str, Any]:
        """The row as other spells it; empty where other has none."""

    @property
    def base_values(self) -> Mapping[str, Any]:
        """Base's values, of several runs their means."""

    @property
    def other_values(self) -> Mapping[str, Any]:
        """Other's values, of several runs their means."""


@dataclass(frozen=True)
class _CulpritKind:
    """Rows of one report: their sum, its count, what tells them apart, and words for what changed."""

    name: str
    sum_ns: str
    count: str
    keys: tuple[str, ...]
    more: str
    less: str
    times: str
    each: str


_KERNEL = _CulpritKind(
    "kernel", "kernel_sum_ns", "kernel_count", ("name",),
    "launched {} more often", "launched {} less often", "launched {} times as often", "each launch",
)  # fmt: skip
_CALL = _CulpritKind(
    "call", "api_sum_ns", "call_count", ("name", "layer"),
    "called {} more often", "called {} less often", "called {} times as often", "each call",
)  # fmt: skip
_IDLE = _CulpritKind(
    "idle", "host_sum_ns", "gap_count", ("name", "activity"),
    "in {} more gaps", "in {} fewer gaps", "in {} times as many gaps", "each time",
)  # fmt: skip

CULPRIT_COLUMNS = (
    Column(
        "kind",
        Unit.TEXT,
        "kernel; call of the API; idle: what the host did while a device was idle. Each kind looks at "
        "the same change from another side: the call that waits for a kernel takes longer with it. Rows "
        "of several kinds do not add up.",
        key=True,
    ),
    Column(
        "name", Unit.TEXT, "Name of the kernel, of the call, or of what the host did.", key=True
    ),
    Column(
        "activity",
        Unit.TEXT,
        "Of calls the layer, of what the host did which activity it was; null for kernels.",
        key=True,
        brief=False,
    ),
    Column("change_ns", Unit.NS, "Other less base, of the sums.", better="less"),
    Column("why", Unit.TEXT, "In words: whether it is the count, or the mean."),
    Column("by_count_ns", Unit.NS, "What comes from another count, at base's mean.", brief=False),
    Column("by_mean_ns", Unit.NS, "What comes from another mean.", brief=False),
    Column("base_ns", Unit.NS, "Base's sum.", better="less"),
    Column("other_ns", Unit.NS, "Other's sum.", better="less"),
)

_WORTH_SAYING = Fraction(1, 4)


@dataclass(frozen=True)
class _Culprit:
    """One name: counts and sums of both sides."""

    kind: _CulpritKind
    key: tuple[Any, ...]
    base: tuple[Fraction, Fraction]
    other: tuple[Fraction, Fraction]

    @property
    def change(self) -> Fraction:
        """Other's sum less base's."""
        return self.other[1] - self.base[1]


def culprits(
    kernels: Sequence[ComparedRow],
    calls: Sequence[ComparedRow],
    gaps: Sequence[ComparedRow],
    most: int = 5,
    *,
    of: ChangeAccount | None = None,
    profiles: Sequence[ProfileRef] = (),
) -> Report:
    """The names whose sums changed most, so many of all three kinds together, greatest change first.

    `kernels`, `calls` and `gaps` are the rows of the comparisons of `kernels`, `api_vs_kernel` and
    `idle_host`; those of several ranks and devices are added up. `of`: the account of the same change.
    With it, values are those of one device (the mean over devices), and of one step where the account is.
    """
    per = (Fraction(1), Fraction(1)) if of is None else _step_device_counts(of)
    listed: list[_Culprit] = []
    for kind, rows in ((_KERNEL, kernels), (_CALL, calls), (_IDLE, gaps)):
        listed += (each for each in _by_name(kind, rows, per) if round(each.change))
    listed.sort(key=lambda each: -abs(each.change))
    cells = [_culprit_row(each) for each in listed[:most]]
    data = {column.name: [row[i] for row in cells] for i, column in enumerate(CULPRIT_COLUMNS)}
    return Report(
        name="culprits",
        title=_culprits_title(of),
        columns=CULPRIT_COLUMNS,
        table=report_table(CULPRIT_COLUMNS, data),
        profiles=tuple(profiles),
        row_count=len(cells),
    )


def _culprits_title(of: ChangeAccount | None) -> str:
    parts = ["The largest parts of the change, by name"]
    if of is not None and of.steps is not None:
        parts.append("per step")
    if of is not None and max(of.device_counts) > 1:
        parts.append("mean of all devices")
    return ", ".join(parts)


def _step_device_counts(of: ChangeAccount) -> tuple[Fraction, Fraction]:
    """How many steps of devices the values of each side are of."""
    base, other = of.steps or (Fraction(1), Fraction(1))
    base_devices, other_devices = of.device_counts
    return (base * base_devices or Fraction(1)), (other * other_devices or Fraction(1))


def _by_name(
    kind: _CulpritKind, rows: Sequence[ComparedRow], per: tuple[Fraction, Fraction]
) -> Iterator[_Culprit]:
    """The rows of one kind by name, those that have a sum and a count."""
    totals: dict[tuple[Any, ...], list[list[Fraction]]] = {}
    for row in rows:
        spelled = row.base or row.other
        of_sides = row.base_values, row.other_values
        values = [(side[kind.count], side[kind.sum_ns]) for side in of_sides]
        if any(value is None for pair in values for value in pair):
            continue
        key = tuple(spelled.get(name) for name in kind.keys)
        entry = totals.setdefault(key, [[Fraction(0), Fraction(0)], [Fraction(0), Fraction(0)]])
        for side, (count, spent) in enumerate(values):
            entry[side][0] += Fraction(count) / per[side]
            entry[side][1] += Fraction(spent) / per[side]
    for key, (base, other) in totals.items():
        yield _Culprit(kind, key, (base[0], base[1]), (other[0], other[1]))


def _culprit_row(each: _Culprit) -> tuple[Any, ...]:
    """A row, in the order of COLUMNS."""
    base, other = round(each.base[1]), round(each.other[1])
    parts = split_change({"": each.base}, {"": each.other})
    by_count, by_mean = round_to_sum(parts, other - base)
    name, *rest = each.key
    activity = rest[0] if rest else None
    why = _why(each, *parts)
    return each.kind.name, name, activity, other - base, why, by_count, by_mean, base, other


def _why(each: _Culprit, by_count: Fraction, by_mean: Fraction) -> str:
    """The larger cause in words, and the smaller if it is worth saying."""
    kind, (count, spent), (count_after, spent_after) = each.kind, each.base, each.other
    if not count or not count_after:
        return "only in other" if count_after else "only in base"
    largest = max(abs(by_count), abs(by_mean))
    words = []
    if abs(by_count) >= _WORTH_SAYING * largest and count_after != count:
        ratio = count_after / count
        if ratio >= 2:
            words.append((abs(by_count), kind.times.format(f"{float(ratio):.1f}")))
        else:
            words.append(
                (abs(by_count), (kind.more if ratio > 1 else kind.less).format(_percent(ratio)))
            )
    if abs(by_mean) >= _WORTH_SAYING * largest and by_mean:
        ratio = (spent_after / count_after) / (spent / count) if spent else Fraction(0)
        if ratio >= 2:
            text = f"{float(ratio):.1f} times as long"
        elif spent:
            text = f"{_percent(ratio)} {'longer' if ratio > 1 else 'shorter'}"
        else:
            text = "longer"  # than nothing
        words.append((abs(by_mean), f"{kind.each} {text}"))
    words.sort(key=lambda word: -word[0])
    return ", ".join(text for _, text in words)


def _percent(ratio: Fraction) -> str:
    """How far a ratio is from 1: whole per cent, of less than 10 with one decimal."""
    distance = abs(float(ratio) - 1) * 100
    return f"{distance:.0f} %" if distance >= 9.95 else f"{distance:.1f} %"
