"""A workload's machine and recording as rows of Nsight Systems' tables, with planted secrets.

Real exports hold environments, user names and program output in many places. Here each such place
holds a text with `SECRET-` and the name of the place in it; nothing with that text may ever leave
the file. Harmless facts (ranks, visible devices) stand beside them in the same spelling.
"""

from __future__ import annotations

from nsys_rows import (
    REPORTERS,
    SESSION_RAW_NS,
    SEVERITIES,
    VM,
    Export,
    global_pid,
    global_tid,
    ranked,
)
from workload import Device, Process, Stream, Workload

DATE = "2026-01-01T00:00:00"
# What the first strings of every export are.
FIRST_STRINGS = (
    "[Unknown]", "[kernel.kallsyms]", "[Max depth]", "[Broken backtraces]", "[Called from Java]",
    "GpuMetrics", "mm_", "task_submit", "class_id", "syncpt_id", "syncpt_thresh", "pid", "tid",
    "FTrace", "ETW",
)  # fmt: skip
NO_PROCESS = -144115188075855872


def add_session(out: Export, workload: Workload) -> None:
    """Add everything that is not an event of the program."""
    _add_strings(out, workload)
    _add_processes(out, workload)
    _add_machine(out, workload)
    for device in workload.devices:
        _add_gpu(out, device)
    for process in workload.processes:
        for ordinal, device in enumerate(process.devices):
            _add_gpu_of_process(out, process, ordinal, device)
    _add_contexts(out, workload.streams)
    for green in workload.green_contexts:
        out.add("TARGET_INFO_CUDA_CONTEXT_INFO", nullStreamId=7, hwId=0, vmId=1,
                processId=green.process.pid, deviceId=green.ordinal, contextId=green.context_id,
                parentContextId=green.parent_id, isGreenContext=1, numMultiprocessors=16)  # fmt: skip
    _add_capture(out, workload)
    _add_export(out, workload)
    _add_diagnostics(out, workload)


def _add_strings(out: Export, workload: Workload) -> None:
    for text in FIRST_STRINGS:
        out.string(text)
    out.string("SECRET-strings-unreferenced")
    # Environments of processes are single strings, variables apart by NUL.
    variables = [f"{name}={value}" for name, value in workload.environment]
    out.string("\0".join([*variables, "HF_TOKEN=SECRET-strings-environment", ""]))


def _add_processes(out: Export, workload: Workload) -> None:
    if workload.mpi_traced and out.age.version < (3, 0, 0):
        # MPI was traced by way of NVTX then: the rank is a thread's name.
        names = {process.pid: f"MPI Rank {rank}" for process, rank in ranked(workload.processes)}
    else:
        names = {}
    for thread in workload.threads:
        main = thread.tid == thread.process.pid
        renamed = names.get(thread.process.pid) if main else None
        out.add("ThreadNames", nameId=out.string(renamed or thread.name),
                priority=0 if renamed else thread.priority, globalTid=global_tid(thread))  # fmt: skip
        if renamed:
            out.add("NVTX_EVENTS", start=300, eventType=39, text=renamed, domainId=0,
                    globalTid=global_tid(thread))  # fmt: skip
    for process in workload.processes:
        out.add("PROCESSES", globalPid=global_pid(process), pid=process.pid, name=process.name)
        path = f"/tmp/nvidia/nsight_systems/quadd_session_1/streams/pid_{process.pid}_stdout.log"
        out.add("ProcessStreams", globalPid=global_pid(process), filenameId=out.string(path),
                contentId=out.string("SECRET-process-output\n"))  # fmt: skip
    # A process of somebody else's that the profiler saw.
    other = VM | 77 << 24
    out.add("ThreadNames", nameId=out.string("SECRET-thread-name"), priority=20,
            globalTid=other | 77)  # fmt: skip
    out.add("PROCESSES", globalPid=other, pid=77, name="SECRET-process-name")
    if workload.mpi_traced:
        for thread in workload.threads:
            if thread.process.rank is not None:
                out.add("MPI_RANKS", globalTid=global_tid(thread), rank=thread.process.rank)


def _add_machine(out: Export, workload: Workload) -> None:
    end = workload.duration_ns
    out.add("ANALYSIS_DETAILS", globalVid=VM, duration=end, startTime=SESSION_RAW_NS,
            stopTime=SESSION_RAW_NS + end)  # fmt: skip
    out.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=workload.zero_utc_ns, utcTime=DATE,
            localTime=DATE, systemClockNs=SESSION_RAW_NS)  # fmt: skip
    variables = [f"{name}={value}" for name, value in workload.environment]
    facts = (
        ("CpuCores", 1, "64"),
        ("CpuArchitecture", 3, "x86_64"),
        ("CpuDescription", 13, "AMD EPYC 7763 64-Core Processor"),
        ("TargetInstallDir", 170,
         f"/opt/nvidia/nsight-systems/{out.age.product.rpartition('.')[0]}/target-linux-x64"),
        ("NvDriverVersion", 205, workload.driver_version),
        ("OsDescription", 605, "Ubuntu 22.04.5 LTS"),
        ("DeviceEnvironment", 610, "\n".join([*variables, "TOKEN=SECRET-device-environment"])),
        ("CudaDriverVersion", 611, str(workload.cuda_version)),
        ("Hostname", 619, workload.host),
    )  # fmt: skip
    for name, number, value in facts:
        out.add("TARGET_INFO_SYSTEM_ENV", globalVid=VM, devStateName="Local (CLI)", name=name,
                nameEnum=number, value=value)  # fmt: skip
    out.add("ANALYSIS_FILE", id=0, filename="/home/SECRET-file-name/nsys-config.ini",
            content="SECRET-file-content", contentId=out.string("SECRET-file-content"),
            globalPid=VM)  # fmt: skip
    out.add("OSRT_FILE_ACCESS_DESCRIPTORS", fileAccessId=0, processId=workload.processes[0].pid,
            openedAt=0, closedAt=0, filePath="/home/SECRET-opened-file/.netrc")  # fmt: skip


def _add_gpu(out: Export, gpu: Device) -> None:
    out.add(
        "TARGET_INFO_GPU",
        vmId=VM, deviceId=gpu.gpu_id, id=gpu.gpu_id, name=gpu.name, busLocation=gpu.bus_id,
        isDiscrete=1, l2CacheSize=41943040, totalMemory=gpu.memory_bytes,
        memoryBandwidth=1555200000000, clockRate=1410000000, smCount=gpu.sm_count,
        pwGpuId=gpu.gpu_id, uuid=gpu.uuid, luid=0, chipName=gpu.chip, cuDevice=0,
        ctxswDevPath="", ctrlDevPath="", revision=161, nodeMask=0, constantMemory=65536, maxIPC=4,
        maxRegistersPerBlock=65536, maxShmemPerBlock=49152, maxShmemPerBlockOptin=166912,
        maxShmemPerSm=167936, maxRegistersPerSm=65536, threadsPerWarp=32, asyncEngines=3,
        maxWarpsPerSm=64, maxBlocksPerSm=32, maxThreadsPerBlock=1024, maxBlockDimX=1024,
        maxBlockDimY=1024, maxBlockDimZ=64, maxGridDimX=2147483647, maxGridDimY=65535,
        maxGridDimZ=65535, computeMajor=gpu.compute[0], computeMinor=gpu.compute[1],
        smMajor=gpu.compute[0], smMinor=gpu.compute[1], numaNodeId=0,
    )  # fmt: skip


def _add_gpu_of_process(out: Export, process: Process, ordinal: int, gpu: Device) -> None:
    # The uuid column is there and empty in the exports seen; rates are in kB/s and kHz here.
    out.add("TARGET_INFO_CUDA_DEVICE", gpuId=gpu.gpu_id, cudaId=ordinal, pid=process.pid,
            numMultiprocessors=gpu.sm_count)  # fmt: skip
    bus = int(gpu.bus_id.split(":")[1], 16)
    out.add(
        "TARGET_INFO_CUDA_GPU",
        vmId=VM, name=gpu.name, pciBusId=bus, globalMemoryBandwidth=1555200000,
        globalMemorySize=gpu.memory_bytes, constantMemorySize=65536, l2CacheSize=41943040,
        numThreadsPerWarp=32, coreClockRate=1410000, numMemcpyEngines=3,
        numMultiprocessors=gpu.sm_count, maxIPC=4, maxWarpsPerMultiprocessor=64,
        maxBlocksPerMultiprocessor=32, maxRegistersPerBlock=65536, maxSharedMemoryPerBlock=49152,
        maxThreadsPerBlock=1024, maxBlockDimX=1024, maxBlockDimY=1024, maxBlockDimZ=64,
        maxGridDimX=2147483647, maxGridDimY=65535, maxGridDimZ=65535,
        computeCapabilityMajor=gpu.compute[0], computeCapabilityMinor=gpu.compute[1],
        deviceId=ordinal, pid=process.pid, maxSharedMemoryPerMultiprocessor=167936,
        maxRegistersPerMultiprocessor=65536,
    )  # fmt: skip


def _add_contexts(out: Export, streams: tuple[Stream, ...]) -> None:
    contexts = {(stream.process, stream.ordinal, stream.context_id) for stream in streams}
    for process, ordinal, context in sorted(contexts, key=lambda item: (item[0].pid, item[1:])):
        out.add("TARGET_INFO_CUDA_NULL_STREAM", streamId=7, hwId=0, vmId=1, processId=process.pid,
                deviceId=ordinal, contextId=context)  # fmt: skip
        out.add("TARGET_INFO_CUDA_CONTEXT_INFO", nullStreamId=7, hwId=0, vmId=1,
                processId=process.pid, deviceId=ordinal, contextId=context, parentContextId=0,
                isGreenContext=0, numMultiprocessors=0)  # fmt: skip
    flags = {"blocking": 1, "non_blocking": 2, "null": 3}
    for stream in streams:
        out.add("TARGET_INFO_CUDA_STREAM", streamId=stream.stream_id, hwId=0, vmId=1,
                processId=stream.process.pid, contextId=stream.context_id, priority=0,
                flag=flags[stream.kind])  # fmt: skip


def _add_capture(out: Export, workload: Workload) -> None:
    facts = [
        ("CAPTURE_EVENT_TYPE", "NvtxEvents"),
        ("CAPTURE_EVENT_TYPE", "Cuda"),
        ("DEVICE_DISPLAY_NAME", workload.host),
        ("PROFILING_SESSION_UUID", "11111111-2222-4333-8444-555555555555"),
        ("RUN_DURATION_MS", "0"),
        ("PROCESS_0:COMMAND", workload.command),
        ("PROCESS_0:WORKING_DIR", "/home/SECRET-capture-directory"),
        ("PROCESS_0:USER_NAME", "SECRET-capture-user"),
    ]
    arguments = [*workload.arguments, "--token=SECRET-capture-argument"]
    facts += [(f"PROCESS_0:ARGUMENT_{n}", text) for n, text in enumerate(arguments)]
    variables = [*workload.environment, ("WANDB_API_KEY", "SECRET-capture-environment")]
    facts += [("PROCESS_0:ENVIRONMENT_VARIABLE", f"{n}={value}") for n, value in variables]
    for name, value in facts:
        out.add("META_DATA_CAPTURE", name=name, value=value)


def _add_export(out: Export, workload: Workload) -> None:
    age = out.age
    major, minor, micro = age.version
    # Words of the time: no PARAM until 3.0, and a misspelling until 3.7.
    word = "EXPORT_" if age.version < (3, 1, 0) else "EXPORT_PARAM_"
    output = "OUTUPT" if age.version < (3, 13, 0) else "OUTPUT"
    folder = "/home/SECRET-export-folder"
    facts = [
        ("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems"),
        ("EXPORT_PRODUCT_VERSION", age.product),
        ("EXPORT_SCHEMA_VERSION", age.name),
        ("EXPORT_SCHEMA_VERSION_MAJOR", str(major)),
        ("EXPORT_SCHEMA_VERSION_MINOR", str(minor)),
        ("EXPORT_SCHEMA_VERSION_MICRO", str(micro)),
        ("EXPORT_PLATFORM", "linux-desktop"),
        ("EXPORT_ARCH", "x64"),
        ("EXPORT_TIME_UTC", DATE),
        ("EXPORT_HOST", "SECRET-export-host"),
        ("EXPORT_USER", "SECRET-export-user"),
        (f"{word}INPUT_FILE", f"{workload.name}.nsys-rep"),
        (f"{word}{output}_FILE", f"{workload.name}.sqlite"),
        (f"{word}INPUT_PATH", f"{folder}/{workload.name}.nsys-rep"),
        (f"{word}INPUT_PATH_ABS", f"{folder}/{workload.name}.nsys-rep"),
        (f"{word}LAZY", "true" if age.lazy else "false"),
    ]
    if age.version >= (3, 1, 0):
        facts += [
            ("EXPORT_PARAM_TIME_NORMALIZE", "false"),
            ("EXPORT_PARAM_TIME_SHIFT", "0"),
            ("EXPORT_CONFIG_TIME_SHIFT", "0"),
        ]
    for name, value in facts:
        out.add("EXPORT_META_DATA", name=name, value=value)
        out.add("META_DATA_EXPORT", name=name, value=value)


def _add_diagnostics(out: Export, workload: Workload) -> None:
    for item in workload.events.diagnostics:
        out.add("DIAGNOSTIC_EVENT", timestamp=item.time_ns, timestampType=1,
                source=REPORTERS[item.reporter], severity=SEVERITIES[item.severity],
                text=item.text,
                globalPid=global_pid(item.process) if item.process else NO_PROCESS)  # fmt: skip
    # One of a known pattern with a path in it, and one that no list knows.
    for text in (
        "Process was launched by the profiler, see /home/SECRET-diagnostic-path/pid_1_stdout.log "
        "and stderr.log for program output",
        "plugin: cannot log in as SECRET-diagnostic-text",
    ):
        out.add("DIAGNOSTIC_EVENT", timestamp=0, timestampType=1, source=1, severity=2, text=text,
                globalPid=NO_PROCESS)  # fmt: skip
