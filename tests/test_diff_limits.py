"""Limits on runs in which one thing was changed: what each of them says of its own column."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from diff_workloads import STEP_NS, STEPS, training
from machine import SAXPY
from workload import Events
from write_nsys import write_nsys

from nsysconv import api
from nsysconv.diff.same_work import grows_with_work
from nsysconv.queries import OWN, query

# Noise of runs: whole parts in a thousand, the same on both sides, mean 0.
NOISE = (4, -5, 2, -3, 2)


def scaled(events: Events, thousandths: int, *, late_ns: int = 0) -> Events:
    """Every kernel so much longer; every step so much later than it would be after the one before."""

    def moved(event: Any, longer: int) -> Any:
        step = event.start_ns // STEP_NS
        start = event.start_ns + step * late_ns
        length = event.end_ns - event.start_ns
        return replace(event, start_ns=start, end_ns=start + length + length * longer // 1000)

    return replace(
        events,
        kernels=tuple(moved(kernel, thousandths) for kernel in events.kernels),
        calls=tuple(moved(call, 0) for call in events.calls),
        memcpys=tuple(moved(copy, 0) for copy in events.memcpys),
        ranges=tuple(moved(each, 0) for each in events.ranges),
    )


def recorded(folder: Path, name: str, thousandths: int = 0, late_ns: int = 0) -> Path:
    path = folder / f"{name}.sqlite"
    workload = training(lambda events: scaled(events, thousandths, late_ns=late_ns))
    write_nsys(replace(workload, duration_ns=workload.duration_ns + STEPS * late_ns), path, "3.25.0")
    return path


def repeats(folder: Path, name: str, late_ns: int = 0) -> str:
    """Five runs whose kernels are as noisy as the other side's."""
    for number, noise in enumerate(NOISE):
        recorded(folder, f"{name}-{number}", noise, late_ns)
    return str(folder / f"{name}-*.sqlite")


def told(base: Path | str, other: Path | str, *limits: str) -> dict[str, str]:
    found = api.compare(base, other, ["overview"], fail_on=limits).reports[-1]
    return {row["limit"]: row["state"] for row in found.rows()}


def test_what_the_host_adds_between_steps_is_not_hidden_by_noise_of_kernels(tmp_path: Path) -> None:
    base, other = repeats(tmp_path, "base"), repeats(tmp_path, "other", late_ns=300_000)
    limits = {
        "overview.window_ns:3%": "exceeded",
        "overview.idle_pct:1pp": "exceeded",
        "overview.idle_ns:3%": "exceeded",
        "overview.kernel_sum_ns:3%": "within",
        "overview.memcpy_sum_ns:3%": "within",
    }
    assert told(base, other, *limits) == limits


def test_of_one_run_a_side_it_is_not_hidden_either(tmp_path: Path) -> None:
    base, other = recorded(tmp_path, "base"), recorded(tmp_path, "other", late_ns=300_000)
    limits = {"overview.window_ns:3%": "exceeded", "overview.kernel_sum_ns:3%": "within"}
    assert told(base, other, *limits) == limits


def without(events: Events, steps: int, thousandths: int) -> Events:
    """The first so many steps only, and every kernel so much longer."""
    end = 10_000 + steps * STEP_NS
    parts = {
        name: tuple(each for each in getattr(events, name) if each.start_ns < end)
        for name in ("kernels", "calls", "memcpys", "ranges")
    }
    return scaled(replace(events, **parts), thousandths)


def test_half_the_steps_pass_no_limit_on_a_sum(tmp_path: Path) -> None:
    base, other = recorded(tmp_path, "base"), tmp_path / "other.sqlite"
    write_nsys(training(lambda events: without(events, STEPS // 2, 300)), other, "3.25.0")
    limits = {
        "overview.kernel_sum_ns:3%": "inconclusive",
        "overview.window_ns:3%": "inconclusive",
        "steps.dur_ns:3%": "inconclusive",
        # Counts are exact, and fewer are no worse.
        "kernels.kernel_count:0%": "within",
        "kernels.avg_ns:3%": "exceeded",
        # One run shows nothing of how an extreme varies; steps of a host may differ by 32 %.
        "kernels.max_ns:3%": "inconclusive",
        "steps.avg_ns:30%": "inconclusive",
        "steps.avg_ns:40%": "within",
    }
    assert told(base, other, *limits) == limits
    found = api.compare(base, other, fail_on=["overview.kernel_sum_ns:3%"])
    assert found.exit_status == 4
    assert "steps.avg_ns" in found.reports[-1].rows()[0]["reason"]
    sums = {"overview": "kernel_sum_ns", "kernels": "kernel_sum_ns", "steps": "dur_ns"}
    reports = api.compare(base, other, list(sums)).reports
    for report, (name, column) in zip(reports, sums.items(), strict=True):
        assert {row[f"verdict_{column}"] for row in report.rows()} == {None}, name
    # A step's share of it can be compared.
    assert {row["verdict"] for row in reports[1].rows()} == {"worse"}


def more_launches(events: Events) -> Events:
    """In every fifth step another saxpy, as long as the others."""
    first = [k for k in events.kernels if k.function is SAXPY][:: 2 * 5]
    again = [
        replace(k, correlation_id=(k.correlation_id or 0) + 80, start_ns=k.start_ns + 250_000,
                end_ns=k.end_ns + 250_000)
        for k in first
    ]  # fmt: skip
    return replace(events, kernels=(*events.kernels, *again))


def test_counts_are_counted_and_are_no_noise(tmp_path: Path) -> None:
    base, other = recorded(tmp_path, "base"), tmp_path / "other.sqlite"
    write_nsys(training(more_launches), other, "3.25.0")
    limits = {
        "kernels[/saxpy/].kernel_count:3%": "exceeded",
        "kernels[/saxpy/].kernel_count:4": "exceeded",
        "kernels[/saxpy/].kernel_count:5": "within",
        "kernels[/reduce/].kernel_count:0%": "within",
    }
    assert told(base, other, *limits) == limits


def test_an_empty_side_is_named(tmp_path: Path) -> None:
    base, other = recorded(tmp_path, "base"), tmp_path / "other.sqlite"
    empty = training(lambda e: replace(e, kernels=(), memcpys=()))
    write_nsys(empty, other, "3.25.0")
    limit = ["overview.kernel_sum_ns:3%"]
    (row,) = api.compare(base, other, ["overview"], fail_on=limit).reports[-1].rows()
    assert (row["state"], row["reason"]) == (
        "inconclusive", "one side, or a rank of it, has no GPU work")  # fmt: skip


def test_which_columns_grow_with_work() -> None:
    grow = {f"{name}.{c.name}" for name in OWN for c in query(name).columns if grows_with_work(c)}
    assert grow >= {
        "overview.window_ns", "overview.kernel_sum_ns", "overview.kernel_union_ns",
        "overview.kernel_count", "transfers.bytes_sum", "idle_summary.gap_sum_ns",
    }  # fmt: skip
    assert not grow & {
        "kernels.avg_ns", "kernels.med_ns", "kernels.max_ns", "kernels.min_ns", "kernels.kernel_pct",
        "overview.idle_pct", "transfers.bytes_max", "transfers.throughput_bytes_per_s",
    }  # fmt: skip
