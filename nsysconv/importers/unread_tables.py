"""Tables of a SQLite source that have rows and that its importer does not read, for `nsysconv info`.

They are named and counted; nothing of their rows is read. Left out are enumerations, tables of strings,
and those that hold what a store never gets (decision 0007): environment, arguments, output.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from nsysconv.errors import InputError
from nsysconv.importers.probe import Probe, quoted
from nsysconv.names import cut_off, escaped
from nsysconv.notes import Note, Severity

# Up to this many rows are counted; beyond, the row numbers say about how many there are.
COUNTED_TABLES = 50_000
_MOST_NAMED, _LONGEST_NAME = 40, 80
_LEFT_OUT = re.compile(
    r"sqlite_.*|ENUM_.*|.*Strings?|.*StringIds|.*StringTable|rocpd_u?string.*"
    r"|(?:.*_)?(?:env|environ|environment|args?|arguments|command_?lines?|stdout|stderr)(?:_.*)?",
    re.I | re.S,
)


def unread_tables_note(probe: Probe, read: Collection[str], suffix: str = "") -> list[Note]:
    """Return a note on tables with rows that are not in `read`; none if there are no such tables.

    `suffix` ends the names of a file's own tables and is not shown.
    """
    counts = {
        name: count
        for name in sorted(probe.tables.keys() - set(read))
        if not _LEFT_OUT.fullmatch(name) and (count := _row_count(probe, name))
    }
    if not counts:
        return []
    named = [
        f"{_shown(name, suffix)} ({count} {'row' if count == '1' else 'rows'})"
        for name, count in list(counts.items())[:_MOST_NAMED]
    ]
    more = len(counts) - len(named)
    text = f"tables that are not read: {', '.join(named)}" + (f" and {more:,} more" if more else "")
    return [Note("tables-not-read", Severity.INFO, text)]


def _shown(name: str, suffix: str) -> str:
    return cut_off(escaped(name.removesuffix(suffix)), _LONGEST_NAME)


def _row_count(probe: Probe, name: str) -> str:
    # As text, for there may be about so many; empty for a table without rows, or a damaged one, which
    # matters to nobody.
    table = quoted(name)
    try:
        counted = probe.select(
            f"SELECT count(*) FROM (SELECT 1 FROM {table} LIMIT {COUNTED_TABLES + 1})"
        )
        count = int(counted[0][0])
        if count <= COUNTED_TABLES:
            return f"{count:,}" if count else ""
        row_id = probe.tables[name].row_id
        if row_id is None:
            return f"more than {COUNTED_TABLES:,}"
        # One subselect each: asked for both at once, SQLite reads the whole table.
        first, last = probe.select(
            f"SELECT (SELECT min({row_id}) FROM {table}), (SELECT max({row_id}) FROM {table})"
        )[0]
        return f"about {max(last - first + 1, count):,}"
    except InputError:
        return ""
