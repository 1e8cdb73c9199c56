"""One profile, opened: in a store, or in place in its own file."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from nsysconv import queries
from nsysconv.api.words import Say, Target, Words, several, silent
from nsysconv.errors import InputError, UsageError
from nsysconv.facts import Fact
from nsysconv.queries.contract import Request
from nsysconv.report import Report
from nsysconv.store.database import is_store
from nsysconv.store.places import Place, Url, split
from nsysconv.store.read import Profile, Store, find_profile, reading
from nsysconv.timeline.idle import IDLE_KINDS
from nsysconv.timeline.sliced import sliced
from nsysconv.timeline.slices import Slice
from nsysconv.timeline.timeline import Timeline

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KERNEL_NAMES = ("demangled", "short", "mangled")
BY = ("step",)


@dataclass(frozen=True)
class ShownReport(Report):
    """A report that a notebook shows as a table, `print` as text, and that can be drawn.

    `to_pandas`, `to_arrow` and `rows` give its rows; `table` is None, and these have none, where it was
    not recorded. It holds nothing open.
    """

    def plot(self) -> Figure:
        """The report's picture, which a notebook shows and `savefig` writes.

        Needs matplotlib (`pip install 'nsysconv[plot]'`). Raises UsageError without it, or where the
        report has no picture or was not answered.
        """
        from nsysconv.render import plot

        return plot.draw(self)

    def _repr_html_(self) -> str:
        from nsysconv.render import html

        return html.fragment(self)

    def __str__(self) -> str:
        from nsysconv.render import text
        from nsysconv.render.contract import Options

        out = io.StringIO()
        text.render([self], out, Options())
        return out.getvalue().rstrip("\n")

    def __repr__(self) -> str:
        if self.table is None:
            return f"<{type(self).__name__} {self.name}: not recorded>"
        rows = f"{self.table.num_rows} of {self.row_count}"
        return f"<{type(self).__name__} {self.name}, rows: {rows}, columns: {len(self.columns)}>"


class OpenProfile:
    """One opened profile, in a store or in its own file, as `open` gives it. Use as a context manager.

    Its reports are good after it is closed. One thread at a time.
    """

    def __init__(self, profile: Profile, resources: ExitStack) -> None:
        self.timeline = Timeline(profile)
        self._resources = resources
        self._is_closed = False
        self.profile = profile

    def __repr__(self) -> str:
        ref = self.profile.ref
        state = ", closed" if self._is_closed else ""
        return f"<{type(self).__name__} {ref.label} of {ref.path} ({ref.source}){state}>"

    def __enter__(self) -> OpenProfile:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file; again does nothing."""
        self._is_closed = True
        self._resources.close()

    def report(
        self,
        name: str,
        *,
        slice: Slice | None = None,  # noqa: A002 - what it is
        limit: int = 0,
        idle: Words = ("no_op",),
        names: str = "demangled",
        by: str | None = None,
        step_range: str | None = None,
    ) -> ShownReport:
        """One report, by its name and its own options (`cuda_gpu_kern_sum:base`).

        Its columns and their units are in docs/reports.md; times are integers of ns. `slice` says what of
        the profile to look at (None: all of it); `limit` cuts the rows (0: all); `idle` is one or more
        kinds of idle time (no_op, no_kernel, stream); `names` are the kernels' (demangled, short,
        mangled); `by` "step" gives gpu_utilization a row per step; `step_range` names the ranges that are
        steps, `*` standing for anything (None: ProfilerStep#*).

        Raises NotRecorded where the profile lacks what the report needs, UsageError for unknown words and
        where the profile is closed.
        """
        self._check_open()
        check_by(by, (name,))
        step_range = step_range or (slice.step_range if slice else None)
        request = request_of(limit, idle, names, by, step_range)
        return shown(queries.answer(name, self.cut(slice, step_range), request))

    def reports(
        self,
        names: Words | None = None,
        *,
        for_people: bool = False,
        limit: int | None = None,
        slice: Slice | None = None,  # noqa: A002
        idle: Words = ("no_op",),
        kernel_names: str = "demangled",
        by: str | None = None,
        step_range: str | None = None,
    ) -> list[ShownReport]:
        """Several reports, the core ones by default; one that is not recorded says so in place of rows.

        `limit` None: 20 rows with `for_people`; else 1000 gaps and all of the rest; 0: all of all.
        `kernel_names` are what `report` calls `names`; the rest is as there. Raises UsageError.
        """
        self._check_open()
        names = queries.CORE if names is None else several(names)
        check_by(by, names)
        step_range = step_range or (slice.step_range if slice else None)
        asked = []
        for name in names:
            rows = queries.default_limit(name, for_people=for_people) if limit is None else limit
            asked.append((name, request_of(rows, idle, kernel_names, by, step_range)))
        return [shown(report) for report in queries.answers(asked, self.cut(slice, step_range))]

    def _check_open(self) -> None:
        if self._is_closed:
            raise UsageError(
                "the profile is closed",
                where=self.profile.ref.path,
                hint="Ask for reports within the `with` block, or open it again.",
            )

    def cut(self, part: Slice | None, step_range: str | None) -> Timeline:
        """The time line of a part of the profile; steps are called `step_range` unless it says so."""
        if part is None:
            return self.timeline
        return sliced(self.timeline, replace(part, step_range=part.step_range or step_range))


def check_by(by: str | None, names: Sequence[str]) -> None:
    """Refuses what none of these reports can be grouped by, rather than let it change nothing."""
    if by is None:
        return
    if by not in BY:
        raise UsageError(f"no rows by {by!r}", hint=f"There are: {', '.join(BY)}")
    if not {queries.wanted(name).name for name in names} & set(queries.BY_STEP):
        raise UsageError(
            "none of these reports has rows by step",
            hint=f"Reports that have: {', '.join(queries.BY_STEP)}",
        )


def request_of(
    limit: int,
    idle: Words,
    names: str,
    by: str | None,
    step_range: str | None,
) -> Request:
    """What is asked of a report. Raises UsageError for unknown words."""
    check_limit(limit)
    kinds = several(idle)
    for kind in kinds:
        if kind not in IDLE_KINDS:
            raise UsageError(
                f"no kind of idle time {kind!r}", hint=f"There are: {', '.join(IDLE_KINDS)}"
            )
    if names not in KERNEL_NAMES:
        raise UsageError(f"no kernel names {names!r}", hint=f"There are: {', '.join(KERNEL_NAMES)}")
    return Request(limit, kinds, names, by is not None, step_range)


def check_limit(limit: int | None) -> None:
    """Refuses a negative number of rows."""
    if limit is not None and limit < 0:
        raise UsageError(f"limit {limit} is negative", hint="0 stands for all rows.")


def shown(report: Report) -> ShownReport:
    """The report as a notebook shows it."""
    return ShownReport(**{field.name: getattr(report, field.name) for field in fields(report)})


def open(  # noqa: A001 - as gzip.open
    target: Target, *, reports: Words = (), say: Say = silent
) -> OpenProfile:
    """Opens a profile: a store's (`job.db`, `job.db@LABEL`, `@ID`, `@rank=N`) or a profile file.

    A file is read in place and nothing is left behind; of rows that are left out of imports unless
    asked for, those are read that `reports` need. Raises UsageError where a store holds several
    profiles and none was chosen, InputError where the file cannot be read.
    """
    place, selector = split(target)
    include = queries.facts_of(several(reports))
    with ExitStack() as stack:
        profile = _choose(_store_of(place, stack, say, include), place, selector)
        return OpenProfile(profile, stack.pop_all())
    raise AssertionError("unreachable")


def open_all(
    place: Place,
    selector: str | None,
    stack: ExitStack,
    say: Say = silent,
    *,
    reports: Sequence[str] = (),
) -> list[OpenProfile]:
    """All profiles of a store or file; with a selector those of a run of that label, or the one it names.

    They are open as long as the stack. Raises as `open`.
    """
    store = _store_of(place, stack, say, queries.facts_of(reports))
    return [OpenProfile(profile, ExitStack()) for profile in chosen(store, place, selector)]


def chosen(store: Store, place: Place, selector: str | None) -> list[Profile]:
    """The profiles of a store, at least one: all, those of a run of that label, or the one it names."""
    profiles = store.profiles()
    if selector is not None:
        runs = {row["id"] for row in store.runs() if row["label"] == selector}
        of_run = [p for p in profiles if p.attributes["run_id"] in runs]
        return of_run or [_choose(store, place, selector)]
    return profiles or [_choose(store, place, None)]


def _store_of(place: Place, stack: ExitStack, say: Say, include: frozenset[Fact]) -> Store:
    """The store at a place, or one over the profile file there."""
    if isinstance(place, Url) or is_store(place):
        return stack.enter_context(reading(place))
    if not place.exists():
        raise InputError("no such file", where=str(place))
    if place.is_dir():
        raise UsageError(
            "a folder",
            where=str(place),
            hint=f"Import it first: nsysconv import {place} -o STORE.db",
        )
    # Stores are opened without what reads files.
    from nsysconv.api.in_place import store_over

    return stack.enter_context(store_over(place, say, include))


def _choose(store: Store, place: Place, selector: str | None) -> Profile:
    profiles = store.profiles()
    if selector is not None and selector.startswith("rank="):
        ranked = [
            p
            for p in profiles
            if any(str(row["rank"]) == selector[5:] for row in p.rows("process"))
        ]
        if len(ranked) == 1:
            return ranked[0]
        raise UsageError(
            f"{len(ranked)} profiles with {selector}",
            where=str(place),
            hint="`nsysconv runs STORE` lists the profiles.",
        )
    if selector is not None:
        return find_profile(store, selector)
    if len(profiles) == 1:
        return profiles[0]
    if not profiles:
        raise UsageError(
            "the store holds no profile",
            where=str(place),
            hint=f"Import one: nsysconv import FILE -o {place}",
        )
    known = "\n".join(f"  {place}@{profile.ref.label}" for profile in profiles)
    raise UsageError(
        f"the store holds {len(profiles)} profiles: name one", where=str(place), hint=known
    )
