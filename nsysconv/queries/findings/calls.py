"""API calls that take long by themselves: those that load, and those that no other rule is about."""

from __future__ import annotations

import numpy as np

from nsysconv.names import LAUNCHES, WAITS, called
from nsysconv.queries.findings.contract import Scene
from nsysconv.threads import cached_in
from nsysconv.timeline.arrays import Array, among, distinct, take
from nsysconv.timeline.intervals import Union, difference, union_with

# No launch takes as long; what does loads code first.
LONG_LAUNCH_NS = 1_000_000
_FEWEST_CALLS, _TIMES_MEDIAN = 3, 100
_SLOW_NS = 100_000
_OF_OTHER_RULES = (*WAITS, "blocking_copy", "allocation")


@cached_in("measured")
def loading(scene: Scene) -> Array:
    """Return the calls that load code, or took very long, once."""
    loads = scene.calls_named(called("initialization"))
    long = scene.calls_named(called(*LAUNCHES), LONG_LAUNCH_NS)
    return distinct(np.concatenate((loads, long, _long_first_calls(scene))))


def _long_first_calls(scene: Scene) -> Array:
    # First calls that took 100 times the median of all of their name, or more: what they need was made
    # in them. Calls that wait, or take memory, take long for other reasons.
    calls = scene.timeline.calls
    others = called(*_OF_OTHER_RULES, *LAUNCHES, "initialization")
    long = scene.calls_named(lambda name: not others(name), LONG_LAUNCH_NS)
    found = []
    for name in distinct(take(calls.name_id, long)).tolist():
        every = np.flatnonzero((calls.name_id == name) & scene.outermost)
        dur = take(calls.end, every) - take(calls.start, every)
        if len(every) >= _FEWEST_CALLS and dur[0] >= _TIMES_MEDIAN * max(float(np.median(dur)), 1):
            found.append(int(every[0]))
    return np.array(found, np.int64)


@cached_in("measured")
def slow(scene: Scene) -> Array:
    """Return the calls of 100 µs or more of launching threads that no other rule is about."""
    calls, owner = scene.timeline.calls, scene.owner
    has_rule = called(*_OF_OTHER_RULES)
    which = scene.calls_named(lambda name: not has_rule(name), _SLOW_NS)
    launching = distinct(calls.thread[owner[owner >= 0]])
    result: Array = which[among(calls.thread[which], launching)]
    return result


def without_other_rules(scene: Scene, when: Union) -> Union:
    """Return that time without calls that load code or that other rules are about, and the profiler.

    Such calls of one thread hold up those of others.
    """
    own = scene.calls_at(scene.calls_named(called(*_OF_OTHER_RULES)))
    loads = scene.calls_at(loading(scene))
    taken = union_with(own, loads.starts, loads.ends)
    return difference(difference(when, taken), scene.profiler)
