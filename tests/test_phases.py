"""Marks of our own phases: ranges while a profiler listens, nothing otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from nsysconv import phases
from nsysconv.phases import phase


@pytest.fixture
def marks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """What is told to NVTX: (begin or end, name, domain)."""
    told: list[tuple[str, str, str]] = []

    @contextmanager
    def annotate(name: str, domain: str) -> Iterator[None]:
        told.append(("begin", name, domain))
        try:
            yield
        finally:
            told.append(("end", name, domain))

    monkeypatch.setattr(phases, "nvtx", SimpleNamespace(annotate=annotate))
    return told


def test_phases_nest_in_our_domain(marks: list[tuple[str, str, str]]) -> None:
    with phase("import"), phase("read kernel"):
        pass
    assert marks == [
        ("begin", "import", "nsysconv"), ("begin", "read kernel", "nsysconv"),
        ("end", "read kernel", "nsysconv"), ("end", "import", "nsysconv"),
    ]  # fmt: skip


def test_a_failing_phase_ends_too(marks: list[tuple[str, str, str]]) -> None:
    with pytest.raises(KeyError), phase("compute"):
        raise KeyError
    assert marks[-1] == ("end", "compute", "nsysconv")


def test_the_real_marks_do_no_harm() -> None:
    """With the nvtx package where there is one; nobody listens."""
    with phase("import"):
        reached = True
    assert reached


def test_without_nvtx_a_phase_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "nvtx", None)
    with phase("import"):
        reached = True
    assert reached
