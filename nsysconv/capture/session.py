"""One rank's capture from the line to the record: whether it is profiled, its run, and the stage-out.

Which ranks are profiled is a choice such as `--ranks 0,8,16-31`, `local0`, `node%4:local0`.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from nsysconv.capture import atomic_move, child_process, command, patterns, stage_out
from nsysconv.capture.command import Line, Output
from nsysconv.capture.stage_out import Captured, CaptureOptions, ImportFile, StageOutContext
from nsysconv.errors import CaptureError
from nsysconv.launch import Launch, launch_of
from nsysconv.record import Record
from nsysconv.refusals import reason_of
from nsysconv.store.location import is_address

_OWN_STREAMS = ("%1", "%2")
"""Names by which nvprof takes stdout and stderr for its log."""


def capture(
    arguments: Sequence[str],
    options: CaptureOptions,
    environment: Mapping[str, str],
    importing: ImportFile,
    say: Callable[[str], None],
) -> Captured:
    """Run a profiler's line where this rank is chosen; elsewhere become the program.

    `environment` is what the program gets; `importing` puts a file into a store. Raises CaptureError for
    what keeps the program from being started, and nothing afterwards: what goes wrong then is in the
    record, and printed by `say`.
    """
    line = command.parse(arguments, options.program)
    launch = launch_of(environment)
    if launch not in parse_rank_filter(options.ranks):
        replace_process(line.program, environment)
    profiler = _find_profiler(line.arguments[0], environment)
    host = socket.gethostname()
    plan = _make_plan(line, launch, host, options, environment, say)
    child_environment = _child_environment(environment, line, plan, options)
    record = Record(
        rank=launch.rank,
        local_rank=launch.local_rank,
        world_size=launch.world_size,
        host=host,
        job=launch.job,
        profiler=line.profiler.name,
        start_utc_ns=time.time_ns(),
    )
    plan = replace(plan, first=_write_first_record(record, plan, say))
    try:
        ended = child_process.run(
            line.with_outputs(plan.values), line.program, child_environment, options.grace_s, say
        )
    except CaptureError:
        shutil.rmtree(plan.scratch, ignore_errors=True)
        if plan.first is not None:
            with suppress(OSError):
                plan.first.unlink()
        raise
    record = replace(
        record,
        exit_status=ended.status,
        signal=ended.status - 128 if 128 < ended.status <= 128 + signal.NSIG else None,
        end_utc_ns=time.time_ns(),
    )
    try:
        context = StageOutContext(
            plan, line, profiler, child_environment, record, options, importing, say
        )
        return stage_out.stage_reports(context, ended)
    except Exception as error:  # the program has run: its status is worth more than ours
        say(f"internal error: {type(error).__name__}: {error}; what there is, is in {plan.scratch}")
        return Captured(ended.status, (), ("internal error",))


def _find_profiler(name: str, environment: Mapping[str, str]) -> str:
    profiler = shutil.which(name, path=environment.get("PATH"))
    if profiler is None:
        raise CaptureError(
            "not found, or not to be executed" if "/" in name else "not in PATH",
            where=name,
            hint="Load the module it comes with, such as cuda or nsight-systems, or give its path.",
        )
    return profiler


def _child_environment(
    environment: Mapping[str, str], line: Line, plan: stage_out.Plan, options: CaptureOptions
) -> dict[str, str]:
    child_environment = dict(environment)
    if line.profiler.adds_suffix:
        # Ranks and users on one node would meet in the folder that nsys takes by itself.
        child_environment.setdefault("NSYS_TMPDIR", str(plan.temporary))
    if options.scratch is not None:
        child_environment["TMPDIR"] = str(options.scratch)
    return child_environment


def _write_first_record(
    record: Record, plan: stage_out.Plan, say: Callable[[str], None]
) -> Path | None:
    problem = (
        "no end is recorded: it is still running, or was killed outright; what it left is in "
        f"{plan.scratch} on {record.host}"
    )
    first = replace(record, problems=(problem,))
    try:
        return atomic_move.put_first_record(first, plan.destination, plan.expected)
    except OSError as error:
        say(f"{plan.destination}: the record could not be written: {error.strerror}")
        return None


def _make_plan(
    line: Line,
    launch: Launch,
    host: str,
    options: CaptureOptions,
    environment: Mapping[str, str],
    say: Callable[[str], None],
) -> stage_out.Plan:
    profiler = line.profiler
    outputs = line.outputs or (Output(0, "", profiler.default_name),)
    files = {output for output in outputs if output.value not in _OWN_STREAMS}
    names, places = {}, {}
    if any(is_address(output.value) for output in files):
        raise CaptureError("the output of the line is an address", hint="Name a file: -o NAME")
    for output in files:
        folder, name = patterns.split_folder(output.value)
        places[output] = _folder(patterns.expand_pattern(folder, environment, host))
        names[output] = patterns.complete_pattern(name, profiler.suffixes, launch, host)
    # The report's output comes first: where it is kept, the record is.
    in_order = sorted(files, key=lambda output: output.kind)
    if not in_order:
        raise CaptureError("the line writes no file", hint="Name one: -o NAME")
    destination = places[in_order[0]]
    scratch = None if options.scratch is None else Path(options.scratch)
    root, warning = atomic_move.scratch_root(scratch, environment, destination)
    if warning:
        say(warning)
    scratch = atomic_move.make_scratch(root)
    temporary = scratch / "tmp"
    temporary.mkdir()
    made = {output: scratch / str(number) for number, output in enumerate(in_order)}
    for folder_of_one in made.values():
        folder_of_one.mkdir()
    return stage_out.Plan(
        scratch,
        temporary,
        tuple((made[output], places[output]) for output in in_order),
        tuple(
            f"{str(made[output]).replace('%', '%%')}/{names[output]}"
            if output in files
            else output.value
            for output in outputs
        ),
        _expected(names[in_order[0]], environment, host, profiler.suffixes),
    )


def _folder(name: str) -> Path:
    folder = Path(name).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CaptureError(
            f"the folder of the output cannot be made: {reason_of(error)}", where=str(folder)
        ) from error
    return folder


def _expected(name: str, environment: Mapping[str, str], host: str, suffixes: Sequence[str]) -> str:
    name = patterns.split_suffix(name, suffixes)[0].replace("%p", str(os.getpid()))
    with suppress(CaptureError):
        name = patterns.expand_pattern(name, environment, host)
    return name.replace("/", "_")


def replace_process(program: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Replace this process by the program. Raises ProgramNotFoundError and ProgramNotRunError."""
    for name in ("SIGPIPE", "SIGXFZ", "SIGXFSZ"):  # Python ignores these, and programs inherit that
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execvpe(program[0], list(program), dict(environment))
    except FileNotFoundError:
        raise ProgramNotFoundError("command not found", where=program[0]) from None
    except OSError as error:
        reason = reason_of(error)
        raise ProgramNotRunError(reason, where=program[0]) from error


class ProgramNotFoundError(CaptureError):
    """There is no such program: a shell's status for it, as without nsysconv."""

    exit_status = 127


class ProgramNotRunError(CaptureError):
    """The program cannot be executed: a shell's status for it, as without nsysconv."""

    exit_status = 126


_TERM = re.compile(r"(rank|local|node)?(?:(\d{1,9})(?:-(\d{1,9}))?|%([1-9]\d{0,8}))", re.ASCII)
_WORDS = {"rank": "rank", "local": "local rank", "node": "number of the node"}


_NO_END = 1 << 62


@dataclass(frozen=True)
class RankFilter:
    """A choice of ranks: any of these lists of terms, all of which hold; no lists: every rank."""

    any_of: tuple[tuple[tuple[str, range], ...], ...] = ()

    def __contains__(self, launch: object) -> bool:
        """Return whether a process is chosen. Raises CaptureError where its numbers are not known."""
        assert isinstance(launch, Launch)
        if not self.any_of:
            return True
        numbers = {"rank": launch.rank, "local": launch.local_rank, "node": launch.node}
        for kind in {kind for terms in self.any_of for kind, _ in terms}:
            if numbers[kind] is None:
                raise CaptureError(
                    f"--ranks asks for the {_WORDS[kind]}, which no variable of a launcher tells",
                    hint="Start it by srun, mpirun or the like; without --ranks every process is "
                    "profiled.",
                )
        return any(all(numbers[kind] in some for kind, some in terms) for terms in self.any_of)


def parse_rank_filter(text: str | None) -> RankFilter:
    """Parse a choice of ranks: items joined by `,` (any of them), their terms by `:` (all of them).

    A term is `8`, `16-31` or `%8` (every eighth), of ranks, or with `local` or `node` before it of local
    ranks or nodes. None or `all`: every rank. Raises CaptureError for anything else.
    """
    if text is None or text == "all":
        return RankFilter()
    return RankFilter(
        tuple(tuple(_term(term, text) for term in item.split(":")) for item in text.split(","))
    )


def _term(term: str, text: str) -> tuple[str, range]:
    match = _TERM.fullmatch(term.strip())
    if match is None:
        raise CaptureError(
            f"--ranks {text!r}: {term.strip()!r} names no ranks",
            hint="Such as 0,8,16-31 or %8 (every eighth rank), local0 (the first of each node), "
            "node%4:local0 (that of every fourth node).",
        )
    kind, first, last, every = match.groups()
    if every is not None:
        return kind or "rank", range(0, _NO_END, int(every))
    return kind or "rank", range(int(first), int(last or first) + 1)
