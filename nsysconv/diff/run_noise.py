"""What runs of unchanged work are assumed to differ by, where each side is one run.

Formulas and where the figures are from: docs/definitions.md, "Verdicts".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from nsysconv.diff.noise import HOST_RUN_NOISE, UNKNOWN_RUN_NOISE
from nsysconv.timeline.account import Account

Maker = Literal["host", "span", "wait"]

_HOST_BOUND_SHARE = 0.1
_IDLE_BY_THE_HOST = ("idle_host", "idle_launch", "idle_unknown")
_HOST_TIMES = ("host_sum_ns", "host_self_sum_ns", "backward_host_sum_ns", "api_sum_ns")
_QUEUES = ("launch_latency_avg_ns", "launch_latency_med_ns", "queue_sum_ns", "queue_avg_ns",
           "queue_med_ns", "queue_max_ns")  # fmt: skip
_GAPS = ("gap_count", "gap_sum_ns", "per_step_ns", "host_sum_ns", "launch_sum_ns", "queue_sum_ns",
         "migration_sum_ns", "profiler_sum_ns", "unknown_sum_ns", "end_sum_ns",
         "device_max_sum_ns")  # fmt: skip
COLUMNS: Mapping[str, Mapping[Maker, tuple[str, ...]]] = {
    "overview": {"span": ("window_ns",), "wait": ("idle_ns", "idle_pct")},
    "processes": {"host": ("api_sum_ns",)},
    "api_vs_kernel": {"host": ("api_sum_ns", "per_step_ns"),
                      "wait": ("launch_latency_avg_ns", "queue_avg_ns")},
    "launch_stats": {"host": ("api_sum_ns", "api_med_ns", "api_max_ns"), "wait": _QUEUES},
    "idle_summary": {"wait": _GAPS},
    "idle_host": {"wait": ("gap_count", "host_sum_ns", "device_max_sum_ns")},
    "comm_overlap": {"span": ("window_ns",), "wait": ("idle_ns",)},
    "gpu_utilization": {"span": ("window_ns",), "wait": ("gpu_utilization_pct",)},
    "steps": {"span": ("dur_ns", "avg_ns", "trimmed_ns", "period_ns"),
              "host": ("between_ns", "runtime_ns", "cpu_ns", "data_loader_ns", "other_ns")},
    "operators": {"host": _HOST_TIMES},
    "modules": {"host": _HOST_TIMES[:3]},
    "ranges": {"host": ("range_sum_ns", "self_sum_ns", "avg_ns", "med_ns", "min_ns", "max_ns")},
}  # fmt: skip
"""Columns that the host makes, by report: its own times; spans of host and GPU together; and waits of
one for the other. All others are the GPU's work."""


@dataclass(frozen=True)
class RunNoise:
    """Relative standard deviations of one run.

    Of what the GPU does: `stepped` where steps show the rest, else `single`. `host` is that of the host's
    times, `span` that of steps and windows where the GPU waits for the host (None: as what the GPU does),
    `wait` that of waits (None: unknown, for they are what two times differ by).
    """

    stepped: float = UNKNOWN_RUN_NOISE
    single: float = UNKNOWN_RUN_NOISE
    host: float = HOST_RUN_NOISE
    span: float | None = None
    wait: float | None = None

    @classmethod
    def known(cls, deviation: float) -> RunNoise:
        """Return the noise of runs that are known to differ by so much, whatever is measured."""
        return cls(deviation, deviation, deviation, deviation, deviation)

    def of(self, report: str, column: str, *, by_step: bool) -> float | None:
        """Return the noise of a column of a report; None where one run a side shows nothing of it."""
        makers = COLUMNS.get(report, {})
        maker = next((maker for maker, names in makers.items() if column in names), None)
        if maker == "wait":
            return self.wait
        if maker == "host":
            return self.host
        return self.of_span(by_step=by_step) if maker == "span" else self._of_gpu(by_step=by_step)

    def of_span(self, *, by_step: bool) -> float:
        """Return the noise of the time of a step, or of the window."""
        return self._of_gpu(by_step=by_step) if self.span is None else self.span

    def _of_gpu(self, *, by_step: bool) -> float:
        return self.stepped if by_step else self.single


def waits_for_the_host(accounts: Iterable[Account]) -> bool:
    """Return whether the GPU of an account is idle for more than a tenth of it, for the host was late."""
    return any(
        sum(each.times[name] for name in _IDLE_BY_THE_HOST) > _HOST_BOUND_SHARE * each.span.length
        for each in accounts
    )
