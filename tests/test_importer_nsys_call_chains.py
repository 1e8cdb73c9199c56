"""Who made API calls, by the call chains that exports hold (`nsys profile --cudabacktrace`)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from shutil import copyfile

import pytest
from conftest import FIXTURES, REAL, by_turns, few, real
from small_store import Call, Kernel, opened

from nsysconv import api
from nsysconv.api import OpenProfile

DDL = "id INTEGER, symbol INTEGER, module INTEGER, unresolved INTEGER, ip INTEGER, stackDepth INTEGER"
TEXTS = {
    900: "0x7fd9907", 901: "cudaMalloc", 902: "Pool::grow(int)", 903: "main", 904: "_start",
    905: "cudaError cudaLaunchKernel<char>(char const*, dim3)", 906: "step()",
    910: "/usr/lib/libcuda.so.535.1", 911: "/opt/cuda/lib64/libcudart.so.12", 912: "/home/me/app",
}  # fmt: skip
# Of cudaMalloc: the driver, the runtime, the program; of cudaLaunchKernel_v7000 with a stub.
OF_MALLOC = ((900, 910, 1), (901, 911, None), (902, 912, None), (903, 912, 0), (904, 912, None))
OF_LAUNCH = ((900, 910, None), (905, 912, None), (906, 912, None), (903, 912, None))
MALLOC, LAUNCH = 101, 110


def with_chains(folder: Path, *, offset: int = 0, wrapped: bool = False) -> Path:
    """The example with call chains 1 of its cudaMalloc 101 and 2 of its launch 110.

    `offset`: by how much the numbers of chains are larger than those in calls. `wrapped`: rows around
    the calls have these numbers, and not the calls.
    """
    path = folder / "chains.sqlite"
    copyfile(FIXTURES / "nsys" / "basic-3.24.7.sqlite", path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE CUDA_CALLCHAINS ({DDL})")
        connection.executemany("INSERT INTO StringIds (id, value) VALUES (?, ?)", TEXTS.items())
        for number, frames in enumerate((OF_MALLOC, OF_LAUNCH), 1):
            connection.executemany(
                "INSERT INTO CUDA_CALLCHAINS VALUES (?, ?, ?, ?, 0, ?)",
                [(number + offset, *frame, depth) for depth, frame in enumerate(frames)],
            )
        for number, call in enumerate((MALLOC, LAUNCH), 1):
            table = "CUPTI_ACTIVITY_KIND_RUNTIME"
            if wrapped:
                connection.execute(
                    f"INSERT INTO {table} SELECT start - 1, end + 1, 67, globalTid, correlationId, "
                    f"nameId, returnValue, ? FROM {table} WHERE correlationId = ?", (number, call)
                )  # fmt: skip
            else:
                connection.execute(
                    f"UPDATE {table} SET callchainId = ? WHERE correlationId = ?", (number, call)
                )
    return path


def callers(profile: OpenProfile) -> dict[int, str]:
    rows = profile.sql("SELECT correlation_id, caller_name FROM v_api_call").rows()
    return {row["correlation_id"]: row["caller_name"] for row in rows if row["caller_name"]}


@pytest.mark.parametrize(("offset", "wrapped"), by_turns([0, 1], [False, True], 2))
def test_the_innermost_function_of_the_program_called(
    tmp_path: Path, offset: int, wrapped: bool
) -> None:
    path = with_chains(tmp_path, offset=offset, wrapped=wrapped)
    with api.open(path) as profile:
        assert callers(profile) == {MALLOC: "Pool::grow(int)", LAUNCH: "step()"}
    api.import_files([path], tmp_path / "stored.db")
    with api.open(tmp_path / "stored.db") as profile:
        assert callers(profile) == {MALLOC: "Pool::grow(int)", LAUNCH: "step()"}


def test_only_names_of_callers_are_read(tmp_path: Path) -> None:
    with api.open(with_chains(tmp_path)) as profile:
        names = {row["text"] for row in profile.sql("SELECT text FROM name").rows()}
    assert names & set(TEXTS.values()) == {"Pool::grow(int)", "step()"}


@pytest.mark.parametrize("damage", few([
    "UPDATE CUDA_CALLCHAINS SET symbol = 'x'", "UPDATE CUDA_CALLCHAINS SET symbol = 12345",
    "UPDATE CUDA_CALLCHAINS SET unresolved = 1", "DELETE FROM CUDA_CALLCHAINS",
    "UPDATE StringIds SET value = '[Broken backtraces]' WHERE id BETWEEN 900 AND 909",
], 2))  # fmt: skip
def test_without_a_name_nobody_called(tmp_path: Path, damage: str) -> None:
    path = with_chains(tmp_path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(damage)
    with api.open(path) as profile:
        assert not callers(profile)
        assert profile.report("api_vs_kernel").rows()


def test_findings_name_who_made_most_of_the_calls() -> None:
    """Of those after the first, which makes the context: two are step's, one is other's, one unknown."""
    callers = ("first()", "other()", "step()", None, "step()")
    rows = [Kernel(0, 1_000_000, 1)]
    for number, caller in enumerate(callers, 2):
        start = 1_000_000 * (2 * number - 3)
        rows.append(Call(start, start + 1_000_000, 0, name="cudaMalloc_v3020", caller=caller))
        rows.append(Kernel(start + 1_000_000, start + 2_000_000, number))
    with opened(*rows) as profile:
        found = {row["rule"]: row["finding"] for row in profile.report("findings").rows()}
    assert found["allocation"].endswith("4.00 ms of it in cudaMalloc called by step().")


def test_why_names_the_caller(tmp_path: Path) -> None:
    path = with_chains(tmp_path)
    with api.open(path) as profile:
        kernel = profile.sql(
            f"SELECT count(*) AS n FROM kernel WHERE id <= (SELECT id FROM kernel "
            f"WHERE correlation_id = {LAUNCH})"
        ).rows()[0]["n"]  # fmt: skip
        assert profile.why(f"kernel:{kernel}").rows()[0]["caller"] == "step()"


@real
def test_a_real_export_numbers_its_chains_from_one() -> None:
    """Its calls number them from 0: taken as they are, its copies would be launches."""
    path = REAL / "nsys_sqlite" / "hpcgroup+pipit__saxpy-mpi-cuda_nsys_perlmutter0.sqlite"
    with api.open(path) as profile:
        rows = profile.sql(
            "SELECT name, caller_name, count(*) AS n FROM v_api_call GROUP BY name, caller_name"
        ).rows()
        found = {row["rule"]: row["finding"] for row in profile.report("findings").rows()}
    by_call = {(row["name"], row["caller_name"]): row["n"] for row in rows}
    assert by_call["cudaLaunchKernel", "saxpy(double*, double*, double*, double, int)"] == 5
    assert by_call["cudaMemcpy", "main"] == 15
    assert by_call["cudaMalloc", "main"] == 15
    assert "(cudaMemcpy called by main)" in found["synchronous_copies"]
