"""The tables of `nsys stats` on OS runtime, MPI, OpenACC and unified memory: by hand, as CSV."""

from __future__ import annotations

from typing import Any

import pytest
from small_store import (
    PID,
    Fault,
    Migration,
    MpiCall,
    Operator,
    OsrtCall,
    Range,
    Total,
    answers,
    by_hand,
    cell,
    hand_computed,
    only,
    printed,
)

from nsysconv import api
from nsysconv.errors import NotRecorded
from nsysconv.facts import Fact
from nsysconv.importers.directives import (
    OPENACC_DATA,
    OPENACC_LAUNCH,
    OPENACC_OTHER,
    Construct,
    name_rows,
)

STATISTICS = "Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns)"
OSRT = f"Time (%),Total Time (ns),Num Calls,{STATISTICS},Name"
MPI = f"Time (%),Total Time (ns),Instances,{STATISTICS},Source,Name"
MPI_TRACE = (
    "Start (ns),End (ns),Duration (ns),Event,Pid,Tid,Tag,Rank,PeerRank,RootRank,Size,CollSendSize,"
    "CollRecvSize"
)
ADDRESSES = (
    "Virtual Address,HtoD Migration Size (MB),DtoH Migration Size (MB),CPU Page Faults,"
    "GPU Page Faults,Migration Throughput (MB/s)"
)
TOTALS = (
    "Total HtoD Migration Size (MB),Total DtoH Migration Size (MB),Total CPU Page Faults,"
    "Total GPU PageFaults,Minimum Virtual Address,Maximum Virtual Address"
)
INSTRUCTIONS = "CPU Page Faults,CPU Instruction Address,Source File,Source Line"
PAGE = 0x7F0000000000


# -- OS runtime


def test_os_runtime_calls_by_function() -> None:
    # poll: 10, 30 and 20 are 60; the deviation is sqrt((10² + 10²) / 2) = 10. 60 and 40 of 100.
    rows = [OsrtCall(0, 10, "poll"), OsrtCall(20, 50, "poll"), OsrtCall(60, 80, "poll", pid=2),
            OsrtCall(5, 45, "read", tid=12)]  # fmt: skip
    assert printed("osrt_sum", *rows) == [
        OSRT,
        "60.0,60,3,20.0,20.0,10,30,10.0,poll",
        "40.0,40,1,40.0,40.0,40,40,0.0,read",
    ]


def test_os_runtime_calls_of_a_slice() -> None:
    rows = [OsrtCall(0, 10, "poll"), OsrtCall(20, 50, "poll")]
    assert printed("osrt_sum", *rows, part=api.Slice((40, 90)))[1:] == [
        "100.0,30,1,30.0,30.0,30,30,0.0,poll"
    ]


# -- MPI


def test_mpi_calls_by_function() -> None:
    # One function in two sources is two rows.
    rows = [MpiCall(0, 10, "MPI_Send"), MpiCall(20, 40, "MPI_Send"),
            MpiCall(50, 90, "MPI_Allreduce", "collective"), MpiCall(90, 95, "MPI_Wait", "wait"),
            MpiCall(0, 25, "MPI_Init", "other")]  # fmt: skip
    assert printed("mpi_event_sum", *rows) == [
        MPI,
        "40.0,40,1,40.0,40.0,40,40,0.0,collectives,MPI_Allreduce",
        "30.0,30,2,15.0,15.0,10,20,7.1,p2p,MPI_Send",
        "25.0,25,1,25.0,25.0,25,25,0.0,other,MPI_Init",
        "5.0,5,1,5.0,5.0,5,5,0.0,start-wait,MPI_Wait",
    ]


@pytest.mark.parametrize(("name", "source"), [
    ("MPI_Isend", "p2p"), ("MPI_Sendrecv", "p2p"), ("MPI_Probe", "p2p"),
    ("MPI_Iallreduce", "collectives"), ("MPI_Reduce_scatter", "collectives"),
    ("MPI_Neighbor_alltoallv", "collectives"), ("MPI_Waitall", "start-wait"),
    ("MPI_Test", "start-wait"), ("MPI_Init_thread", "other"),
])  # fmt: skip
def test_ranges_of_a_domain_named_mpi_are_its_calls(name: str, source: str) -> None:
    rows = (Range(0, 10, name, domain=3), Range(20, 50, name, domain=3), Range(0, 99, "other"))
    known: dict[str, Any] = {"domains": {(PID, 3): "MPI"}, "without": {Fact.MPI_CALLS}}
    row = only("mpi_event_sum", *rows, **known)
    assert (row["source"], row["name"], row["call_count"], row["mpi_sum_ns"]) == (source, name, 2, 40)


def test_ranges_of_no_such_domain_are_not_calls_of_mpi() -> None:
    with pytest.raises(NotRecorded, match="MPI calls"):
        answers("mpi_event_sum", Range(0, 10, "MPI_Send"), without={Fact.MPI_CALLS})


def test_mpi_calls_one_by_one() -> None:
    rows = [MpiCall(50, 90, "MPI_Bcast", "collective", root=0, bytes=4096, received=0, pid=2),
            MpiCall(0, 10, "MPI_Send", tag=7, remote=1, bytes=1500),
            MpiCall(20, 25, "MPI_Barrier", "collective")]  # fmt: skip
    assert printed("mpi_event_trace", *rows, ranks={1: 4, 2: 5}) == [
        MPI_TRACE,
        "0,10,10,MPI_Send,1,11,7,4,1,,1500,,",
        "20,25,5,MPI_Barrier,1,11,,4,,,,,",
        "50,90,40,MPI_Bcast,2,11,,5,,0,,4096,0",
    ]


def test_a_process_without_a_rank_has_an_empty_cell() -> None:
    assert cell("mpi_event_trace rank", MpiCall(0, 10, "MPI_Init", "other")) is None


# -- OpenACC


def test_openacc_by_construct_and_place() -> None:
    # The kernel behind the place does not count, nor does what OpenMP did.
    rows = [Operator(0, 10, "acc_enqueue_launch@solve.c:85 (solve_85_gpu)", "directive"),
            Operator(20, 40, "acc_enqueue_launch@solve.c:85 (other_85_gpu)", "directive"),
            Operator(50, 60, "acc_wait@solve.c:85", "directive"),
            Operator(70, 99, "OMP_PARALLEL", "directive"),
            Operator(0, 99, "acc_wait@solve.c:85")]  # fmt: skip
    assert printed("openacc_sum", *rows) == [
        OSRT,
        "75.0,30,2,15.0,15.0,10,20,7.1,Enqueue Launch@solve.c:85",
        "25.0,10,1,10.0,10.0,10,10,0.0,Wait@solve.c:85",
    ]


@pytest.mark.parametrize(
    ("construct", "shown"),
    [
        (Construct(OPENACC_LAUNCH, 4, 1, 85, 2), "Enqueue Launch@a (1).c:85"),
        (Construct(OPENACC_LAUNCH, 4, 3, 85, 2), "Enqueue Launch@b.c:85"),
        (Construct(OPENACC_LAUNCH, 4, 3, 0, 2), "Enqueue Launch@b.c"),
        (Construct(OPENACC_DATA, 5, 0, 0, 2), "Enqueue Upload"),
        (Construct(OPENACC_OTHER, 7, 3, 9, 0), "Wait@b.c:9"),
        (Construct(OPENACC_OTHER, 99, 3, 9, 0), "[OpenACC event 99]@b.c:9"),
    ],
)
def test_the_names_that_importers_give_lose_their_subject(construct: Construct, shown: str) -> None:
    (named,) = name_rows({construct: 1}, {1: "/home/me/a (1).c", 2: "f(int (*)[4])", 3: "b.c"})
    assert cell("openacc_sum name", Operator(0, 10, named["text"], "directive")) == shown


def test_names_of_totals_that_are_nsys_s_own_stay() -> None:
    row = Total("openacc_inclusive", 1, 10, 10, 10, "Wait@a.c:1")
    assert cell("openacc_sum name", row, holds={Fact.DIRECTIVE_TOTALS}) == "Wait@a.c:1"


@by_hand(
    ("constructs of a moment count", "openacc_sum",
     (Operator(1, 1, "acc_alloc@a.c:3", "directive"), Operator(5, 9, "acc_wait@a.c:3", "directive")),
     ["100.0,4,1,4.0,4.0,4,4,0.0,Wait@a.c:3",
      "0.0,0,1,0.0,0.0,0,0,0.0,Alloc@a.c:3"]),
    ("totals of openacc", "openacc_sum",
     (Total("openacc_inclusive", 2, 30, 10, 20, "acc_wait@a.c:1"),
      Total("openacc_inclusive", 1, 10, 10, 10, "acc_wait@a.c:1 (x)"),
      Total("openacc_exclusive", 2, 7, 3, 4, "acc_wait@a.c:1"),
      Total("openmp_inclusive", 1, 99, 99, 99, "OMP_PARALLEL")),
     ["100.0,40,3,13.3,,10,20,,Wait@a.c:1"], {"holds": {Fact.DIRECTIVE_TOTALS}}),
)  # fmt: skip
def test_openacc_as_printed_below_the_header(ask: str, rows: Any, expected: Any, options: Any) -> None:
    assert printed(ask, *rows, **options)[1:] == expected


def test_times_less_what_is_inside_are_another_quantity() -> None:
    row = Total("openacc_exclusive", 2, 7, 3, 4, "acc_wait@a.c:1")
    with pytest.raises(NotRecorded):
        answers("openacc_sum", row, holds={Fact.DIRECTIVE_TOTALS})


# -- unified memory


def test_unified_memory_shows_ten_addresses_by_default() -> None:
    rows = [Migration(0, 10 + i, address=PAGE + i, bytes=1000) for i in range(12)]
    assert len(answers("um_sum", *rows)) == 10
    assert [r["address"] for r in answers("um_sum:rows=2", *rows)] == [
        "0x7F0000000000", "0x7F0000000001"]  # fmt: skip
    assert len(answers("um_sum:rows=0", *rows)) == len(answers("um_sum:rows=-1", *rows)) == 12


def test_addresses_of_equal_throughput_are_in_order() -> None:
    rows = [Migration(0, 10, address=PAGE + i) for i in (2, 0, 1)]
    assert [r["address"][-1] for r in answers("um_sum", *rows)] == ["0", "1", "2"]


def test_unified_memory_where_nothing_happened() -> None:
    assert printed("um_total_sum")[1:] == ["0.000,0.000,0,0,,"]
    assert printed("um_sum")[1:] == []


def test_addresses_of_the_upper_half() -> None:
    # 64 bits without a sign, kept with one: behind all others.
    rows = [Migration(0, 10, address=-4096), Migration(0, 10, address=4096)]
    assert cell("um_total_sum first_address last_address", *rows) == ("0x1000", "0xFFFFFFFFFFFFF000")
    assert [r["address"] for r in answers("um_sum", *rows)] == ["0x1000", "0xFFFFFFFFFFFFF000"]


def test_totals_of_unified_memory() -> None:
    rows = [Total("unified_memory", 2, 30, direction="HtoD", bytes=3_000_000),
            Total("unified_memory", 1, 5, direction="HtoD", bytes=1_000_000, device=1),
            Total("unified_memory", 1, 5, direction="DtoD", bytes=99)]  # fmt: skip
    holds = {Fact.UNIFIED_MEMORY_TOTALS}
    assert printed("um_total_sum", *rows, holds=holds)[1:] == ["4.000,0.000,,,,"]
    with pytest.raises(NotRecorded):
        answers("um_sum", *rows, holds=holds)


test_unified_memory = hand_computed(
    ("unified memory without page faults", "um_sum htod_bytes_sum cpu_fault_count gpu_fault_count",
     (Migration(0, 10, address=PAGE),), [(1000, None, None)], {"without": {Fact.PAGE_FAULTS}}),
    ("unified memory without page faults (2)",
     "um_total_sum dtoh_bytes_sum cpu_fault_count gpu_fault_count", (Migration(0, 10, address=PAGE),),
     [(0, None, None)], {"without": {Fact.PAGE_FAULTS}}),
    ("unified memory of a slice", "um_sum htod_bytes_sum cpu_fault_count",
     (Migration(0, 200, address=PAGE), Migration(300, 400, address=PAGE, bytes=10),
      Fault(0, None, PAGE), Fault(350, None, PAGE)), [(10, 1)], {"time": (300, 500)}),
)  # fmt: skip


test_unified_memory_as_printed = hand_computed(
    # The first page: 3,000,000 B in 300 ns one way and 1,000,000 B in 100 ns the other. A second is
    # 2,500,000 times 400 ns: 4,000,000 B × 2,500,000. The next moved 1000 B in 7 ns: 1000 B × the
    # whole part of 142,857,142.86.
    ("unified memory by address", "um_sum",
     (Migration(0, 200, address=PAGE, bytes=2_000_000),
      Migration(200, 300, address=PAGE, bytes=1_000_000),
      Migration(300, 400, address=PAGE, bytes=1_000_000, direction="DtoH"),
      Migration(400, 407, address=PAGE + 4096, bytes=1000),
      Migration(500, 600, address=PAGE + 8192, bytes=9, direction="DtoD"), Fault(0, None, PAGE),
      Fault(1, None, PAGE), Fault(0, 5, PAGE + 4096, "gpu", 3), Fault(0, 5, PAGE + 4096, "gpu", 2),
      Fault(7, None, PAGE + 12288)),
     [ADDRESSES,
      "0x7F0000000000,3.000,1.000,2,,10000000.000",
      "0x7F0000001000,0.001,,,5,142857.142",
      "0x7F0000003000,,,1,,"]),
    ("unified memory in all", "um_total_sum",
     (Migration(0, 200, address=PAGE, bytes=2_000_000),
      Migration(300, 400, address=PAGE + 4096, bytes=1_234_567, direction="DtoH"),
      Migration(500, 600, address=PAGE + 8192, bytes=9, direction="DtoD"),
      Fault(0, None, PAGE + 12288), Fault(0, 5, PAGE - 4096, "gpu", 3), Fault(0, 5, PAGE, "gpu", 2)),
     [TOTALS,
      "2.000,1.235,1,5,0x7EFFFFFFF000,0x7F0000003000"]),
    ("cpu page faults by instruction", "um_cpu_page_faults_sum",
     (Fault(0, None, PAGE, instruction="0x40"),
      Fault(1, None, PAGE, instruction="0x44", line=7, file="a.c"),
      Fault(2, None, PAGE, instruction="0x44", line=7, file="a.c"), Fault(2, 3, PAGE, "gpu", 9),
      Fault(3, None, PAGE)),
     [INSTRUCTIONS,
      "2,0x44,a.c,7",
      "1,,,",
      "1,0x40,,"]),
    by=printed,
)  # fmt: skip


# -- names


@pytest.mark.parametrize(
    ("old", "new"),
    [("nvtxsum", "nvtx_sum"), ("nvtxppsum", "nvtx_pushpop_sum"), ("nvtxpptrace", "nvtx_pushpop_trace"),
     ("nvtxsssum", "nvtx_startend_sum"), ("nvtxkernsum", "nvtx_kern_sum"), ("osrtsum", "osrt_sum"),
     ("nvtxgpuproj", "nvtx_gpu_proj_trace"), ("openaccsum", "openacc_sum"), ("unifiedmemory", "um_sum"),
     ("unifiedmemorytotals", "um_total_sum"), ("umcpupagefaults", "um_cpu_page_faults_sum")],
)  # fmt: skip
def test_tables_answer_to_their_older_names(old: str, new: str) -> None:
    assert printed(old) == printed(new)
