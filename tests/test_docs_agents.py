"""docs/SKILL.md and docs/llms.txt: short, and each mistake is one, with the figures that they give."""

from __future__ import annotations

import json
import shlex
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES
from docs_agents import FILES, MISTAKES, WHOLE, Mistake
from golden_cases import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fixtures by the names that the page gives them."""
    made = tmp_path_factory.mktemp("agents")
    for name, path in FILES.items():
        shutil.copy(FIXTURES / path, made / name)
    return made


def by_hand(each: Mistake, folder: Path) -> str:
    path = folder / next(word for word in each.command.split() if word in FILES)
    with closing(sqlite3.connect(path)) as connection:
        try:
            ((value,),) = connection.execute(each.sql).fetchall()
        except sqlite3.OperationalError as error:
            return str(error)
    return str(value)


def value(table: dict[str, Any], at: str) -> Any:
    """`rows.0.name`, `sum.name`, `rows_total`, or the row of that part or fact."""
    kind, _, name = at.partition(".")
    if kind == "rows":
        return table["rows"][int(name.split(".")[0])][name.split(".")[1]]
    if kind == "sum":
        return sum(row[name] for row in table["rows"])
    if at in table:
        return table[at]
    (row,) = [row for row in table["rows"] if at in (row.get("part"), row.get("fact"))]
    return row.get("change_ns", row.get("recorded"))


@pytest.mark.parametrize("each", MISTAKES, ids=lambda each: each.title)
def test_the_query_is_wrong_and_the_command_right(each: Mistake, folder: Path) -> None:
    assert by_hand(each, folder) == each.gives
    done = run(*shlex.split(each.command), "-f", "json", "--brief", cwd=folder)
    assert done.status == 0, done.err
    tables = json.loads(done.out)["reports"]
    assert str(value(tables[-1], each.at)) == each.right
    assert each.gives != each.right


def test_the_pages_are_short_and_have_ten_mistakes() -> None:
    assert len(MISTAKES) >= 10
    for name, lines in WHOLE.items():
        text = list(lines())
        assert len(text) <= 120, name
    assert "account" in "\n".join(WHOLE["SKILL.md"]())
