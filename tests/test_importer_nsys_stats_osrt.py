"""Tables of the OS runtime that nsys prints, in all words and layouts, answer `osrt_sum`."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from importing import only_note as note
from importing import read, totals_of
from nsys_stats_tables import AGES, SECRET, Age, Rows
from write_nsys_stats import GERMAN, built_in, column, csv_, json_, table, tsv

from nsysconv import api
from nsysconv.errors import InputError
from nsysconv.facts import Fact


def osrt(age: Age, names: tuple[str, ...] = ("poll", "pthread_cond_wait")) -> Rows:
    """3000 of 4000 ns in two calls of 900 and 2100, 1000 in one: 1200 / sqrt(2) is 848.5."""
    figures = {
        "Av": ("1500.0", "1000.0"), "Me": ("1500.0", "1000.0"), "Mi": (900, 1_000), "Ma": (2_100, 1_000),
        "St": ("848.5", "0.0"),
    }  # fmt: skip
    header = (*age.time[:2], age.calls, *age.time[2:], "Name")
    cells = []
    for i, first in enumerate(((Decimal("75.0"), 3_000, 2), (Decimal("25.0"), 1_000, 1))):
        found = (figures[word[:2]][i] for word in age.time[2:])
        others = (Decimal(value) if isinstance(value, str) else value for value in found)
        cells.append((*first, *others, names[i]))
    return Rows("osrt", header, tuple(cells))


NEW, OF_2021 = AGES["2025"], AGES["2021"]
TITLE = "Operating System Runtime API Statistics"
FORMS: dict[str, Callable[[], str]] = {
    "2019": lambda: f"Generating {TITLE}...\n{TITLE} (nanoseconds)\n\n{built_in(osrt(AGES['2019']))}",
    "2020": lambda: f"{TITLE}:\n\n{column(osrt(AGES['2020']))}",
    "2021, German": lambda: f"{TITLE}:\n\n{column(osrt(OF_2021), GERMAN)}",
    "2022, profile": lambda: f"[4/8] Executing 'osrtsum' stats report\n\n{column(osrt(AGES['2022']))}",
    "2022": lambda: f" ** OS Runtime Summary (osrtsum):\n\n{column(osrt(AGES['2022']))}",
    "2025": lambda: f" ** OS Runtime Summary (osrt_sum):\n\n{column(osrt(NEW))}",
    "boxes": lambda: f" ** OS Runtime Summary (osrt_sum):\n\n{table(osrt(NEW))}",
    "announced CSV": lambda: f"Processing [x.sqlite] with [/opt/osrt_sum.py]... \n{csv_(osrt(NEW))}",
    "CSV": lambda: csv_(osrt(NEW)),
    "TSV": lambda: tsv(osrt(NEW)),
    "JSON": lambda: json_(osrt(NEW)),
    "column": lambda: column(osrt(NEW)),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_file_of_nothing_else_is_read(form: str, tmp_path: Path) -> None:
    (tmp_path / "printed").write_text(FORMS[form]())
    with api.open(tmp_path / "printed") as profile:
        rows = profile.report("osrt_sum").rows()
        assert profile.profile.facts == {Fact.OSRT_TOTALS}
    columns = ("name", "osrt_pct", "osrt_sum_ns", "call_count", "avg_ns", "min_ns", "max_ns")
    assert [[row[c] for c in columns] for row in rows] == [
        ["poll", 75.0, 3_000, 2, 1500.0, 900, 2_100],
        ["pthread_cond_wait", 25.0, 1_000, 1, 1000.0, 1_000, 1_000],
    ]
    medians = [None, None] if form[:4] in ("2019", "2020", "2021") else [1500.0, 1000.0]
    deviations = [None, None] if form[:4] in ("2019", "2020") else [848.5, 0.0]
    assert [row["med_ns"] for row in rows] == medians
    assert [row["stddev_ns"] for row in rows] == deviations


def test_it_is_no_table_of_the_cuda_api(tmp_path: Path) -> None:
    """Both have one header; what is in one is not in the report of the other."""
    calls = csv_(osrt(NEW, ("cudaMalloc", "cudaFree")))
    with read(f"{calls}\n{csv_(osrt(NEW))}") as profile:
        assert [(row["kind"], row["name"]) for row in totals_of(profile)] == [
            ("api_call", "cudaMalloc"), ("api_call", "cudaFree"), ("osrt_call", "poll"),
            ("osrt_call", "pthread_cond_wait")]  # fmt: skip


def test_calls_that_may_be_of_the_system_are_left_out(tmp_path: Path) -> None:
    """syscall_sum has the same header, and `poll` and `read` are functions of both."""
    (tmp_path / "printed").write_text(csv_(osrt(NEW, ("poll", "read"))))
    with (
        pytest.raises(InputError, match="a table of calls that nothing names"),
        api.open(tmp_path / "printed"),
    ):
        pass


@pytest.mark.parametrize(("age", "words"), [("2025", ("Host-to-Device", "")), ("2022", ("HtoD", ""))])
def test_medians_and_deviations_of_sizes(age: str, words: tuple[str, str], tmp_path: Path) -> None:
    """As they are printed, in 10^6 bytes."""
    header = "Total (MB),Count,Avg (MB),Med (MB),Min (MB),Max (MB),StdDev (MB),Operation\n"
    row = f"9.000,4,2.250,2.125,0.001,4.750,1.936,[CUDA memcpy {words[0]}]\n"
    name = "cuda_gpu_mem_size_sum" if age == "2025" else "gpumemsizesum"
    (tmp_path / "printed").write_text(
        f"Processing [/{SECRET}/x.sqlite] with [/opt/{name}.py]... \n{header}{row}"
    )
    with api.open(tmp_path / "printed") as profile:
        (found,) = profile.report("cuda_gpu_mem_size_sum").rows()
    assert (found["bytes_med"], found["bytes_stddev"]) == (2_125_000.0, 1_936_000.0)


def test_sizes_without_a_printed_median_have_no_median() -> None:
    header = "Total (MB),Count,Avg (MB),Min (MB),Max (MB),Operation\n"
    with read(f"{header}1.000,1,1.000,1.000,1.000,[CUDA memset]\n") as profile:
        (row,) = totals_of(profile)
        assert not {"bytes_med", "bytes_stddev"} & row.keys()
        assert note(profile, "rounded-bytes").count == 1
