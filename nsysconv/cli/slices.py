"""The flags that say what of a profile to look at."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from nsysconv.errors import UsageError
from nsysconv.timeline.slices import Moment, Percent, Slice

_TIME = re.compile(r"(-?\d{1,18})(?:\.(\d{1,30}))?(ns|us|µs|ms|s|%)?")
_NS = {"ns": 0, "us": 3, "µs": 3, "ms": 6, "s": 9, None: 0}
_EXAMPLES = "For example: --time 1.5s:2s, --time 10%:90%, --time 3s:"


def parse(
    time: str | None,
    range_: str | None,
    step: str | None,
    skip_first: int,
    projected: bool,
    device: Sequence[int] | None,
    stream: Sequence[int] | None,
    rank: Sequence[int] | None,
    process: Sequence[int] | None,
    thread: Sequence[int] | None,
    name: str | None,
) -> Slice | None:
    """The slice that these flags ask for; None: the whole profile. Raises UsageError."""
    found = Slice(
        time=_time(time),
        range=range_,
        step=step,
        skip_first=skip_first,
        projected=projected,
        devices=tuple(device or ()),
        streams=tuple(stream or ()),
        ranks=tuple(rank or ()),
        processes=tuple(process or ()),
        threads=tuple(thread or ()),
        name=name,
    )
    return None if found.is_whole else found


def _time(text: str | None) -> tuple[Moment | None, Moment | None] | None:
    """A:B (or A/B, as nsys spells it); either may be empty."""
    if text is None:
        return None
    ends = re.split("[:/]", text)
    if len(ends) != 2 or not any(ends):
        raise UsageError(f"--time {text!r} is not A:B", hint=_EXAMPLES)
    start, end = (_moment(part.strip()) if part.strip() else None for part in ends)
    return start, end


def _moment(text: str) -> Moment:
    """A number with a unit in ns, decimals exact; those beyond a ns are cut off."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise UsageError(
            f"{text!r} is no time", hint=f"A number with ns, us, ms, s or %. {_EXAMPLES}"
        )
    whole, decimals, unit = match.groups()
    if decimals and unit is None:
        raise UsageError(f"{text!r} has no unit", hint=f"Without one it is whole ns. {_EXAMPLES}")
    if unit == "%":
        share = Fraction(f"{whole}.{decimals or 0}")
        if not 0 <= share <= 100:
            raise UsageError(f"{text} of a profile", hint="From 0% to 100%.")
        return Percent(share)
    places = _NS[unit]
    digits = (decimals or "")[:places].ljust(places, "0")
    sign = -1 if whole.startswith("-") else 1
    value: int = sign * (int(whole.lstrip("-")) * 10**places + int(digits or 0))
    return value
