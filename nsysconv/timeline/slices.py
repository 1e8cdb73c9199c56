"""The part of a profile that somebody asks for, in words; timeline/sliced.py finds it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any

from nsysconv.arguments import normalize, one_or_several, whole_number
from nsysconv.errors import UsageError


@dataclass(frozen=True)
class Percent:
    """A moment as a share of the time from a profile's first operation or call to its last."""

    value: Fraction | int

    def __str__(self) -> str:
        """Return the value as users write it."""
        return f"{float(self.value):g}%"


@dataclass(frozen=True)
class StepRule:
    """What makes the steps of a profile; nothing: names that say so (docs/definitions/steps.md).

    `range` is the name of the ranges that are steps, `*` standing for anything. `kernel` is a regular
    expression: a step ends where a kernel of such a name ends. `graph`: a step ends where the replay of
    a graph ends. `grammar` is a file of rules on annotations, which say what phase a step is of.
    """

    range: str | None = None
    kernel: str | None = None
    graph: bool = False
    grammar: str | None = None

    def __post_init__(self) -> None:
        """Check that there is one at most."""
        if (self.range is not None) + (self.kernel is not None) + self.graph > 1:
            what = "steps are made by ranges, by a kernel or by graphs"
            raise UsageError(what, hint="Give one of --step-range, --step-kernel and --step-graph.")

    @property
    def absent(self) -> str:
        """Return in words that there is nothing of the kind."""
        if self.kernel is not None:
            return f"fewer than two kernels match {self.kernel!r}"
        if self.graph:
            return "fewer than two replays of graphs are recorded"
        if self.range is not None:
            return f"no range is called {self.range}"
        return "no range has the name of a framework's steps, or a word with a number that rises"

    @property
    def words(self) -> str:
        """Return what makes a step, in words; "" where nothing does."""
        if self.kernel is not None:
            return f"each to a kernel /{self.kernel}/"
        return "each to a graph's replay" if self.graph else self.range or ""

    def __bool__(self) -> bool:
        """Return whether it says what makes a step."""
        return self.range is not None or self.kernel is not None or self.graph


ANY_STEPS = StepRule()
"""The rule by which names say what a step is."""

Moment = int | Percent
"""A time in ns since the profile's zero, or a share of the profile's time."""


@dataclass(frozen=True)
class Slice:
    """The slice that a user asks for; nothing: the whole profile. All that is given has to hold together.

    `time` is [start, end), None standing for where the profile begins or ends, or a text as the command
    line takes it (`1.5s:2s`). Of a number, one is as good as several. `range` is
    `NAME[@DOMAIN][#N]`, `#*` for all of that name, and `step` the name of steps (`*` standing for
    anything), a number, or `FIRST:LAST` numbers; they mean the ranges' or steps' own times in their
    process, together, and with `projected` the time of the operations launched in them, and only those.
    `skip_first` goes from the end of so many steps to the end of the last. `phase` is the name of a
    phase, all steps of it; `steady` takes of the steps those of the longest run without warm-up.
    `step_range`, `step_kernel`, `step_graph` and `grammar` say what steps and phases are, as `StepRule`
    does. The rest leaves rows out that are of another device, stream, rank, process, thread or name
    (`name` is a regular expression that is found somewhere in it); rows of which none of this kind is
    ever recorded stay.
    """

    time: tuple[Moment | None, Moment | None] | None = None
    range: str | None = None
    step: str | None = None
    skip_first: int = 0
    phase: str | None = None
    steady: bool = False
    projected: bool = False
    step_range: str | None = None
    step_kernel: str | None = None
    step_graph: bool = False
    grammar: str | None = None
    devices: tuple[int, ...] = ()
    streams: tuple[int, ...] = ()
    ranks: tuple[int, ...] = ()
    processes: tuple[int, ...] = ()
    threads: tuple[int, ...] = ()
    name: str | None = None

    def __post_init__(self) -> None:
        """Check and normalize the fields."""
        # As people write it; slices are kept by what they ask for.
        normalize(self, _NORMAL)
        if self.time is not None and not _in_order(*self.time):
            raise UsageError("the slice ends before it starts", hint="START:END, START before END.")
        if self.projected and not self.by_range:
            raise UsageError("projected: what?", hint="It goes with a range or with steps.")
        if self.skip_first < 0:
            raise UsageError("skip_first is negative", hint="How many steps to leave out, from 1.")
        assert self.step_rule is not None

    @property
    def step_rule(self) -> StepRule:
        """Return what makes the steps."""
        return StepRule(self.step_range, self.step_kernel, self.step_graph, self.grammar)

    def with_steps(self, rule: StepRule) -> Slice:
        """Return the slice with what makes the steps, if it does not say that itself."""
        made = self if self.grammar is not None else replace(self, grammar=rule.grammar)
        if made.step_rule:
            return made
        return replace(made, step_range=rule.range, step_kernel=rule.kernel, step_graph=rule.graph)

    @property
    def is_whole(self) -> bool:
        """Return whether nothing is left out."""
        return self == Slice().with_steps(self.step_rule)

    @property
    def bounds_time(self) -> bool:
        """Return whether it says when it begins or ends."""
        return self.time is not None or self.by_range

    @property
    def by_range(self) -> bool:
        """Return whether ranges, steps or phases of the profile say when it begins or ends."""
        named = (self.range, self.step, self.phase)
        return any(each is not None for each in named) or self.steady or bool(self.skip_first)

    @property
    def time_text(self) -> str:
        """Return the time as users write it."""
        return ":".join(map(_said, self.time or ()))

    def as_dict(self) -> Mapping[str, Any]:
        """Return what was asked for, as reports state it; of times, what depends on the profile."""
        said: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "time" and value != field.default:
                said[field.name] = list(value) if isinstance(value, tuple) else value
        if self.time is not None and not all(isinstance(moment, int) for moment in self.time):
            said = {"time": self.time_text, **said}
        if self.step is None and not self.skip_first and not self.steady:
            for name in ("step_range", "step_kernel", "step_graph"):
                said.pop(name, None)
        if self.phase is None:
            said.pop("grammar", None)
        return said


_TIME = re.compile(r"(-?\d{1,18})(?:\.(\d{1,30}))?(ns|us|µs|ms|s|%)?")
_DECIMALS = {"ns": 0, "us": 3, "µs": 3, "ms": 6, "s": 9, None: 0}
_EXAMPLES = "For example: --time 1.5s:2s, --time 10%:90%, --time 3s:"


def _moments(name: str, value: Any) -> tuple[Moment | None, Moment | None]:
    # A:B, or A/B as nsys spells it; either end may be empty. A pair holds ns, shares or such texts.
    ends = re.split("[:/]", value) if isinstance(value, str) else value
    if not isinstance(ends, (tuple, list)) or len(ends) != 2 or (ends[0] == ends[1] == ""):
        raise UsageError(f"--time {value!r} is not A:B", hint=_EXAMPLES)
    start, end = map(_moment, ends)
    return start, end


def _moment(value: Any) -> Moment | None:
    # Decimals are exact; those beyond a ns are cut off.
    if value is None or isinstance(value, Percent) or type(value) is int:
        return value
    text = value.strip() if isinstance(value, str) else str(whole_number("time", value))
    if not text:
        return None
    match = _TIME.fullmatch(text)
    if match is None:
        hint = f"A number with ns, us, ms, s or %. {_EXAMPLES}"
        raise UsageError(f"{text!r} is no time", hint=hint)
    whole, decimals, unit = match.groups()
    if decimals and unit is None:
        raise UsageError(f"{text!r} has no unit", hint=f"Without one it is whole ns. {_EXAMPLES}")
    if unit == "%":
        share = Fraction(f"{whole}.{decimals or 0}")
        if not 0 <= share <= 100:
            raise UsageError(f"{text} of a profile", hint="From 0% to 100%.")
        return Percent(share)
    places = _DECIMALS[unit]
    return int(whole + (decimals or "")[:places].ljust(places, "0"))


def _integers(name: str, value: Any) -> tuple[int, ...]:
    return tuple(whole_number(name, each) for each in one_or_several(value))


# By the type of a field, as it is written above.
_NORMAL: Mapping[str, Callable[[str, Any], Any]] = {
    "tuple[Moment | None, Moment | None]": _moments,
    "tuple[int, ...]": _integers,
}


def _said(moment: Moment | None) -> str:
    if moment is None:
        return ""
    return f"{moment}ns" if isinstance(moment, int) else str(moment)


def _in_order(start: Moment | None, end: Moment | None) -> bool:
    """Return whether a time has a length, as far as that does not depend on a profile."""
    if isinstance(start, Percent) and isinstance(end, Percent):
        return start.value < end.value
    if isinstance(start, int) and isinstance(end, int):
        return start < end
    return True
