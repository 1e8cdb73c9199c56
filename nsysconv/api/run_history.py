"""The history of a store: metrics of its runs, as the same reports have them, and where they changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from statistics import median

from nsysconv.api import kept_reports
from nsysconv.api.diffing import compared_columns
from nsysconv.api.kept_reports import STEPS
from nsysconv.api.open_profile import shown_report
from nsysconv.api.shown_report import ShownReport
from nsysconv.api.targets import Say, Target, Words, several, silent
from nsysconv.diff.change_points import FEWEST_VALUES
from nsysconv.diff.history import (
    Metric,
    Run,
    Series,
    Values,
    changes_of,
    changes_report,
    history_report,
    parse_metric,
    runs_report,
    series_of,
    values_of,
)
from nsysconv.diff.rows import STEP_COUNT
from nsysconv.errors import InputError, UsageError
from nsysconv.notes import Note, Severity
from nsysconv.store.location import reading, split_target
from nsysconv.store.read import Store
from nsysconv.store.selection import (
    RunRecord,
    have_times,
    last_runs,
    runs_in_order,
    selected,
)
from nsysconv.timeline.slices import StepRule

DEFAULT = ("steps.period_ns", "overview.kernel_sum_ns", "overview.window_ns")
"""The metrics that are followed if none is named."""
_MOST_OF_BEST = 20


def history(
    store: Target,
    metrics: Words | None = None,
    *,
    last: int | None = None,
    step_range: str | None = None,
    step_kernel: str | None = None,
    step_graph: bool = False,
    say: Say = silent,
) -> list[ShownReport]:
    """Follow metrics over the runs of a store: reports `history`, `change_points`, `history_runs`.

    `store` may be STORE@RUN, STORE@KEY=VALUE or STORE@last:N, for some of the runs. `metrics` are columns
    of reports, `overview.kernel_sum_ns` or `kernels[/gemm/].avg_ns` (None: the step period, kernels and
    window). `last`: the newest runs only. The rest says what a step is, as for reports. Raises UsageError
    for an unknown metric, InputError for no store.
    """
    columns = compared_columns()
    wanted = [parse_metric(text, columns) for text in several(metrics or DEFAULT)]
    if last is not None and last < 1:
        raise UsageError(f"--last {last}", hint="--last 200 takes the newest 200 runs.")
    place, word = split_target(store)
    rule = StepRule(step_range, step_kernel, step_graph)
    with ExitStack() as stack:
        opened = stack.enter_context(reading(place))
        with opened.snapshot():
            every = runs_in_order(opened)
        records = _chosen(every, word, last)
        if not records:
            raise InputError("the store holds no profile", where=str(place))
        values = _all_values(opened, records, wanted, rule, say)
    runs = [_run(record) for record in records]
    series = series_of(wanted, runs, values)
    changed = changes_report(changes_of(series, runs), runs)
    valued = {each.metric for each in series}
    # Most runs lack some of those that are followed by default.
    asked = wanted if metrics or not series else []
    empty = [m.text for m in asked if not valued & {m.text, f"{m.text} per step"}]
    notes = tuple(_notes(every, [len(each.values) for each in series], empty))
    return [
        replace(shown_report(history_report(series, runs)), notes=notes),
        shown_report(changed),
        shown_report(runs_report(series, runs)),
    ]


def best_runs(store: Store, records: Sequence[RunRecord], text: str) -> list[RunRecord]:
    """Return the newest runs, at most 20, of the level at which a metric was best.

    Of runs like the newest one: the same GPU, driver and tool. Of several rows the worst one counts.
    """
    metric = parse_metric(text, compared_columns())
    runs = [_run(record) for record in records]
    values = _all_values(store, records, [metric], StepRule(), silent)
    more = metric.column.better == "more"
    worst = {
        place: (min if more else max)(of_run.values())
        for place, of_run in enumerate(values)
        if of_run and runs[place].environment == runs[-1].environment
    }
    if not worst:
        raise UsageError(
            f"no run like the newest one has {text!r}", hint="Name what `history` shows."
        )
    series = Series(text, metric.column, "", (), tuple(worst), tuple(worst.values()))
    low, high = (max if more else min)(
        series.levels, key=lambda level: median(series.values[slice(*level)])
    )
    return [records[place] for place in series.places[low:high]][-_MOST_OF_BEST:]


def _chosen(runs: Sequence[RunRecord], word: str | None, last: int | None) -> list[RunRecord]:
    chosen = list(runs)
    if word is not None:
        ids = {profile.id for profile in selected(runs, word)}
        chosen = [run for run in runs if ids & {profile.id for profile in run.profiles}]
    return chosen if last is None else last_runs(chosen, last)


def _all_values(
    store: Store, records: Sequence[RunRecord], metrics: Sequence[Metric], rule: StepRule, say: Say
) -> list[Values]:
    names = tuple(dict.fromkeys([*(metric.report for metric in metrics), STEPS]))
    kept = kept_reports.kept(store, names, rule)
    missing = sum(p.id not in kept for record in records for p in record.profiles)
    if missing >= kept_reports.MANY:
        say(f"computing {missing:,} profiles, which takes a while")
    values: list[Values] = []
    columns, failed = compared_columns(), None
    for record in records:
        found: dict[tuple[str, str], float] = {}
        try:
            of_profiles = [
                kept.get(p.id) or kept_reports.computed(store.profile(p.id), names, rule)
                for p in record.profiles
            ]
            counts = [max((r[STEP_COUNT] for r in of[STEPS]), default=None) for of in of_profiles]
            for metric in metrics:
                found |= values_of(
                    metric,
                    columns[metric.report],
                    [of[metric.report] for of in of_profiles],
                    counts,
                )
        except UsageError as error:
            failed = error  # older runs may have had other names for their steps
        values.append(found)
    if failed is not None and not any(values):
        raise failed
    return values


def _run(record: RunRecord) -> Run:
    attributes = [profile.attributes for profile in record.profiles]
    devices = sorted({name for profile in record.profiles for name in profile.devices})
    drivers = sorted({a["driver_version"] for a in attributes if a["driver_version"]})
    tools = sorted({" ".join(filter(None, (a["source"], a["tool_version"]))) for a in attributes})
    environment = (
        ", ".join(devices) or "GPU not recorded",
        f"driver {', '.join(drivers) or 'not recorded'}",
        ", ".join(tools),
    )
    hosts = frozenset(a["host"] for a in attributes if a["host"])
    return Run(record.label, record.recorded_ns, environment, hosts)


def _notes(
    runs: Sequence[RunRecord], counts: Sequence[int], empty: Sequence[str]
) -> Iterator[Note]:
    if not have_times(runs):
        text = "a run has no time of recording: runs are in the order of their import"
        yield Note("in-order-of-import", Severity.INFO, text)
    if empty:
        text = f"no run has a value of {', '.join(empty)}: it is not recorded, or has no such row"
        yield Note("metrics-without-values", Severity.INFO, text, len(empty))
    few = [count for count in counts if count < FEWEST_VALUES]
    if few:
        text = f"series with fewer than {FEWEST_VALUES} runs: too few to find a change"
        yield Note("few-runs", Severity.INFO, text, len(few), of=len(counts))
