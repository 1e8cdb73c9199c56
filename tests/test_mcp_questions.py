"""Questions of agents on real files, over MCP: few calls, few bytes, the values of the library."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import REAL, few, real

import nsysconv
from nsysconv.cli.mcp_server import server
from nsysconv.cli.tools import answer_to
from nsysconv.names import shorten

MOST_CALLS, MOST_BYTES = 2, 4000
QUESTIONS = tomllib.loads(Path(__file__).with_name("agent_questions.toml").read_text("utf-8"))["question"]


def ask(folder: Path, calls: list[dict[str, Any]]) -> list[str]:
    """The answers of a server to calls, of which a later one may use a value of the first."""
    anyio, mcp = pytest.importorskip("anyio"), pytest.importorskip("mcp")

    async def asked() -> list[str]:
        texts: list[str] = []
        async with mcp.Client(server(folder, partial(answer_to, folder))) as client:
            for call in calls:
                given = {name: filled(value, texts) for name, value in call.items() if name != "tool"}
                answer = await client.call_tool(call["tool"], given)
                (content,) = answer.content
                assert not answer.is_error, content.text
                texts.append(content.text)
        return texts

    return anyio.run(asked)


def filled(value: Any, texts: list[str]) -> Any:
    """`$reports.0.rows.0.gap` as that value of the first answer."""
    if not str(value).startswith("$"):
        return value
    found = json.loads(texts[0])
    for step in value[1:].split("."):
        found = found[int(step) if step.isdigit() else step]
    return found


def reported(call: dict[str, Any], report: str, event: str | None) -> list[dict[str, Any]]:
    """The rows that the library has."""
    target = call.get("target")
    if call["tool"] == "diff":
        found = nsysconv.compare(call["base"], call["other"], reports=call["reports"]).reports
    elif call["tool"] == "sql":
        return nsysconv.sql(target, call["query"]).rows()
    elif call["tool"] == "info":
        found = nsysconv.info(target)
    elif call["tool"] in ("why", "find"):
        with nsysconv.open(target) as profile:
            found = [profile.why(event)] if event else profile.find(call["pattern"])
    else:
        found = nsysconv.report_on(target, call.get("reports", "summary"))
    return next(each for each in found if each.name == report).rows()


def same(shown: Any, value: Any) -> bool:
    if isinstance(value, str):
        return shown in (shorten(value, 60), shorten(value, 40))
    return shown == (pytest.approx(value, abs=5e-3) if isinstance(value, float) else value)


def table() -> Iterator[str]:
    """The questions with the calls and the bytes of their answers, as rows of Markdown."""
    for question in QUESTIONS:
        texts = ask(REAL, question["calls"])
        yield f"| {question['asks']} | {len(texts)} | {sum(len(text.encode()) for text in texts):,} |"


@real
@pytest.mark.parametrize("question", few(QUESTIONS[::-1], 1), ids=lambda question: question["asks"])
def test_a_question(question: dict[str, Any]) -> None:
    calls, show = question["calls"], question.get("show")
    paths = [call[name] for call in calls for name in ("target", "base", "other") if name in call]
    if not all(any(REAL.glob(path)) for path in paths):
        pytest.skip("a real file is not there")
    texts = ask(REAL, calls)
    assert len(texts) <= MOST_CALLS
    assert all(len(text.encode()) <= MOST_BYTES for text in texts), [len(text) for text in texts]
    if show is None:
        assert json.loads(texts[-1])["title"] == calls[-1]["report"]
        return
    document = json.loads(texts[-1])
    if "check" in show:
        with chdir(REAL):
            (findings,) = nsysconv.report_on(calls[-1]["target"], "findings")
        (told,) = [each for each in document["found_nothing"] if each.startswith(show["check"])]
        assert told in next(note.text for note in findings.notes if note.slug == "rules-found-nothing")
        return
    tables = {each["name"]: each["rows"] for each in document.get("reports", [])}
    rows = tables[show["report"]] if tables else document["devices"]
    with chdir(REAL):
        event = filled(calls[-1].get("event"), texts) if "event" in calls[-1] else None
        own = reported(calls[-1], show["report"], event)
    assert rows
    for column in show["columns"]:
        assert same(rows[0][column], own[0][column]), (column, rows[0][column], own[0][column])


if __name__ == "__main__":
    print("\n".join(table()))
