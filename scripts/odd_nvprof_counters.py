"""Metrics and events of hardware counters as nvprof prints them, with made-up values."""

from __future__ import annotations

from nvprof_spelling import SECRET, quoted

PID = 4400
BANNER = (
    f"=={PID}== NVPROF is profiling process {PID}, command: ./solve --token={SECRET}\n"
    f"=={PID}== Some kernel(s) will be replayed on device 0 in order to collect all "
    f"events/metrics.\n"
)
RESULT = f"=={PID}== Profiling application: ./solve --token={SECRET}\n=={PID}== Profiling result:\n"
DEVICES = ("Tesla V100-SXM2-16GB (0)", "Tesla V100-SXM2-16GB (1)")
KERNELS = ("saxpy(int, float, float const *, float*)", "void reduce<int=256>(double*)")

# name, description, and the values (least, greatest, mean) as they are printed.
METRICS = (
    ("achieved_occupancy", "Achieved Occupancy", ("0.250000", "0.750000", "0.500000")),
    ("sm_efficiency", "Multiprocessor Activity", ("14.93%", "100.00%", "74.11%")),
    ("gld_throughput", "Global Load Throughput", ("512.00MB/s", "2.0000GB/s", "1.2500GB/s")),
    ("gld_transactions", "Global Load Transactions", ("3840", "117976320", "59000080")),
    ("flop_count_sp", "Floating Point Operations(Single Precision)",
     ("2.5481e+10", "2.5481e+10", "2.5481e+10")),
    ("alu_fu_utilization", "Arithmetic Function Unit Utilization", ("Idle (0)", "Mid (5)", "Low (2)")),
)  # fmt: skip
# name and values: least, greatest, mean, sum.
EVENTS = (("warps_launched", (128, 512, 320, 640)), ("active_cycles", (1000, 3000, 2000, 4000)))
INVOCATIONS = 2


def _metrics_csv() -> str:
    headings = ("Device", "Kernel", "Invocations", "Metric Name", "Metric Description", "Min", "Max",
                "Avg")  # fmt: skip
    rows = [",".join(map(quoted, headings))]
    for kernel in KERNELS:
        for name, description, values in METRICS:
            # Levels are words; all other values are bare.
            cells = [quoted(value) if "(" in value else value for value in values]
            rows.append(",".join([quoted(DEVICES[0]), quoted(kernel), str(INVOCATIONS), quoted(name),
                                  quoted(description), *cells]))  # fmt: skip
    return "\n".join(rows) + "\n"


def _metrics_text() -> str:
    rows = [f"{'Invocations':>11}{'Metric Name':>42}{'Metric Description':>54}"
            f"{'Min':>12}{'Max':>12}{'Avg':>12}"]  # fmt: skip
    for device in DEVICES:
        rows.append(f'Device "{device}"')
        for kernel in KERNELS:
            rows.append(f"    Kernel: {kernel}")
            rows += [
                f"{INVOCATIONS:>11}{name:>42}{description:>54}"
                + "".join(f"{value:>12}" for value in values)
                for name, description, values in METRICS
            ]
    return "\n".join(rows) + "\n"


def _events_csv() -> str:
    headings = ("Device", "Kernel", "Invocations", "Event Name", "Min", "Max", "Avg", "Total")
    rows = [",".join(map(quoted, headings))]
    rows += [
        ",".join([quoted(DEVICES[0]), quoted(kernel), str(INVOCATIONS), quoted(name),
                  *map(str, values)])
        for kernel in KERNELS
        for name, values in EVENTS
    ]  # fmt: skip
    return "\n".join(rows) + "\n"


def _events_text() -> str:
    rows = [f"{'Invocations':>11}{'Event Name':>42}{'Min':>12}{'Max':>12}{'Avg':>12}{'Total':>12}",
            f'Device "{DEVICES[0]}"', f"    Kernel: {KERNELS[0]}"]  # fmt: skip
    rows += [
        f"{INVOCATIONS:>11}{name:>42}" + "".join(f"{value:>12}" for value in values)
        for name, values in EVENTS
    ]
    return "\n".join(rows) + "\n"


METRIC_TITLE, EVENT_TITLE = f"=={PID}== Metric result:\n", f"=={PID}== Event result:\n"
REPLAYED = "".join(f'Replaying kernel "{kernel}" (done)\n' for kernel in KERNELS)
METRICS_CSV = BANNER + REPLAYED + RESULT + METRIC_TITLE + _metrics_csv()
METRICS_TEXT = BANNER + REPLAYED + RESULT + METRIC_TITLE + _metrics_text()
EVENTS_CSV = BANNER + RESULT + EVENT_TITLE + _events_csv()
EVENTS_TEXT = BANNER + RESULT + EVENT_TITLE + _events_text()
