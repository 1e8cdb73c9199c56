"""Files of other programs: what they are is told by their content, and what to do instead."""

from __future__ import annotations

import contextlib
import gzip
import io
import marshal
import pickle
import shlex
import sqlite3
import tarfile
import zipfile
from pathlib import Path

import pytest
from conftest import FIXTURES, REAL, examples, name_of, real
from hypothesis import given
from hypothesis import strategies as st

from nsysconv.errors import InputError
from nsysconv.importers import foreign, nvprof_database
from nsysconv.importers.contract import No
from nsysconv.importers.detection import detect
from nsysconv.importers.probe import Probe


def zipped(*names: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in names:
            archive.writestr(name, b"PAR1")
    return out.getvalue()


def tarred(name: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.addfile(tarfile.TarInfo(name))
    return out.getvalue()


_PACKET = bytes([0x40, 7, 0x50, 1])
_STATS = {("work.py", 1, "f"): (1, 1, 0.5, 0.5, {})}
ONNX_RUNTIME = b"""[
{"cat" : "Session","pid" :7,"tid" :7,"dur" :312,"ts" :5,"ph" : "X","name" :"model_loading_uri"},
{"cat" : "Node","pid" :7,"tid" :7,"dur" :20,"ts" :900,"ph" : "X",\
"name" :"conv1_kernel_time","args" : {"op_name" : "Conv","provider" : "CUDAExecutionProvider"}},
{"cat" : "Kernel","pid" :7,"tid" :7,"dur" :9,"ts" :905,"ph" : "X","name" :"gemm"}
]"""
PROTON = (
    b'{"baseTimeNanoseconds":5,"displayTimeUnit":"us","traceEvents":[{"args":{"name":"Trace"},'
    b'"name":"process_name","ph":"M","pid":0,"tid":0},{"args":{"call_stack":["ROOT","foo"]},'
    b'"cat":"kernel","dur":2.5,"name":"foo","ph":"X","pid":0,"tid":9,"ts":0.0}]}\n'
)
IN_KERNELS = (
    b'{"displayTimeUnit":"ns","traceEvents":[{"args":{"Finalization Time (ns)":1,"Frequency (MHz)":1e3,'
    b'"Init Time (ns)":0,"Post Final Time (ns)":9},"cat":"kernel","cname":"cq_build_passed","dur":1.0,'
    b'"name":"load","ph":"X","pid":"kernel Core0 CTA0","tid":"warp 0 (line 0)","ts":0.0}]}\n'
)
VIZTRACER = (
    b'{"traceEvents": [{"ph": "M", "pid": 1, "tid": 1, "name": "process_name", "args": {"name": "Main"}},'
    b'{"pid": 1, "tid": 1, "ts": 1.5, "ph": "X", "cat": "fee", "dur": 0.8, "name": "builtins.sum"}%s], '
    b'"viztracer_metadata": {"overflow": false, "version": "1.0.4", "baseTimeNanoseconds": 5}}'
)
MANY = b', {"pid": 1, "tid": 1, "ts": 2, "ph": "X", "cat": "fee", "dur": 0.8, "name": "f"}' * 2000
CONTENTS = {
    "pdf": (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "a PDF document"),
    "png": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "an image"),
    "elf": (b"\x7fELF\x02\x01\x01\0", "a program"),
    "empty": (b"", "empty"),
    "text": (b"a shopping list\n", "a text file, but not a profile"),
    "json": (b'{"a": 1}', "a JSON file, but not a profile"),
    "bytes": (b"\0\1\2\xff", "not a profile that nsysconv reads"),
    "noise": (bytes(range(256)) * 20, "not a profile that nsysconv reads"),
    "gzip": (b"\x1f\x8b\x08\x00", "a gzip-compressed file, but not a profile"),
    "etl": (bytes(72) + b"\x02\0\x02\xc0" + bytes(300), "wpaexporter"),
    "perf": (b"PERFILE2\x68\0\0\0", "Linux perf"),
    "parquet": (b"PAR1\x15\x04", "nsys export --type parquetdir"),
    "arrow": (b"ARROW1\0\0\xff\xff\xff\xff", "nsys export --type arrow"),
    "arrows": (b"\xff\xff\xff\xff\x78\0\0\0\x10\0\0\0\0\0", "Arrow stream"),
    "hdf": (b"\x89HDF\r\n\x1a\n\0", "HDF5"),
    "pqtdir.zip": (zipped("a_pqtdir/StringIds.parquet"), "a zip archive of Parquet files"),
    "zip": (zipped("a.sqlite"), "a zip archive"),
    "tar": (tarred("a.sqlite"), "a tar archive"),
    "zst": (b"\x28\xb5\x2f\xfd\x04\0", "zstd"),
    "memray": (b"\x04\x22\x4d\x18\x64\x40\xa7\x07memray\0", "memray"),
    "pickle": (pickle.dumps({"segments": []}), "a Python pickle"),
    "cprofile": (marshal.dumps(_STATS), "cProfile"),
    "hlo_proto": (b"\x0a\xac\x02\x0a\x08jit_step\x12\x06main.5" + bytes(300), "XLA program"),
    "pftrace": (b"".join(bytes([10, len(_PACKET)]) + _PACKET for _ in range(3)), "Perfetto"),
    "hatchet_msgpack": (b"\x92\x83\xa5frame\x82\xa4name\xa4ROOT", "Triton's Proton in MessagePack"),
    "memory.prof": (gzip.compress(b"\x0a\x04\x08\x01\x10\x02\x0a\x04\x08\x03\x10\x04\x12\x02"), "pprof"),
    "tfevents": (bytes(12) + b"\x09" + bytes(8) + b"\x1a\x0dbrain.Event:2" + bytes(4), "TensorBoard"),
    **{f"tensorflow-1.{number}": (b'{"traceEvents":[{"name":"process_name","ph":"M","pid":1,"args":'
                                  b'{"name":"%s Compute"}}]}' % name, "timeline of TensorFlow 1")
       for number, name in enumerate((b"/job:localhost/replica:0/task:0/device:GPU:0",
                                      b"/device:GPU:0/stream:all", b"/gpu:0"))},
    "rocprofv3.json": (b'{"rocprofiler-sdk-tool":[{"metadata":{}}]}', "rocprofv3"),
    "rocprof.json": (b'{"traceEvents":[{},{"args":{"name":"CPU HIP API"},"ph":"M"}]}', "rocprof"),
    "speedscope": (b'{"$schema":"https://www.speedscope.app/file-format-schema.json"}', "speedscope"),
    "onnxruntime": (ONNX_RUNTIME, "ONNX Runtime"),
    "onnxruntime.gz": (gzip.compress(ONNX_RUNTIME), "ONNX Runtime"),
    "proton.chrome_trace": (PROTON, "Chrome trace of Triton's Proton"),
    "proton.lines": (PROTON * 2, "Chrome trace of Triton's Proton"),
    "proton.instrumentation": (IN_KERNELS, "Chrome trace of Triton's Proton"),
    "viztracer": (VIZTRACER % b"", "VizTracer"),
    "viztracer.long": (VIZTRACER % MANY, "VizTracer"),
    "xla.json": (
        b'{"traceEvents":[{"ph":"M","name":"process_name","args":{"name":"/host:CPU"}}]}',
        "XLA",
    ),
    "xla.json.gz": (
        gzip.compress(
            b'{"traceEvents":[{"args":{"name":"/device:GPU:0"},"name":"process_name","ph":"M"}]}'
        ),
        "XLA",
    ),
    "rocprofv3.csv": (b'"Kind","Agent_Id","Queue_Id","Start_Timestamp"\n', "rocprofv3"),
    "pmc_perf.csv": (b"Dispatch_ID,Kernel_Name,GPU_ID,Grid_Size\n0,saxpy,0,64\n", "rocprof counters"),
    "ncu.csv": (b'==PROF== Connected to process 7\n"ID","Process ID"\n', "Nsight Compute"),
    "line_profiler": (b"Timer unit: 1e-06 s\n\nTotal time: 1 s\n", "line_profiler"),
    "page": (b"<!DOCTYPE html>\n<html>\n", "a web page"),
    "sqlite.gz": (gzip.compress(b"SQLite format 3\0" + bytes(100)), "gunzip"),
    **{f"{path.name}.gz": (gzip.compress(b"output\n" * 20_000 + path.read_bytes()), "gunzip < ")
       for path in (FIXTURES / "nvprof_log" / "basic-summary.txt",
                    FIXTURES / "nvprof_log" / "basic-gpu-trace.csv",
                    FIXTURES / "nsys_stats" / "basic-2021.txt",
                    FIXTURES / "nsys_stats" / "basic-2021-gpukernsum.csv")},
}  # fmt: skip


@pytest.mark.parametrize("name", CONTENTS)
def test_a_file_of_another_program_is_called_by_its_name(name: str, tmp_path: Path) -> None:
    content, words = CONTENTS[name]
    path = tmp_path / "unknown"
    path.write_bytes(content)
    with Probe(path) as probe, pytest.raises(InputError) as caught:
        detect(probe)
    assert words in f"{caught.value.what}\n{caught.value.hint}"
    assert caught.value.hint
    assert len(str(caught.value).splitlines()) == 2, "what it is, and what to do"
    if "gunzip" not in caught.value.hint:  # which names the file
        assert max(map(len, (caught.value.what, caught.value.hint))) <= 80


@pytest.mark.parametrize("name", ["log.gz", "my log.csv.gz"])
def test_the_command_that_unpacks_a_log_is_said(name: str, tmp_path: Path) -> None:
    log = (FIXTURES / "nvprof_log" / "basic-summary.txt").read_bytes()
    (tmp_path / name).write_bytes(gzip.compress(log)[:-4])  # damaged at its end
    with Probe(tmp_path / name) as probe, pytest.raises(InputError) as caught:
        detect(probe)
    assert caught.value.what == "nvprof log (text or CSV), compressed with gzip"
    command = (caught.value.hint or "").removeprefix("Unpack it first: ")
    assert shlex.split(command) == ["gunzip", str(tmp_path / name)]


SAMPLES = "CREATE TABLE CPU_SAMPLES (ts INT, stack INT)"
NVPROF = (
    "CREATE TABLE Version (version INT)",
    "CREATE TABLE StringTable (_id_ INTEGER PRIMARY KEY, value TEXT)",
    "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT)",
)


@pytest.mark.parametrize(("statements", "is_named"), [
    ((SAMPLES, "CREATE TABLE CPU_STACKS (id INT)"), True),
    ((*NVPROF, SAMPLES), True),
    ((*NVPROF, SAMPLES, "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1)"), False),
    (NVPROF, False),
    (("CREATE TABLE samples (id INT)", "CREATE TABLE comms (id INT)"), False),  # Linux perf
])  # fmt: skip
def test_a_database_with_samples_of_the_cpu_alone_is_named(
    statements: tuple[str, ...], is_named: bool, tmp_path: Path
) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "unknown")) as connection, connection:
        for statement in statements:
            connection.execute(statement)
    with Probe(tmp_path / "unknown") as probe:
        answer = nvprof_database.sniff(probe)
    assert (isinstance(answer, No) and answer.close) == is_named


DATABASES = {
    "RPD": ("rocpd_api", "rocpd_op", "rocpd_string"),
    "rocprof": ("KERN", "HIP"),
    "msprof": ("STRING_IDS", "CANN_API", "TASK"),
}


@pytest.mark.parametrize("name", DATABASES)
def test_a_database_of_another_profiler_is_called_by_its_name(name: str, tmp_path: Path) -> None:
    path = tmp_path / "unknown"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for table in DATABASES[name]:
            connection.execute(f"CREATE TABLE {table} (id INTEGER)")
    with Probe(path) as probe, pytest.raises(InputError) as caught:
        detect(probe)
    assert name in caught.value.what


FOLDERS = ("rocprofv3_json", "jax_xplane", "proton_json", "pftrace", "cpu_profilers")
NO_PROFILES = (".tsv", ".py")
# These lie beside files of other programs, and are profiles that an importer reads.
READ = (".xplane.pb", "__cuda.json", ".lprof", "line_profiler_5.1.0.txt", "scalene_2.4.0.json",
        "__gpu_profile.json")  # fmt: skip
FOREIGN = [
    path
    for folder in FOLDERS
    for path in sorted((REAL / folder).glob("*"))
    if path.suffix not in NO_PROFILES and "__expected_" not in path.name
    and not path.name.endswith(READ)
] or [REAL / "missing"]


@real
@pytest.mark.parametrize("path", FOREIGN, ids=name_of)
def test_a_real_file_of_another_program_is_known(path: Path) -> None:
    with Probe(path) as probe:
        assert foreign.kind_of(probe) is not None


OURS = [path for path in sorted(FIXTURES.rglob("*")) if path.is_file()]


def test_no_fixture_is_taken_for_one_of_another_program() -> None:
    for path in OURS:
        with Probe(path) as probe:
            assert foreign.kind_of(probe) is None, path


@real
def test_no_real_profile_is_taken_for_one_of_another_program() -> None:
    for folder in ("nsys_sqlite", "kineto", "nvprof_csv", "nvprof_sqlite", "nvprof_text"):
        for path in sorted((REAL / folder).iterdir()):
            with Probe(path) as probe:
                assert foreign.kind_of(probe) is None, path


def test_a_trace_of_pytorch_that_another_program_merged_is_read(tmp_path: Path) -> None:
    """VizTracer puts the events of torch.profiler beside its own."""
    operator = b', {"ph": "X", "cat": "cpu_op", "name": "mm", "pid": 1, "tid": 1, "ts": 3, "dur": 1}'
    (tmp_path / "unknown").write_bytes(VIZTRACER % operator)
    with Probe(tmp_path / "unknown") as probe:
        assert detect(probe).NAME == "kineto"


@pytest.mark.parametrize("text", [b"\nHello\n\nPeople\n", b"memray is a profiler\n", b"{}", b"[]"])
def test_plain_texts_are_nothing(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "unknown"
    path.write_bytes(text)
    with Probe(path) as probe:
        assert foreign.kind_of(probe) is None


@examples(150)
@given(
    beginning=st.sampled_from([b"", b"\x0a", b"\x0a\x04", b"\x1f\x8b\x08\0", b"{", b"["]),
    content=st.binary(max_size=400),
)
def test_looking_never_raises(
    tmp_path_factory: pytest.TempPathFactory, beginning: bytes, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any-foreign-bytes"
    path.write_bytes(beginning + content)
    with Probe(path) as probe:
        foreign.kind_of(probe)
