"""The report of all rules: what holds a run back, ranked by time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from nsysconv.errors import NotRecorded, UsageError
from nsysconv.facts import Fact, in_order
from nsysconv.names import shorten
from nsysconv.notes import Note, Severity
from nsysconv.queries import stragglers
from nsysconv.queries.columns import values_by_column
from nsysconv.queries.contract import OverRanks, Query, Request, Result
from nsysconv.queries.cycles import are_ranks, cycles_of
from nsysconv.queries.findings import (
    attention,
    communication,
    copies,
    host,
    host_waits,
    kernels,
    memory,
    operators,
    precision,
    start_up,
    waits,
)
from nsysconv.queries.findings.columns import COLUMNS, OPTIONS
from nsysconv.queries.findings.contract import (
    AROUND,
    COST,
    EXPOSED,
    RISK,
    SAVING,
    SMALL_PCT,
    Found,
    Measure,
    Scene,
    Words,
    frameworks,
    threshold,
    words,
)
from nsysconv.queries.findings.order import Candidate, ranked, together, whose_time
from nsysconv.queries.findings.overlap import Overlap, overlap
from nsysconv.queries.registry import reports_that_are
from nsysconv.report import MISSING, ProfileRef, Unit, human
from nsysconv.threads import Threads
from nsysconv.timeline.account import account_span
from nsysconv.timeline.idle import window
from nsysconv.timeline.steps import step_count
from nsysconv.timeline.timeline import Timeline

DEVICE_IMBALANCE, RANK_IMBALANCE, STRAGGLERS = "device_imbalance", "rank_imbalance", "stragglers"
COLLECTIVE_WAIT = "collective_wait"
BUCKET_SIZE = "bucket_size"
_OVER_SEVERAL = (DEVICE_IMBALANCE, RANK_IMBALANCE, STRAGGLERS, COLLECTIVE_WAIT)

_FAMILIES = (start_up, host, host_waits, waits, copies, memory, communication, kernels, operators,
             precision, attention)  # fmt: skip
RULES: Mapping[str, Measure] = {
    name: getattr(family, name)
    for name in words()
    for family in _FAMILIES
    if name not in _OVER_SEVERAL and hasattr(family, name)
}
"""The rules on one device, functions of their names; this module's aggregator has the others."""

_MAX_CONCURRENT = 2
_LONGEST_LABEL = 24
_LONGEST = ("host_bound", "low_parallelism", "allocation")

_IN_TURN = "kernels that run as in the program: they were replayed for metrics"
_IDLE_RULES_NEED_ONE_CLOCK = "one clock for CPU and GPU"
LEFT_OUT = "the operations that the slice leaves out"
"""What rules on idle time lack of a slice of some operations."""


@dataclass(frozen=True)
class _Device:
    # This is what the rules measured on one device, and the time of its computation.
    found: Mapping[str, Found]
    computation_ns: int
    span_ns: int
    window_ns: int
    exposure: communication.Exposure | None = None
    overlap: Overlap | None = None


@dataclass(frozen=True)
class Partial:
    """What one profile contributes: what rules measured by device, and why others could not look."""

    devices: tuple[_Device, ...] = ()
    blind: Mapping[str, str] = field(default_factory=dict)
    rank: int | None = None
    frameworks: tuple[str, ...] = ("cuda",)
    machine: tuple[str, frozenset[str]] = ("", frozenset())
    steps: int = 0
    arrivals: Any = None


def ignored(request: Request) -> list[str]:
    """Return the rules that are left out by request. Raises UsageError for words that are not rules."""
    text = request.options.get("ignore")
    names = [] if text is None else [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in words():
            hint = f"There are: {', '.join(words())}"
            raise UsageError(f"no check {name!r}", hint=hint)
    return names


def partial(timeline: Timeline, request: Request) -> Partial:
    """Return what the rules measure on each device of a profile."""
    left_out = ignored(request)
    wanted = [n for n in words() if threshold(request, n) is not None and n not in left_out]
    facts = timeline.profile.facts
    blind = {
        name: lacking for name in wanted if (lacking := _lacking(words()[name], facts)) is not None
    }
    if any(note.slug == "kernels-serialized" for note in timeline.profile.notes):
        for name in wanted:
            if words()[name].kind != RISK:
                blind.setdefault(name, _IN_TURN)
    if timeline.clocks_disagree:
        for name in wanted:
            if words()[name].kind == SAVING:
                blind.setdefault(name, _IDLE_RULES_NEED_ONE_CLOCK)
    if Fact.KERNELS not in facts:
        return _of_totals(timeline, wanted, blind)
    devices = [
        _on_device(timeline, device, request, wanted, blind)
        for device in timeline.devices
        if account_span(timeline, device) is not None and _has_window(timeline, device)
    ]
    arrivals = None
    over_ranks = (STRAGGLERS, COLLECTIVE_WAIT, EXPOSED)
    if any(name in wanted and name not in blind for name in over_ranks):
        own = replace(request, options={"rules": None})
        arrivals = stragglers.partial(timeline, own)
    ranks = sorted(set(timeline.ranks.values()))
    return Partial(
        tuple(devices),
        blind,
        ranks[0] if len(ranks) == 1 else None,
        frameworks(timeline),
        _machine(timeline),
        step_count(timeline, request.steps),
        arrivals,
    )


def _machine(timeline: Timeline) -> tuple[str, frozenset[str]]:
    # What profiles of one run have in common: the profiler, and the names of GPUs as far as recorded.
    names = {row["name"] for row in timeline.profile.rows("device") if row["name"]}
    return timeline.profile.ref.source, frozenset(names)


def _on_device(
    timeline: Timeline, device: int, request: Request, wanted: list[str], blind: dict[str, str]
) -> _Device:
    # Adds to `blind` why rules could not run. The scene, with all that it keeps, is gone in the end.
    scene = Scene(timeline, device, request)
    rank = timeline.rank_of(timeline.pids_on(device))
    if not timeline.holds_all_ops_on(device):
        # Beside what is left out, the device was not idle.
        for name in wanted:
            if words()[name].kind == SAVING or name == "gpu_bound":
                blind.setdefault(name, LEFT_OUT)
    found = {}
    for name, measured in _measured(scene, [n for n in wanted if n not in blind]):
        if isinstance(measured, str):
            blind[name] = measured
        elif measured is not None:
            found[name] = replace(measured, device=device, rank=rank)
    speaking = {name: each for name, each in found.items() if scene.speaks(name, each)}
    shared = overlap(speaking)
    advised = [name for name in speaking if words()[name].if_small]
    if advised and kernels.fills_no_wave(scene):
        found |= {name: replace(found[name], is_small=True) for name in advised}
    found = {name: replace(each, when=None) for name, each in found.items()}
    talks = EXPOSED in found and found[EXPOSED].time_ns > 0
    return _Device(
        found,
        scene.times["computation"],
        scene.span.length,
        scene.window.length,
        communication.exposure(scene) if talks else None,
        shared,
    )


def _measured(scene: Scene, names: Sequence[str]) -> Iterator[tuple[str, Found | str | None]]:
    # Each rule gives what it measured, or words for what it lacks. Two rules run at a time. The first
    # are those that take longest, or do not wait for the account.
    def measure(name: str) -> Found | str | None:
        try:
            return RULES[name](scene)
        except NotRecorded as error:
            return ", ".join(error.words)

    def order(name: str) -> int:
        return _LONGEST.index(name) if name in _LONGEST else len(_LONGEST)

    names = sorted((name for name in names if name in RULES), key=order)
    with Threads(_MAX_CONCURRENT) as pool:
        yield from zip(names, pool.map(measure, names), strict=True)


def _of_totals(timeline: Timeline, wanted: Sequence[str], blind: dict[str, str]) -> Partial:
    # Totals name the largest kernel, and no idle time.
    found = None
    if "one_kernel" in wanted and Fact.KERNEL_TOTALS in timeline.profile.facts:
        found = kernels.one_kernel_of_totals(timeline)
    if found is None:
        return Partial(blind=blind)
    blind.pop("one_kernel", None)
    device = _Device({"one_kernel": found}, 0, 0, 0)
    return Partial((device,), blind, frameworks=frameworks(timeline))


def _has_window(timeline: Timeline, device: int) -> bool:
    return window(timeline, device, timeline.ops_on(device)) is not None


def _lacking(rule: Words, facts: frozenset[Fact]) -> str | None:
    missing = [fact.label for fact in in_order(rule.needs - facts)]
    if rule.any_of and not rule.any_of & facts:
        missing.append(" or ".join(fact.label for fact in in_order(rule.any_of)))
    return ", ".join(missing) if missing else None


class Findings:
    """Puts together what the rules measured on all profiles: one finding per rule."""

    def __init__(self, request: Request) -> None:
        """Start without a profile."""
        self._request = request
        self._partials: list[tuple[ProfileRef, Partial]] = []

    def add(self, ref: ProfileRef, partial: Partial) -> None:
        """Add what one profile contributes."""
        self._partials.append((ref, partial))

    def result(self) -> Result:
        """Return the findings, and notes on the rules that could not look or were left out."""
        by_rule: dict[str, list[Candidate]] = {}
        left_out, measured = ignored(self._request), self._measured()
        for name, candidates in measured.items():
            limit = None if name in left_out else threshold(self._request, name)
            for candidate in candidates:
                has_time = candidate.found.time_ns or words()[name].kind == RISK
                if limit is not None and candidate.found.value > limit and has_time:
                    by_rule.setdefault(name, []).append(candidate)
        best = {
            name: max(candidates, key=lambda each: (each.share_pct or 0.0, each.found.value))
            for name, candidates in by_rule.items()
        }
        first = cycles_of([ref for ref, _ in self._partials]).first
        devices = {
            name: len({(first[each.label], each.found.device) for each in candidates})
            for name, candidates in by_rule.items()
        }
        if not self._is_all_computation(best):
            best.pop("gpu_bound", None)
        where, all_savings = whose_time(best), together(best)
        rows = [
            self._row(name, best[name], devices[name])
            | {"same_as": where[name].same_as, "part_of": where[name].part_of}
            | {"all_savings_pct": all_savings if words()[name].kind == SAVING else None}
            for name in ranked(best, where)
        ]
        notes = (*self._found_nothing(measured), *self._notes())
        return Result(values_by_column(rows, COLUMNS), notes=notes)

    def _measured(self) -> dict[str, list[Candidate]]:
        # Who comes last into a collective waits for nobody in it: the least of all is what sizes cost.
        by_rule: dict[str, list[Candidate]] = {}
        for name, candidate in self._candidates():
            by_rule.setdefault(name, []).append(candidate)
        if BUCKET_SIZE in by_rule:
            least = min(by_rule[BUCKET_SIZE], key=lambda each: each.found.value)
            by_rule[BUCKET_SIZE] = [self._without_waits(least)]
        return by_rule

    def _without_waits(self, of: Candidate) -> Candidate:
        # The finding without what its rank waited in collectives for others, whatever their size.
        waits = self._collectives.waits() if self._collectives else None
        known = (
            (i for i, who in enumerate(waits.who) if who["profile"] == of.label) if waits else ()
        )
        place = next(iter(known), None)
        if waits is None or place is None or not of.found.time_ns:
            return of
        time = max(of.found.time_ns - int(waits.by_last[:, place].sum()), 0)
        value = of.found.value * time / of.found.time_ns
        return replace(of, found=replace(of.found, value=value, time_ns=time))

    def _candidates(self) -> Iterator[tuple[str, Candidate]]:
        for ref, partial in self._partials:
            for device in partial.devices:
                for name, found in self._while_all_record(ref, device).items():
                    yield (
                        name,
                        Candidate(
                            ref.label,
                            found,
                            device.span_ns,
                            device.window_ns,
                            partial.frameworks,
                            device.overlap,
                        ),
                    )
            uneven = communication.imbalance([d.computation_ns for d in partial.devices])
            if uneven is not None and DEVICE_IMBALANCE not in partial.blind:
                place, found = uneven
                device_of = next(iter(partial.devices[place].found.values()), None)
                if device_of is not None:
                    found = replace(found, device=device_of.device, rank=device_of.rank)
                one = partial.devices[place]
                yield (
                    DEVICE_IMBALANCE,
                    Candidate(ref.label, found, one.span_ns, one.window_ns, partial.frameworks),
                )
        yield from self._over_ranks()

    @property
    def _may_be_one_run(self) -> bool:
        sources, gpus = zip(*(partial.machine for _, partial in self._partials), strict=True)
        named = {each for each in gpus if each}
        return len(set(sources)) == 1 and (not named or bool(frozenset.intersection(*named)))

    @cached_property
    def _are_ranks(self) -> bool:
        devices = ((ref.label, device) for ref, p in self._partials for device in p.devices)
        found = ((label, each.rank) for label, device in devices for each in device.found.values())
        return self._may_be_one_run and are_ranks([ref for ref, _ in self._partials], found)

    @cached_property
    def _collectives(self) -> stragglers.CollectiveWaits | None:
        # The result is None unless several profiles have collectives.
        together = [(ref, p.arrivals) for ref, p in self._partials if p.arrivals is not None]
        if len(together) < 2 or not self._may_be_one_run:
            return None
        made = stragglers.CollectiveWaits(self._request)
        for ref, arrivals in together:
            made.add(ref, arrivals)
        return made

    def _while_all_record(self, ref: ProfileRef, device: _Device) -> Mapping[str, Found]:
        # These are a device's findings, with its communication restricted to the time that the
        # recordings of all ranks cover.
        move = self._collectives.moves.get(ref.label) if self._collectives else None
        if move is None or device.exposure is None:
            return device.found
        whole = device.found[EXPOSED]
        found = device.exposure.moved(move).found()
        own = replace(found, device=whole.device, rank=whole.rank, case=whole.case)
        return {**device.found, EXPOSED: own}

    def _exposed(self) -> dict[str, int]:
        # By profile, how long its communication was exposed, in ns, on the device where it was longest.
        times: dict[str, int] = {}
        for ref, partial in self._partials:
            for device in partial.devices:
                found = self._while_all_record(ref, device).get(EXPOSED)
                if found is not None:
                    times[ref.label] = max(found.time_ns, times.get(ref.label, 0))
        return times

    def _over_ranks(self) -> Iterator[tuple[str, Candidate]]:
        if not self._may_be_one_run:
            return
        ranked = [
            (ref, p) for ref, p in _over_cycles(self._in_common_cycles()) if p.rank is not None
        ]
        uneven = communication.imbalance(
            [max(d.computation_ns for d in p.devices) for _, p in ranked]
        )
        # What other recordings do not cover may be work that theirs lack.
        covered = self._collectives.least_covered if self._collectives else 1.0
        is_known = uneven is not None and covered * (1 + uneven[1].value / 100) > 1
        if uneven and is_known and not any(RANK_IMBALANCE in p.blind for _, p in ranked):
            place, found = uneven
            ref, partial = ranked[place]
            span, window = _longest_of(partial.devices)
            found = replace(found, rank=partial.rank)
            yield RANK_IMBALANCE, Candidate(ref.label, found, span, window, partial.frameworks)
        with_devices = [(ref, p) for ref, p in _over_cycles(self._partials) if p.devices]
        span, window = _longest_of([d for _, p in with_devices for d in p.devices])
        for name, label, found in self._of_collectives(span):
            partial = next(p for ref, p in self._partials if ref.label == label)
            yield name, Candidate(label, found, span, window, partial.frameworks)

    def _in_common_cycles(self) -> list[tuple[ProfileRef, Partial]]:
        # These are the profiles with devices of the cycles that were recorded of each process.
        cycles = cycles_of([ref for ref, _ in self._partials])
        recorded: dict[str, set[int]] = {}
        for ref, each in self._partials:
            if each.devices:
                recorded.setdefault(cycles.first[ref.label], set()).add(cycles.numbers[ref.label])
        common = set.intersection(*recorded.values()) if recorded else set()
        return [
            (ref, each)
            for ref, each in self._partials
            if each.devices and cycles.numbers[ref.label] in common
        ]

    def _of_collectives(self, span_ns: int) -> Iterator[tuple[str, str, Found]]:
        # The findings name the rank for which the others waited most, and how long each did; and what
        # ranks waited for otherwise.
        waits = self._collectives.waits() if self._collectives else None
        if waits is None or len(waits.who) < 2 or not waits.by_last.any():
            return

        def of_rank(place: int, found: Found) -> tuple[str, Found]:
            who = waits.who[place]
            return who["profile"], replace(found, device=who["device_id"], rank=who["rank"])

        late, exposed = communication.late_rank(waits), self._exposed()
        if late is not None:
            found = communication.straggler(waits, late, span_ns, exposed)
            yield STRAGGLERS, *of_rank(late, found)
        rest = communication.collective_wait(waits, late, exposed)
        if rest is not None:
            yield COLLECTIVE_WAIT, *of_rank(*rest)

    def _is_all_computation(self, best: Mapping[str, Candidate]) -> bool:
        # The result is true if nothing can be gained between operations.
        inside = [
            each.share_pct or 0.0 for name, each in best.items()
            if words()[name].kind == SAVING and name not in (*AROUND, "allocation", "tf32_matmul")
        ]  # fmt: skip
        return max(inside, default=0.0) < 5 * SMALL_PCT

    def _row(self, name: str, candidate: Candidate, count: int) -> dict[str, Any]:
        rule, found = words()[name], candidate.found
        time = human(found.time_ns, Unit.NS)
        details = {"value": found.value, "saving": time, "cost": time, **found.details}
        return {
            "profile": candidate.label,
            "rank": found.rank,
            "device_id": found.device,
            "rule": name,
            "kind": rule.kind,
            "saving_ns": found.time_ns if rule.kind == SAVING else None,
            "cost_ns": found.time_ns if rule.kind == COST else None,
            "share_pct": candidate.share_pct if rule.kind != RISK else None,
            "per_step_ns": self._per_step(rule, candidate),
            "value": found.value,
            "threshold": threshold(self._request, name),
            "unit": rule.unit,
            "step": found.step,
            "stream_id": found.stream,
            "before": found.before,
            "after": found.after,
            "event": found.event,
            "gap": found.gap,
            "where": self._where(candidate) or None,
            "device_count": count,
            "cause": rule.cause.format(**details),
            "finding": rule.finding.format(**details) + _of_one(rule, found),
            "advice": next(
                rule.advice[f] for f in (found.case, *candidate.frameworks) if f in rule.advice
            )
            + (rule.if_small if found.is_small and not found.case else ""),
            "report": rule.report,
            "slice": self._slice(rule.report, found),
        }

    def _per_step(self, rule: Words, candidate: Candidate) -> int | None:
        steps = max(p.steps for ref, p in self._partials if ref.label == candidate.label)
        comes_once = steps > 1 and 2 * candidate.found.most_ns > candidate.found.time_ns
        if not steps or comes_once or rule.once or rule.kind == RISK:
            return None
        return candidate.found.time_ns // steps

    def _slice(self, report: str, found: Found) -> str | None:
        # A time is one profile's, and so is a device. What is said of a device is in its rows.
        if len(self._partials) > 1:
            return None
        ((_, only),) = self._partials
        is_of_one = len(only.devices) > 1 and found.device not in (None, MISSING)
        if not found.part and is_of_one and report in _OVER_DEVICES:
            return f"--device {found.device}"
        return found.part or None

    def _where(self, candidate: Candidate) -> str:
        # The words name the profile and the device only if there are several.
        found, words = candidate.found, []
        if len(self._partials) > 1:
            is_ranked = found.rank is not None and self._are_ranks
            label = shorten(candidate.label, _LONGEST_LABEL)
            words.append(f"rank {found.rank}" if is_ranked else label)
        if found.device is not None and sum(len(p.devices) for _, p in self._partials) > 1:
            words.append("GPU" if found.device == MISSING else f"GPU {found.device}")
        return ", ".join(words)

    def _found_nothing(self, measured: Mapping[str, Sequence[Candidate]]) -> Iterator[Note]:
        # The checks that ran, and the value of each, the nearest to its threshold first. One that
        # measured nothing, such as copies in a run without any, is named in the end.
        left_out, values, nothing = ignored(self._request), dict[str, float](), []
        ran = [p.blind for _, p in self._partials if p.devices]
        for name in words():
            limit = None if name in left_out else threshold(self._request, name)
            if limit is None or not any(name not in blind for blind in ran):
                continue
            value = max((each.found.value for each in measured.get(name, ())), default=None)
            if value is None:
                nothing.append(name)
            elif value <= limit:
                said = f"{name} {value:.3g} of {limit:g} {words()[name].unit}"
                values[said] = value / limit if limit else value
        listed = [*sorted(values, key=lambda each: -values[each]), *nothing]
        if listed:
            text = f"checks that found nothing: {'; '.join(listed)}"
            yield Note("rules-found-nothing", Severity.INFO, text)

    def _notes(self) -> Iterator[Note]:
        left_out = ignored(self._request)
        if left_out:
            yield Note("rules-ignored", Severity.INFO, f"left out: {', '.join(left_out)}")
        by_reason: dict[str, list[str]] = {}
        for name in words():
            reasons = [p.blind[name] for _, p in self._partials if name in p.blind]
            if reasons and len(reasons) == len(self._partials):
                by_reason.setdefault(reasons[0], []).append(name)
        if by_reason:
            text = "; ".join(f"{', '.join(names)}: {why}" for why, names in by_reason.items())
            text = f"checks that could not run: {text}"
            yield Note("rules-cannot-look", Severity.INFO, text)


def _over_cycles(
    partials: Sequence[tuple[ProfileRef, Partial]],
) -> list[tuple[ProfileRef, Partial]]:
    # The cycles of a process become one profile. Its time in a cycle is that of the device that had
    # most.
    cycles = cycles_of([ref for ref, _ in partials])
    by_process: dict[str, list[tuple[ProfileRef, Partial]]] = {}
    for ref, each in partials:
        by_process.setdefault(cycles.first[ref.label], []).append((ref, each))
    whole = []
    for members in by_process.values():
        if len(members) == 1:
            whole += members
            continue
        first = cycles.first[members[0][0].label]
        devices = [partial.devices for _, partial in members if partial.devices]
        sums = [
            sum(max(getattr(device, name) for device in each) for each in devices)
            for name in ("computation_ns", "span_ns", "window_ns")
        ]
        ref, own = next((ref, p) for ref, p in members if ref.label == first)
        whole.append((ref, replace(own, devices=(_Device({}, *sums),) if devices else ())))
    return whole


def _longest_of(devices: Sequence[_Device]) -> tuple[int, int]:
    # The longest recording of devices and the longest window, in ns.
    spans, windows = ([getattr(d, name) for d in devices] for name in ("span_ns", "window_ns"))
    return max(spans, default=0), max(windows, default=0)


def _of_one(rule: Words, found: Found) -> str:
    # The sentence says that one event makes most of the time, so that the finding is not a permanent
    # condition.
    if 2 * found.most_ns <= found.time_ns or not found.time_ns:
        return ""
    share = 100 * found.most_ns / found.time_ns
    part = f"{share:.0f} %" if round(share) < 100 else "all"
    return f" One {rule.one} accounts for {part} of it."


# API calls are made on no device.
_OVER_DEVICES = frozenset(reports_that_are("split")) - {"api_vs_kernel"}


FINDINGS = Query(options=OPTIONS, columns=COLUMNS, over_ranks=OverRanks(partial, Findings))
