"""The account of a change of a run's time: parts, per device, that add up to the change.

Definitions, with a worked example: docs/definitions/comparing.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import chain
from math import floor
from typing import Any

from nsysconv.codes import TIME_CLASSES
from nsysconv.diff.names import NameKey
from nsysconv.diff.rows import BOTH, Key, RowMatcher, RowPair, row_matcher
from nsysconv.names import WAITS, role_of
from nsysconv.notes import Note, Severity
from nsysconv.report import Column, ProfileRef, Report, Unit, report_table
from nsysconv.timeline.account import CLASSES, Account, Accounts

RunAccounts = Sequence[Accounts]
"""One run of a side: the accounts of its profile, or those of each of its ranks."""

_IN_THREE = "computation_by_count", "computation_by_mean", "computation_overlap"
BY_COUNT, BY_MEAN, OVERLAP = _IN_THREE
BY_NAME = "computation_by_name"
"""Name the part of kernels that one side alone runs, where the sides have different GPUs."""

PARTS = tuple(
    chain.from_iterable(_IN_THREE if name == "computation" else (name,) for name in CLASSES)
)
"""The parts of a change: the classes of an account, computation split in three."""

PART_TITLES = {name: words for name, words in TIME_CLASSES.items() if name in PARTS} | {
    BY_COUNT: "kernels: number of launches",
    BY_MEAN: "kernels: time per launch",
    OVERLAP: "kernels: overlap of kernels",
    BY_NAME: "kernels: on one side only",
}
"""The parts in words for people."""

MINOR = "other"
"""Name of the minor parts where they are joined."""

_MINOR_SHARE = Fraction(5, 1000)
_NOTHING = Fraction(0), Fraction(0)
_KEYS = (
    Column("rank", Unit.ID, "Rank of the process; null: none, or several.", key=True),
    Column("device_id", Unit.ID, "Number of the device in the base.", key=True),
)


@dataclass(frozen=True)
class Part:
    """One part of a change, in ns. `base` and `other` are what it took on either side: None where it
    has no such value, or the side does not record it. A minor one is less than 0.5 % of the whole."""

    name: str
    base: int | None
    other: int | None
    change: int
    is_minor: bool


@dataclass(frozen=True)
class DeviceChange:
    """Break down how the time of a device changed, in ns: the changes of `parts` add up to other - base.

    A side that has no such device took 0. Rank and device are None where devices are added up over them.
    """

    rank: int | None
    device_id: int | None
    base: int
    other: int
    parts: tuple[Part, ...]

    @property
    def change(self) -> int:
        """Return other less base, in ns."""
        return self.other - self.base


@dataclass(frozen=True)
class ChangeAccount:
    """The account of a change; `devices` None where a side does not record what it needs.

    `steps`: how many steps a run of base and of other has, on average, by which times are divided; None
    where a side has none: times are then those of the windows. `device_counts`: how many devices a run
    has, on average. Devices are added up over the keys in `summed_over`: the sides record these
    otherwise.
    `not_recorded` says what is missing, and on which side.
    """

    devices: tuple[DeviceChange, ...] | None
    steps: tuple[Fraction, Fraction] | None = None
    device_counts: tuple[Fraction, Fraction] = (Fraction(1), Fraction(1))
    summed_over: tuple[str, ...] = ()
    not_recorded: tuple[str, ...] = ()


def account_for_change(
    base: Sequence[RunAccounts],
    other: Sequence[RunAccounts],
    name_key: NameKey = str,
    *,
    names_differ: bool = False,
) -> ChangeAccount:
    """Return what the change of each device's time is made of, from base to other.

    Times are per step where all profiles of both sides that hold GPU work have steps, each divided by
    its own number of steps; else those of the windows. Several runs count by their mean. Devices are
    the same if rank and order are, as in the comparison of reports. `name_key` gives a kernel's key.
    `names_differ`: other GPUs have other kernels, so that one on one side only is no change of a count.
    """
    sides = base, other
    missing = [
        f"{fact.label} ({name})"
        for name, runs in zip(("base", "other"), sides, strict=True)
        for fact in dict.fromkeys(fact for run in runs for each in run for fact in each.missing)
    ]
    if missing:
        return ChangeAccount(None, not_recorded=tuple(missing))
    by_step = all(_has_steps(runs) for runs in sides)
    by_run = [[_of_run(run, by_step) for run in runs] for runs in sides]
    base_rows, other_rows = (_rows(chain.from_iterable(runs)) for runs in by_run)
    matcher = row_matcher(_KEYS, (base_rows, other_rows), {})
    before, after = (
        _device_means(side, runs, matcher, name_key) for side, runs in enumerate(by_run)
    )
    devices = [
        _device_change(
            key,
            matcher,
            before.get(key, _DeviceMean()),
            after.get(key, _DeviceMean()),
            names_differ=names_differ,
        )
        for key in dict.fromkeys((*before, *after))
    ]
    steps = _steps(by_run[0]), _steps(by_run[1])
    base_count, other_count = (Fraction(sum(map(len, runs)), len(runs) or 1) for runs in by_run)
    counts = base_count, other_count
    return ChangeAccount(tuple(devices), steps if by_step else None, counts, matcher.summed_over)


def _has_steps(runs: Sequence[RunAccounts]) -> bool:
    used = [accounts for run in runs for accounts in run if accounts.of_window]
    return bool(used) and all(accounts.of_steps for accounts in used)


def _of_run(run: RunAccounts, by_step: bool) -> list[Account]:
    return [
        account
        for each in run
        for account in ((each.of_steps or ()) if by_step else each.of_window)
    ]


def _steps(runs: Sequence[Sequence[Account]]) -> Fraction:
    most = [max((account.span.steps or 0 for account in run), default=0) for run in runs]
    return Fraction(sum(most), len(most) or 1)


def _rows(accounts: Iterable[Account]) -> list[dict[str, int | None]]:
    return [{"rank": each.rank, "device_id": each.device_id} for each in accounts]


@dataclass
class _DeviceMean:
    # This is a device on one side: the times of classes, and the count and time of kernels that
    # compute, by name. All are means over the runs, and per step if there are steps.
    first_account: Account | None = None
    times: dict[str, Fraction] = field(default_factory=lambda: dict.fromkeys(CLASSES, Fraction(0)))
    kernels: dict[str, tuple[Fraction, Fraction]] = field(default_factory=dict)
    not_recorded: frozenset[str] = frozenset()

    @property
    def whole(self) -> Fraction:
        return sum(self.times.values(), Fraction(0))

    @property
    def overlap(self) -> Fraction:
        # This is by how much the sum of the kernels' durations exceeds the time of computation.
        return _spent(self.kernels) - self.times["computation"]

    def add(self, account: Account, parts: int, name_key: NameKey) -> None:
        # The account is one of `parts` accounts that have equal weight.
        self.first_account = self.first_account or account
        self.not_recorded |= account.not_recorded
        for name, time in account.times.items():
            self.times[name] += Fraction(time, parts)
        for work in account.entries:
            if work.part == "computation":
                name = name_key(work.name)
                count, spent = self.kernels.get(name, _NOTHING)
                count, spent = (
                    count + Fraction(work.count, parts),
                    spent + Fraction(work.sum_ns, parts),
                )
                self.kernels[name] = count, spent


def _device_means(
    side: int, runs: Sequence[Sequence[Account]], matcher: RowMatcher, name_key: NameKey
) -> dict[Key, _DeviceMean]:
    devices: dict[Key, _DeviceMean] = {}
    for run in runs:
        for key, account in zip(matcher.keys_of(side, _rows(run)), run, strict=True):
            parts = len(runs) * (account.span.steps or 1)
            devices.setdefault(key, _DeviceMean()).add(account, parts, name_key)
    return devices


def _device_change(
    key: Key,
    matcher: RowMatcher,
    base: _DeviceMean,
    other: _DeviceMean,
    *,
    names_differ: bool,
) -> DeviceChange:
    whole = round(base.whole), round(other.whole)
    before, after = (
        dict(zip(CLASSES, round_to_sum([mean.times[name] for name in CLASSES], total), strict=True))
        for mean, total in zip((base, other), whole, strict=True)
    )
    more = after["computation"] - before["computation"]
    shared = base.kernels.keys() & other.kernels.keys() if names_differ else None
    pairs = [_only(mean.kernels, shared) for mean in (base, other)]
    by_name = _spent(other.kernels) - _spent(base.kernels) - _spent(pairs[1]) + _spent(pairs[0])
    values = [*_split_change(*pairs), base.overlap - other.overlap]
    names = [*_IN_THREE, BY_NAME] if names_differ else _IN_THREE
    in_parts = round_to_sum([*values, by_name] if names_differ else values, more)
    changes = {name: after[name] - before[name] for name in CLASSES}
    changes |= dict(zip(names, in_parts, strict=True))
    least = _MINOR_SHARE * (whole[0] or whole[1])
    parts = [
        Part(
            name,
            None if name in base.not_recorded else before.get(name),
            None if name in other.not_recorded else after.get(name),
            changes[name],
            abs(changes[name]) < least,
        )
        for name in (*PARTS, *names[len(_IN_THREE) :])
    ]
    account = base.first_account or other.first_account
    return DeviceChange(
        account.rank if account and "rank" in matcher.keys else None,
        account.device_id if account and "device_id" in matcher.keys else None,
        *whole,
        tuple(parts),
    )


def _split_change(
    base: Mapping[str, tuple[Fraction, Fraction]], other: Mapping[str, tuple[Fraction, Fraction]]
) -> tuple[Fraction, Fraction]:
    # The change of sums has a part due to counts and a part due to means. The first is (count1 -
    # count0) × sum0 / count0, or the whole change of a name that only one side has; the second is the
    # rest.
    by_count = Fraction(0)
    for name in dict.fromkeys((*base, *other)):
        count, spent = base.get(name, _NOTHING)
        count_after, spent_after = other.get(name, _NOTHING)
        by_count += (count_after - count) * spent / count if count else spent_after - spent
    return by_count, _spent(other) - _spent(base) - by_count


def _only(
    kernels: Mapping[str, tuple[Fraction, Fraction]], names: Set[str] | None
) -> Mapping[str, tuple[Fraction, Fraction]]:
    return kernels if names is None else {n: work for n, work in kernels.items() if n in names}


def _spent(kernels: Mapping[str, tuple[Fraction, Fraction]]) -> Fraction:
    return sum((spent for _, spent in kernels.values()), Fraction(0))


def round_to_sum(values: Sequence[Fraction], whole: int) -> list[int]:
    """Round to whole numbers that add up to `whole`, by the largest remainder method."""
    result = [floor(value) for value in values]
    for_all, left = divmod(whole - sum(result), len(result))
    order = sorted(range(len(result)), key=lambda i: (result[i] - values[i], i))
    for rank, place in enumerate(order):
        result[place] += for_all + (rank < left)
    return result


# -- the report

ACCOUNT_COLUMNS = (
    *_KEYS,
    Column(
        "part",
        Unit.TEXT,
        "What the time went to; first all of it: the step period, or the window where a "
        "side has no steps. The other rows of a device add up to that.",
        key=True,
    ),
    Column("change_ns", Unit.NS, "Other minus base.", better="less", adds=True),
    Column("change_pct", Unit.PCT, "The change as a share of base's total time.", better="less"),
    Column(
        "base_ns",
        Unit.NS,
        "What base spent on it; null where that is not recorded, and for what only a change has: another "
        "count, another mean, another overlap.",
        better="less",
    ),
    Column("other_ns", Unit.NS, "Time in other.", better="less"),
    Column(
        "weight",
        Unit.TEXT,
        "minor: less than 0.5 % of all of the time; null otherwise.",
        brief=False,
    ),
)


def with_minor_parts_joined(change: ChangeAccount) -> ChangeAccount:
    """Return the account with the minor parts of each device as one last part called `other`."""
    if change.devices is None:
        return change
    return replace(change, devices=tuple(map(_device_with_minor_joined, change.devices)))


def _device_with_minor_joined(device: DeviceChange) -> DeviceChange:
    parts = [part for part in device.parts if not part.is_minor]
    minor = [part for part in device.parts if part.is_minor]
    if any(part.change for part in minor):
        base, other = (
            None if None in values else sum(value or 0 for value in values)
            for values in ([part.base for part in minor], [part.other for part in minor])
        )
        parts.append(Part(MINOR, base, other, sum(part.change for part in minor), is_minor=True))
    return replace(device, parts=tuple(parts))


def account_report(
    change: ChangeAccount, profiles: Sequence[ProfileRef] = (), notes: Sequence[Note] = ()
) -> Report:
    """Return the account as a report: per device all of its time, then its parts, the greatest first."""
    report_notes = list(notes)
    if change.summed_over:
        keys = ", ".join(change.summed_over)
        text = f"devices are added up over {keys}, which differ between the sides"
        report_notes.append(Note("rows-combined", Severity.INFO, text))
    table, count = None, 0
    if change.devices is not None:
        whole = "window" if change.steps is None else "step period"
        if change.summed_over and max(change.device_counts) > 1:
            whole += ", all devices added up"
        rows = [row for device in change.devices for row in _account_rows(device, whole)]
        cells = {c.name: [row[i] for row in rows] for i, c in enumerate(ACCOUNT_COLUMNS)}
        table, count = report_table(ACCOUNT_COLUMNS, cells), len(rows)
    return Report(
        name="account",
        title="Breakdown of the change",
        columns=ACCOUNT_COLUMNS,
        table=table,
        profiles=tuple(profiles),
        notes=tuple(report_notes),
        not_recorded=change.not_recorded,
        row_count=count,
    )


def _account_rows(device: DeviceChange, name: str) -> list[tuple[object, ...]]:
    whole = Part(name, device.base, device.other, device.change, is_minor=False)
    ordered = sorted(device.parts, key=lambda part: (part.name == MINOR, -abs(part.change)))
    return [
        (
            device.rank,
            device.device_id,
            PART_TITLES.get(part.name, part.name),
            part.change,
            100 * part.change / device.base if device.base else None,
            part.base,
            part.other,
            "minor" if part.is_minor else None,
        )
        for part in (whole, *ordered)
    ]


@dataclass(frozen=True)
class _ContributorKind:
    # These are the columns of one report that contributors come from, and the words for what changed.
    name: str
    sum_ns: str
    count: str
    keys: tuple[str, ...]
    per_step: str
    more: str
    less: str
    times: str
    each: str


_KERNEL = _ContributorKind(
    "kernel", "kernel_sum_ns", "kernel_count", ("name",), "per_step_ns",
    "launched {} more often", "launched {} less often", "launched {} times as often", "each launch",
)  # fmt: skip
_CALL = _ContributorKind(
    "call", "api_sum_ns", "call_count", ("name", "layer"), "per_step_ns",
    "called {} more often", "called {} less often", "called {} times as often", "each call",
)  # fmt: skip
_COPY = _ContributorKind(
    "copy", "memcpy_sum_ns", "memcpy_count", ("direction",), "per_step_ns",
    "copied {} more often", "copied {} less often", "copied {} times as often", "each copy",
)  # fmt: skip
_IDLE = _ContributorKind(
    "idle", "host_sum_ns", "gap_count", ("name", "activity"), "",
    "in {} more gaps", "in {} fewer gaps", "in {} times as many gaps", "each time",
)  # fmt: skip
_BY_REPORT = {"kernels": _KERNEL, "transfers": _COPY, "api_vs_kernel": _CALL, "idle_host": _IDLE}

CONTRIBUTOR_REPORTS = tuple(_BY_REPORT)
"""The reports that contributors are looked for in."""

CONTRIBUTOR_COLUMNS = (
    Column(
        "kind",
        Unit.TEXT,
        "kernel; copy, by direction; call of the API, without those that only wait; idle: what the host "
        "did while a device was idle. Each kind looks at the same change from another side. Rows of "
        "several kinds do not add up.",
        key=True,
    ),
    Column(
        "name",
        Unit.TEXT,
        "Name of the kernel or call, direction of the copy, or host activity.",
        key=True,
    ),
    Column(
        "activity",
        Unit.TEXT,
        "For calls the layer, for host time the kind of activity; null for kernels.",
        key=True,
        brief=False,
    ),
    Column("change_ns", Unit.NS, "Other minus base, of the totals.", better="less"),
    Column(
        "certain",
        Unit.TEXT,
        "yes: noise alone does not change it, in 95 % of tables in which nothing changed; no otherwise.",
    ),
    Column("why", Unit.TEXT, "Cause of the change in words: the count or the mean."),
    Column("by_count_ns", Unit.NS, "Part due to a different count, at base's mean.", brief=False),
    Column("by_mean_ns", Unit.NS, "Part due to a different mean.", brief=False),
    Column("base_ns", Unit.NS, "Total in base.", better="less"),
    Column("other_ns", Unit.NS, "Total in other.", better="less"),
)

_WORTH_SAYING = Fraction(1, 4)


@dataclass(frozen=True)
class _Contributor:
    kind: _ContributorKind
    key: tuple[Any, ...]
    base: tuple[Fraction, Fraction]  # count and sum
    other: tuple[Fraction, Fraction]
    rows: Sequence[RowPair]

    @property
    def change(self) -> Fraction:
        return self.other[1] - self.base[1]


def contributors(
    rows_of: Mapping[str, Sequence[RowPair]],
    most: int = 5,
    *,
    account: ChangeAccount | None = None,
    profiles: Sequence[ProfileRef] = (),
) -> Report:
    """Return a report of the `most` names whose sums changed most, of all kinds together.

    What is certain comes first. `rows_of` are the rows of the comparisons of CONTRIBUTOR_REPORTS;
    several ranks and devices are added up. With `account`, that of the same change, values are those of
    a single device (the mean over devices), and per step where the account is.
    """
    account = account or ChangeAccount(None)
    steps = account.steps or (Fraction(1), Fraction(1))  # values are per device, and per step of it
    base_per, other_per = (
        count * devices or Fraction(1)
        for count, devices in zip(steps, account.device_counts, strict=True)
    )
    listed: list[_Contributor] = []
    for report, kind in _BY_REPORT.items():
        by_name = _by_name(kind, rows_of.get(report, ()), (base_per, other_per))
        listed += (contributor for contributor in by_name if round(contributor.change))
    certain = {id(each) for each in listed if _is_certain(each, account, len(listed))}
    listed.sort(key=lambda each: (id(each) not in certain, -abs(each.change)))
    rows = [_contributor_row(each, is_certain=id(each) in certain) for each in listed[:most]]
    cells = {c.name: [row[i] for row in rows] for i, c in enumerate(CONTRIBUTOR_COLUMNS)}
    title = ["Largest contributors to the change, by name"]
    title += ["per step"] if account.steps else []
    title += ["mean of all devices"] if max(account.device_counts) > 1 else []
    return Report(
        name="contributors",
        title=", ".join(title),
        columns=CONTRIBUTOR_COLUMNS,
        table=report_table(CONTRIBUTOR_COLUMNS, cells),
        profiles=tuple(profiles),
        row_count=len(rows),
    )


def _by_name(
    kind: _ContributorKind, rows: Sequence[RowPair], per: tuple[Fraction, Fraction]
) -> Iterator[_Contributor]:
    totals: dict[tuple[Any, ...], list[list[Fraction]]] = {}
    own: defaultdict[tuple[Any, ...], list[RowPair]] = defaultdict(list)
    for row in rows:
        spelled = row.base or row.other
        if kind is _CALL and role_of(spelled["name"]) in WAITS:
            continue  # it takes as long as what it waits for
        values = [(v[kind.count], v[kind.sum_ns]) for v in (row.base_values, row.other_values)]
        if None in chain(*values):
            continue
        key = tuple(spelled.get(name) for name in kind.keys)
        own[key].append(row)
        entry = totals.setdefault(key, [[Fraction(0), Fraction(0)], [Fraction(0), Fraction(0)]])
        for side, (count, spent) in enumerate(values):
            entry[side][0] += Fraction(count) / per[side]
            entry[side][1] += Fraction(spent) / per[side]
    for key, (base, other) in totals.items():
        yield _Contributor(kind, key, (base[0], base[1]), (other[0], other[1]), own[key])


def _is_certain(contributor: _Contributor, account: ChangeAccount, tested: int) -> bool:
    # By the row that changed most, if it moved as all together did; per step, as steps may differ in
    # number. What more devices do is no change of what each does.
    kind = contributor.kind
    name = kind.per_step if account.steps and kind.per_step else kind.sum_ns
    alike = len(set(account.device_counts)) == 1
    rows = [row for row in contributor.rows if alike or row.where == BOTH] or contributor.rows
    row = max(rows, key=lambda row: abs(row.differences.get(name) or 0))
    as_all = (row.differences.get(name) or 0) * contributor.change > 0
    return as_all and (moved := row.judged_change(name)) is not None and moved.is_certain(tested)


def _contributor_row(contributor: _Contributor, *, is_certain: bool) -> tuple[Any, ...]:
    base, other = round(contributor.base[1]), round(contributor.other[1])
    parts = _split_change({"": contributor.base}, {"": contributor.other})
    by_count, by_mean = round_to_sum(parts, other - base)
    name, *rest = contributor.key
    activity = rest[0] if rest else None
    why = _why(contributor, *parts)
    certain = "yes" if is_certain else "no"
    return (
        contributor.kind.name,
        name,
        activity,
        other - base,
        certain,
        why,
        by_count,
        by_mean,
        base,
        other,
    )


def _why(contributor: _Contributor, by_count: Fraction, by_mean: Fraction) -> str:
    kind, (count, spent) = contributor.kind, contributor.base
    count_after, spent_after = contributor.other
    if not count or not count_after:
        return "only in other" if count_after else "only in base"
    largest = max(abs(by_count), abs(by_mean))
    words = []
    if abs(by_count) >= _WORTH_SAYING * largest and count_after != count:
        ratio = count_after / count
        form = kind.times if ratio >= 2 else kind.more if ratio > 1 else kind.less
        text = form.format(f"{float(ratio):.1f}" if ratio >= 2 else _percent(ratio))
        words.append((abs(by_count), text))
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
    # The result is the distance of a ratio from 1, in whole per cent, or with one decimal below 10 %.
    distance = abs(float(ratio) - 1) * 100
    return f"{distance:.0f} %" if distance >= 9.95 else f"{distance:.1f} %"
