"""A clock that jumps: every look at it shows another hour, up to a week away, back and forth.

Python loads a module of this name before anything else, so this one is on the path of a command to
be disturbed. Only the time of day jumps (`time.time`): it is what an administrator or NTP sets, while
files keep the times that the kernel gave them and `time.monotonic` never jumps.
"""

import itertools
import os
import random
import time

_WEEK_S = 7 * 86_400.0
_chance = random.Random(os.environ.get("FAULTS_CLOCK"))
_time, _time_ns = time.time, time.time_ns
_jumps = (_chance.uniform(-_WEEK_S, _WEEK_S) for _ in itertools.count())

time.time = lambda: _time() + next(_jumps)
time.time_ns = lambda: _time_ns() + int(next(_jumps)) * 10**9
