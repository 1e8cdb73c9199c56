"""Where the time went: the time account of each device as bars, figures and shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from nsysconv.codes import TIME_CLASS_COLUMNS, TIME_CLASSES
from nsysconv.document import Section
from nsysconv.render.page.colors import COLOURS
from nsysconv.render.page.markup import (
    amount,
    escape,
    places,
    rows,
    share,
    shortened_apart,
)
from nsysconv.report import Unit

_MOST_DEVICES = 16
# What has room beside a bar.
_LABEL = 28
_SAYS_WHEN = frozenset({"start_ns", "time", "range", "step", "skip_first"})
"""Limits of a slice that say which time it is of."""


@dataclass(frozen=True)
class Device:
    """The time account of one device: `times` of classes, in ns, add up to `span`."""

    place: str
    span: int
    window: int
    busy: int
    times: Mapping[str, int]
    unrecorded: frozenset[str]

    @property
    def idle(self) -> Mapping[str, int]:
        """Return the times of the idle classes."""
        return {name: time for name, time in self.times.items() if name.startswith("idle_")}


def devices_of(summary: Section) -> list[Device]:
    """Return the devices that have a time account, in the order of the report's rows."""
    found, place = [], places(summary)
    for row in rows(summary):
        if not row["span_ns"]:
            continue
        values = {name: row[column] for name, column in TIME_CLASS_COLUMNS.items()}
        times = {name: value or 0 for name, value in values.items()}
        unrecorded = frozenset(name for name, value in values.items() if value is None)
        window, busy = row["window_ns"] or 0, row["busy_ns"] or 0
        found.append(Device(place(row), row["span_ns"], window, busy, times, unrecorded))
    return found


def account_figures(summary: Section) -> Iterator[str]:
    """Yield the figures above all others and a bar per device; of no account the reason why."""
    devices = devices_of(summary)
    if devices:
        yield from _headline(devices, _whole(summary))
        yield from _bars(devices)
        without = sum(not row["span_ns"] for row in rows(summary))
        if without:
            yield (
                f'<p class="quiet">{without:,} more without a bar: only totals are recorded of '
                "them, and no times.</p>"
            )
    elif summary.table is None or summary.row_count:
        yield (
            '<p class="say"><b>Busy and idle time are not recorded</b>: nothing says when kernels '
            "ran.</p>"
        )
    else:
        yield '<p class="say"><b>Nothing ran on a GPU.</b></p>'


def totals_figure(reports: Mapping[str, Section]) -> Iterator[str]:
    """Yield a bar of the time of kernels and copies, of a profile that has totals and no times."""
    parts = {"kernels": sum(row["kernel_sum_ns"] or 0 for row in rows(reports.get("kernels")))}
    for row in rows(reports.get("transfers")):
        name = f"copies {row['direction']}"
        parts[name] = parts.get(name, 0) + (row["memcpy_sum_ns"] or 0)
    listed = sorted((item for item in parts.items() if item[1]), key=lambda item: -item[1])
    whole = sum(time for _, time in listed)
    if not whole:
        return
    colors = {name: "memcpy" if name.startswith("copies") else "computation" for name in parts}
    words = [f"{name} {share(time, whole)}" for name, time in listed]
    bars = "".join(
        f'<i class="{colors[name]}" style="width:{100 * time / whole:.3f}%" title="{escape(each)}"></i>'
        for (name, time), each in zip(listed, words, strict=True)
    )
    yield '<figure class="where"><figcaption>GPU time by what ran, added up</figcaption><ol>'
    yield '<li><span class="lb">all</span>'
    yield f'<span class="tr" role="img" aria-label="{escape("; ".join(words))}">{bars}</span>'
    yield f'<span class="vl">{amount(whole, Unit.NS)}</span></ol><ul class="legend">'
    for name, time in listed:
        yield (
            f'<li><i class="k {colors[name]}"></i>{escape(name)} <b>{share(time, whole)}</b> '
            f"{amount(time, Unit.NS)}"
        )
    yield "</ul></figure>"


def _whole(summary: Section) -> str:
    # What the account is of, in a word. Slices that say no time leave the recording as it is.
    return "slice" if _SAYS_WHEN & (summary.slice or {}).keys() else "recording"


def _headline(devices: Sequence[Device], whole: str) -> Iterator[str]:
    span, window = sum(d.span for d in devices), sum(d.window for d in devices)
    busy = sum(d.busy for d in devices)
    count = f"{len(devices)} GPUs" if len(devices) > 1 else "GPU"
    operations = "from the first to the last GPU operation"
    longest = amount(max(d.window for d in devices), Unit.NS)
    whole_figures = {
        f"{count} busy, of the {whole}": share(busy, span),
        f"the {whole}": amount(max(d.span for d in devices), Unit.NS),
    }
    window_figures = {
        f"{count} busy, {operations}": share(busy, window),
        operations: longest,
    }
    # A slice is its own window, and where the clocks disagree the account covers only the window, so
    # one share is enough. One share is enough, too, if both read the same.
    if whole == "slice":
        figures = whole_figures
    elif list(whole_figures.values()) == list(window_figures.values()) or (
        share(busy, span) == share(busy, window) and f"{span:.3g}" == f"{window:.3g}"
    ):
        figures = window_figures
    else:
        pairs_of = zip(whole_figures.items(), window_figures.items(), strict=True)
        figures = dict(pair for both in pairs_of for pair in both)
    pairs = (f"<div><dt>{escape(k)}</dt><dd>{escape(n)}</dd></div>" for k, n in figures.items())
    yield f'<dl class="head">{"".join(pairs)}</dl>'


def _bars(devices: Sequence[Device]) -> Iterator[str]:
    shown = list(devices)
    if len(shown) > _MOST_DEVICES:
        shown = sorted(shown, key=lambda d: d.busy / d.span)[:_MOST_DEVICES]
    short = shortened_apart([device.place for device in shown], _LABEL)
    yield '<figure class="where"><figcaption>Where the time went</figcaption><ol>'
    for device in shown:
        parts = [(name, time) for name, time in device.times.items() if time]
        words = [f"{TIME_CLASSES[name]} {share(time, device.span)}" for name, time in parts]
        bars = "".join(
            f'<i class="{COLOURS[name]}" style="width:{100 * time / device.span:.3f}%" '
            f'title="{escape(each)}"></i>'
            for (name, time), each in zip(parts, words, strict=True)
        )
        label = escape(short[device.place])
        yield f'<li><span class="lb" title="{escape(device.place)}">{label}</span>'
        yield f'<span class="tr" role="img" aria-label="{escape("; ".join(words))}">{bars}</span>'
        yield f'<span class="vl">{share(device.busy, device.span)} busy</span>'
    yield "</ol>"
    yield from _legend(devices)
    if len(shown) < len(devices):
        yield f'<p class="quiet">The {len(shown)} least busy of {len(devices):,} GPUs.</p>'
    yield "</figure>"


def _legend(devices: Sequence[Device]) -> Iterator[str]:
    span = sum(d.span for d in devices)
    yield '<ul class="legend">'
    for name, words in TIME_CLASSES.items():
        total = sum(d.times[name] for d in devices)
        if total:
            yield (
                f'<li><i class="k {COLOURS[name]}"></i>{escape(words)} '
                f"<b>{share(total, span)}</b> {amount(total, Unit.NS)}"
            )
    yield "</ul>"
    unrecorded = [
        words for name, words in TIME_CLASSES.items() if any(name in d.unrecorded for d in devices)
    ]
    if unrecorded:
        yield (
            f'<p class="quiet">Not recorded, and so within idle time: {escape(", ".join(unrecorded))}.'
            "</p>"
        )


def account_sentences(summary: Section) -> Iterator[str]:
    """Yield how busy several devices were side by side, as markup."""
    devices = devices_of(summary)
    if len(devices) < 2:
        return
    by_share = sorted(devices, key=lambda d: d.busy / d.span)
    middle = median(100.0 * d.busy / d.span for d in devices)
    least, most = by_share[0], by_share[-1]
    lowest, highest = share(least.busy, least.span), share(most.busy, most.span)
    # Its length, too: a session may be much longer.
    longest_span = amount(max(device.span for device in devices), Unit.NS)
    whole = f"{_whole(summary)} ({longest_span})"
    if lowest == highest:
        yield f"Each of the {len(devices):,} GPUs was busy for <b>{lowest}</b> of the {whole}."
    else:
        yield (
            f"The GPUs were busy from <b>{lowest}</b> ({escape(least.place)}) to "
            f"<b>{highest}</b> ({escape(most.place)}) of the {whole}, "
            f"{middle:.1f} % at the median."
        )
    if len(summary.profiles) > 1:
        longest = max(devices, key=lambda d: d.window)
        shortest = min(devices, key=lambda d: d.window)
        in_slice = _whole(summary) == "slice"
        time = "Of the slice" if in_slice else "From the first to the last GPU operation"
        yield (
            f"{time} the longest took "
            f"<b>{amount(longest.window, Unit.NS)}</b> ({escape(longest.place)}), the "
            f"shortest {amount(shortest.window, Unit.NS)} ({escape(shortest.place)})."
        )


def idle_words(name: str) -> str:
    """Return an idle class in words that follow `idle`: `CPU-bound (the host had not launched)`."""
    short, _, why = TIME_CLASSES[name].removeprefix("idle").lstrip(", ").partition(": ")
    return f"{short} ({why})" if why else short


def idle_totals(devices: Sequence[Device]) -> dict[str, int]:
    """Return the idle time of all devices by class, between the first and last operations."""
    totals: dict[str, int] = {}
    for device in devices:
        for name, time in device.idle.items():
            totals[name] = totals.get(name, 0) + time
    return totals
