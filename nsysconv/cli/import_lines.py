"""What is told of an import: of few files each, of many the first, and how many there were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from nsysconv.api.importing import ImportResult, RunResult
from nsysconv.api.inputs import Lost
from nsysconv.api.intake import FileResult
from nsysconv.facts import Fact
from nsysconv.names import visible, visible_lines
from nsysconv.notes import Note
from nsysconv.store.places import Place
from nsysconv.store.write import Imported

_FACTS_SHOWN = 4
# Of a kind of outcome so many are told one by one.
_SHOWN = 20
_REASONS_SHOWN = 10

Say = Callable[[str], None]


def write(result: ImportResult, tell: Say, say: Say, *, named: bool) -> None:
    """What came in, by `tell`; what did not, by `say`. `named`: a label or tags were asked for."""
    came = [each for file in result.files for each in file.imported]
    several = len(result.files) + len(result.passed) > 1 or len(came) > 1
    shown = 0
    for file in result.files:
        for each in file.imported:
            shown += 1
            if shown <= _SHOWN:
                _profile(each, result.store, tell, named=named)
    _further(came[_SHOWN:], tell)
    _failed([file for file in result.files if file.error and not file.skipped], "nsysconv: ", say)
    _failed([file for file in result.files if file.error and file.skipped], "skipped: ", say)
    _listed_lines(
        [f"not read: {each.path}: {each.reason}" for each in result.passed],
        "recordings that are there in another form",
        say,
    )
    _listed_lines([_lost(each) for each in result.lost], "lost ranks", say)
    if several and came:
        _summary(result, came, tell)
    if result.rank_from is not None:
        say(
            "No rank is known. If the number in the files' names is the rank, "
            f"import again with --replace --rank-from '{visible(result.rank_from)}'"
        )


def _profile(imported: Imported, store: Place, tell: Say, *, named: bool) -> None:
    """What became of a recording. `named`: a label or tags were asked for it."""
    if imported.existing:
        # The label and tags asked for may be others: then it must be plain that they were not taken.
        under = f" as {imported.label}" if named else ""
        advice = "; --replace gives new labels and tags" if named else ""
        tell(f"{store}@{imported.label}: already imported{under}, nothing changed{advice}")
        return
    rows = [f"{count:,} {name}" for name, count in imported.row_counts.items() if count]
    tell(f"{store}@{imported.label}: {', '.join(rows) if rows else 'no events'}")
    if imported.missing:
        tell(f"  not recorded: {_facts(imported.missing, f'{store}@{imported.label}')}")
    for note in imported.notes:
        tell(_note(note))


def _note(note: Note) -> str:
    count = f" ({note.count:,})" if note.count > 1 else ""
    where = f", first at {note.where}" if note.where else ""
    return f"  {note.severity.value}: {note.text}{count}{where} [{note.slug}]"


def _facts(missing: Sequence[Fact], target: str) -> str:
    """The first few facts, which most reports ask for, and where the others are listed."""
    shown = ", ".join(fact.label for fact in missing[:_FACTS_SHOWN])
    rest = len(missing) - _FACTS_SHOWN
    return shown if rest <= 0 else f"{shown} and {rest} more; see nsysconv info {target}"


def _further(rest: Sequence[Imported], tell: Say) -> None:
    """Profiles that are not told one by one."""
    if not rest:
        return
    there = sum(each.existing for each in rest)
    if there < len(rest):
        rows = sum(sum(each.row_counts.values()) for each in rest if not each.existing)
        tell(f"and {len(rest) - there:,} more profiles: {rows:,} rows")
        notes = Counter(note.slug for each in rest for note in each.notes)
        for text in _counted(notes):
            tell(f"  with the note {text}")
    if there:
        tell(f"and {there:,} more that were imported already")


def _failed(files: Sequence[FileResult], prefix: str, say: Say) -> None:
    for file in files[:_SHOWN]:
        say(f"{prefix}{visible_lines(str(file.error))}")
    rest = files[_SHOWN:]
    if rest:
        say(f"{prefix}{len(rest):,} more files")
        for text in _counted(Counter(file.error.what for file in rest if file.error)):
            say(f"  {visible(text)}")


def _listed_lines(lines: Sequence[str], what: str, say: Say) -> None:
    for line in lines[:_SHOWN]:
        say(visible(line))
    if len(lines) > _SHOWN:
        say(f"and {len(lines) - _SHOWN:,} more {what}")


def _counted(counts: Counter[str]) -> Iterable[str]:
    """The most frequent, with their numbers."""
    for text, count in counts.most_common(_REASONS_SHOWN):
        yield f"{text} ({count:,})"
    rest = len(counts) - _REASONS_SHOWN
    if rest > 0:
        yield f"and {rest:,} others"


def _lost(lost: Lost) -> str:
    told = lost.record
    who = "a process" if told.rank is None else f"rank {told.rank}"
    why = "; ".join(told.problems) or f"see {lost.path}"
    return f"{who} left no report: {why}"


def _summary(result: ImportResult, came: Sequence[Imported], tell: Say) -> None:
    """How much it was altogether, and who is there of each run of ranks."""
    new = sum(not each.existing for each in came)
    parts = [f"{new:,} {_plural('profile', new)} of {_files(result)}"]
    if new < len(came):
        parts.append(f"{len(came) - new:,} already there")
    parts.append(f"{len(result.runs):,} {_plural('run', len(result.runs))}")
    tell(f"{result.store}: {', '.join(parts)}")
    ranked = [run for run in result.runs if run.census.ranks and len(run.census.profiles) > 1]
    for run in ranked[:_SHOWN]:
        for line in _run(run):
            tell(line)
    if len(ranked) > _SHOWN:
        tell(f"and {len(ranked) - _SHOWN:,} more runs; see nsysconv runs {result.store}")


def _run(run: RunResult) -> list[str]:
    ranks, hosts = len(run.census.ranks), len(run.census.hosts)
    text = f"run {run.label}: {ranks:,} {_plural('rank', ranks)}"
    if hosts:
        text += f" on {hosts:,} {_plural('host', hosts)}"
    return [text, *map(_note, run.census.notes())]


def _files(result: ImportResult) -> str:
    count = sum(bool(file.imported) for file in result.files)
    return f"{count:,} {_plural('file', count)}"


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
