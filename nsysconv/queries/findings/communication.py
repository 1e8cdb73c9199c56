"""Rules on communication and on work that is split unequally, over devices and over ranks."""

from __future__ import annotations

from collections.abc import Sequence

from nsysconv.queries.findings.contract import Found, Measure, Scene
from nsysconv.report import Unit, human
from nsysconv.timeline.intervals import measure
from nsysconv.timeline.kernel_categories import communicates


def exposed_communication(scene: Scene) -> Found | None:
    """Measure exposed communication."""
    timeline = scene.timeline
    talks = communicates(timeline)
    if timeline.ops_on(scene.device) is not timeline.ops:
        talks = talks[timeline.places_on(scene.device)]
    ops = timeline.ops_on(scene.device)
    whole = measure(ops.start, ops.end, scene.window.start, scene.window.end, talks & ops.timed)
    time = scene.times["communication"]
    return Found(scene.of_window(time), time, {"all": human(whole, Unit.NS)})


RULES: dict[str, Measure] = {"exposed_communication": exposed_communication}


def imbalance(computed: Sequence[int]) -> tuple[int, Found] | None:
    """Measure how far the longest computation of devices or ranks lies above the mean; say which."""
    if len(computed) < 2 or not sum(computed):
        return None
    mean = sum(computed) / len(computed)
    top = max(range(len(computed)), key=lambda i: computed[i])
    details = {
        "most": human(computed[top], Unit.NS),
        "mean": human(mean, Unit.NS),
        "count": len(computed),
    }
    return top, Found((computed[top] / mean - 1) * 100, round(computed[top] - mean), details)
