"""Notes: the caveats that travel with numbers.

Whatever an importer drops, guesses or repairs, and whatever a report cannot take at its word, is a
note: kept in the store, printed under every table it touches, fatal with `--strict` unless it is `info`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from nsysconv.facts import Fact


class Severity(StrEnum):
    """How much a note weighs: a remark, a number that is not exact, or rows that are missing."""

    INFO = "info"
    APPROXIMATED = "approximated"
    DROPPED = "dropped"


@dataclass(frozen=True)
class Note:
    """One caveat: `count` rows (or times), the first at `where`; `facts` empty = touches everything.

    `of` is how many such rows there are altogether, where that is known; else 0.
    """

    slug: str
    severity: Severity
    text: str
    count: int = 1
    where: str = ""
    facts: frozenset[Fact] = field(default_factory=frozenset)
    of: int = 0

    def __post_init__(self) -> None:
        if self.slug not in MEANINGS:
            raise ValueError(f"note {self.slug!r} has no paragraph in notes.MEANINGS")

    @property
    def share(self) -> float:
        """Which part of its rows it is about; 0 where that is not known."""
        return self.count / self.of if self.of else 0.0

    def touches(self, facts: Iterable[Fact]) -> bool:
        """Whether a table that is made of these facts has to carry the note."""
        return not self.facts or not self.facts.isdisjoint(facts)


# Every slug, with the paragraph that docs/messages.md prints: what happened, what it does to numbers,
# what one can do.
MEANINGS: dict[str, str] = {
    "accelerator-left-out": (
        "Events of an accelerator that nsysconv does not convert were left out; the note names their "
        "category as the trace spells it. What the accelerator did is in no report; what the host did is."
    ),
    "activities-partial": (
        "A table of API calls, kernels and memory operations together, of which the profile does not "
        "record all. That it has no such rows does not mean that there was no such work; shares are of "
        "the time of what is there."
    ),
    "api-call-crossing": (
        "Two API calls of one thread overlap without one containing the other, which real calls cannot "
        "do. The later one is cut where the earlier one ends when time is summed without nesting. "
        "Counts and per-name sums use the whole rows."
    ),
    "api-calls-partial": (
        "The profiler records only some calls of the API by design. Sums of API time are smaller than "
        "those of a profiler that records all of them and must not be compared with them."
    ),
    "api-coverage-differs": (
        "On one side of a comparison the profiler recorded only some calls of the API, by design, and "
        "on the other all of them. Numbers of calls and sums of API time are not comparable; GPU work "
        "is."
    ),
    "backtrace-rows": (
        "The API table also held backtrace records that wrap real calls. They are no calls and were "
        "left out; nothing is missing from the sums."
    ),
    "call-layer-assumed": (
        "The API table did not say which calls belong to the runtime and which to the driver. The layer "
        "was told from the name (`cu…` with a capital third letter is the driver)."
    ),
    "capture-options": (
        "How the profile was recorded, in the profiler's own words, as far as that changes which events "
        "there are or what recording them costs. `diff` tells where two profiles differ in it."
    ),
    "capture-options-differ": (
        "The two sides of a comparison, or runs of one side, were recorded with other options. What they "
        "cost or leave out may be the difference, and not the program."
    ),
    "category-assumed": (
        "Rows of a category that this version does not know were taken for kernels or API calls because "
        "they carry what those carry (a stream and a device, or a callback id)."
    ),
    "category-unknown": (
        "Rows of a category that this version does not know, and that do not look like GPU operations "
        "or API calls, were left out."
    ),
    "cell-unreadable": (
        "Cells of a table of totals or of samples that are no numbers (n/a, or cut). They are not "
        "recorded; the other cells of their rows are."
    ),
    "clock-unchecked": (
        "Profiles whose clock is tied to the others' by the time of day alone, or by fewer than four "
        "collectives. Clocks of two machines differ by microseconds to milliseconds; as much may be "
        "wrong with how late these ranks came."
    ),
    "clock-unknown": (
        "Profiles that tell no time of day and share no collective with the others that ends at one "
        "time for all. Their times cannot be compared with those of other ranks: what they came late is "
        "not recorded."
    ),
    "clocks-differ": (
        "On one side of a comparison GPU times and CPU times are not on one clock. It tells no "
        "latencies, queue times and causes of gaps, so that these cannot be compared; the rest can."
    ),
    "clocks-disagree": (
        "GPU times and CPU times of this profile are not on one clock: operations start long after or "
        "before the calls that caused them. Latencies, queue times and causes of gaps are not reported; "
        "counts, sums, unions and links hold. Record again with a newer driver or profiler."
    ),
    "coarse-times": (
        "The profiler wrote times in whole microseconds. Operations shorter than that have 0 or 1 "
        "microsecond; sums over many are right on average."
    ),
    "collectives-by-order": (
        "The profile does not tell which collectives of two ranks are the same one. The n-th of an "
        "operation on one rank is taken for the n-th on another. That holds where all ranks take part "
        "in all of them and all were recorded from the start; where groups of ranks communicate among "
        "themselves, or a recording began late, some are matched wrongly, and how late ranks came is "
        "not exact. PyTorch's traces tell groups and numbers."
    ),
    "collectives-left-out": (
        "Calls of MPI collectives on other communicators than the first that their process used. The "
        "number of a communicator means something in its own process only, so nothing tells which ranks "
        "share one; who was late into them is not told. Likewise kernels that send and receive, of which "
        "NCCL makes all-to-all, where neither group nor number is recorded."
    ),
    "collectives-partial": (
        "Collectives that fewer ranks recorded than others of the same operation and group, because "
        "recordings began or ended between them. They count with the ranks that are there."
    ),
    "column-not-read": (
        "Columns of a log hold words (a mode, a version) where samples have numbers. Nothing of them is "
        "in any report."
    ),
    "counter-overflow": (
        "Values that the GPU's counters could not hold (`<OVERFLOW>`). They are not recorded; the "
        "metric's other values are."
    ),
    "counts-vary": (
        "Counts or bytes that are not the same in all runs of a side. They are compared as what is "
        "measured is, with an interval."
    ),
    "decimals-cut": (
        "Releases of nsys of 2020 and 2021 print 27.9 as 27,0 where the locale has decimal commas. What "
        "was cut is taken for the middle of what it may be (3,000 KiB: 3.5 KiB), medians and deviations "
        "as they are printed; sums are as exact as sum, mean and number leave them together. Of a trace "
        "whose starts are whole seconds no time line can be made: its rows are added up by name. "
        "nsys stats -f csv has all decimals."
    ),
    "device-unnamed": (
        "The profile does not say which GPU stands behind a process's device number, and there is more "
        "than one GPU. The rows are kept apart by process and number, without a name."
    ),
    "devices-by-place": (
        "Profiles that do not tell the UUID of a GPU. Their rows are given to physical GPUs by the PCI "
        "bus id on their host, and where that is not recorded either by the rank that used it: then one "
        "GPU that several ranks shared is shown as several."
    ),
    "duplicate-name": ("The string table gave one id two texts; the first was kept."),
    "environment-differs": (
        "The two sides of a comparison, or runs of one side, were recorded by other tools or versions, "
        "with another driver, or on another machine. That may explain a difference; no figure is "
        "wrong."
    ),
    "event-unreadable": (
        "Events of a trace are not valid JSON and could not be repaired. They were left out; the place "
        "of the first is given as a byte of the (inflated) file."
    ),
    "events-against-totals": (
        "One side of a comparison holds events, the other only totals of them. Counts, sums, smallest "
        "and largest values are compared; what totals do not tell is not."
    ),
    "events-in-two-arrays": (
        "The trace has more than one list of events in one object, as merging by hand may make "
        "it. The events of all these arrays were read. Most programs that read JSON take the last only, "
        "and show less. Keys between the arrays were not read."
    ),
    "facts-differ": (
        "Kinds of information that only one side of a comparison holds, or only some of its runs. "
        "Either the profiler was not told to record them or the program did none of it. What needs "
        "them is not compared."
    ),
    "few-repeats": (
        "A side of a comparison has fewer than four runs. Intervals of so few are wide, and say little; "
        "repeat the measurement."
    ),
    "foreign-lines": (
        "Messages of the profiler, or what a program wrote, stand between the rows of a printed table. "
        "These lines were passed over, and the rows below them were read."
    ),
    "gpu-activity-missing": (
        "API calls that put work on a GPU were recorded, but no GPU work. The profiler could not "
        "collect it (permissions, WSL, a killed process, an unsupported driver)."
    ),
    "gpu-differs": (
        "The two sides of a comparison, or runs of one side, used different GPUs or different numbers "
        "of them. What changed may be the GPU and not the program."
    ),
    "graph-intervals": (
        "CUDA graphs were recorded as one interval per launch. Their kernels and copies are in no kernel "
        "or transfer table, while the interval counts as busy time. Record with "
        "`--cuda-graph-trace=node` to see the nodes."
    ),
    "graph-recording-differs": (
        "The two sides of a comparison, or runs of one side, do not have CUDA graphs recorded alike. "
        "Kernels and copies of a graph that is one interval are in no table, those of graph nodes are: "
        "rows seem to come or go. Record both with `--cuda-graph-trace=node`."
    ),
    "impossible-time": (
        "Rows whose times lie more than 2^53 ns (104 days) away from the recording's zero were left out: "
        "no recording is that long."
    ),
    "jobs-differ": (
        "The profiles of a run tell different batch jobs. They were put into one run by name; times of "
        "the ranks may have nothing to do with each other."
    ),
    "joined-runs": (
        "Files that were joined by `import --join` name different processes: they are of several runs. "
        "Calls and GPU operations are linked by their numbers, which is right only as far as all runs "
        "made the same calls in the same order. Record both traces in one run."
    ),
    "json-repaired": (
        "Events of a trace were not valid JSON, as some releases of the profiler write them (bare inf "
        "or N/A, lone backslashes, unescaped quotes, raw control characters, invalid UTF-8). They were "
        "repaired one by one; times and counts are as written."
    ),
    "kernels-serialised": (
        "The profiler ran the kernels one after the other, because it measured events or metrics or was "
        "told to. They may have run several times each, and longer than in the program alone. Record a "
        "timeline to know how long they take."
    ),
    "line-unreadable": (
        "Lines inside a table of a log are no rows of it: a program wrote into the log, an editor "
        "changed it, or it is damaged. They were left out; the first is named."
    ),
    "losses-differ": (
        "Rows, or their times, are missing on one side of a comparison for reasons that the other does "
        "not have. Its counts and sums are too small by an unknown amount; record it again."
    ),
    "memory-kind-unknown": (
        "Copies or sets of which the profile does not say what kind of memory they read or write, in a "
        "rule that asks for it. They are not among its findings, and may belong there."
    ),
    "metadata-unreadable": (
        "What a trace says of itself outside its events is not valid JSON. Known numbers were read from "
        "it; devices and ranks may be missing."
    ),
    "mixed-output": (
        "The file holds what two profilers printed. It was read as the output of one; the tables of the "
        "other, which the note names, are in no report. Cut them out and import them from a file of "
        "their own."
    ),
    "names-merged": (
        "In a comparison, two names of one profile are the same to the chosen matching: they differ only "
        "in what the matching leaves out. Their rows are added up."
    ),
    "names-shortened": (
        "The text cuts long names and ends them with an ellipsis. Names that begin alike are one in the "
        "reports, and no such name is equal to the whole one in another profile. CSV and JSON have whole "
        "names."
    ),
    "negative-duration": ("Rows that end before they start were left out."),
    "nameless-id": (
        "Rows refer to a name that the file does not hold. They are shown as `[name ID]`; kernels by "
        "their short name, else by their symbol, where the file has that."
    ),
    "no-gpu-work": (
        "The profile holds no GPU operation. That is a fact about the run or about the recording; the "
        "tables that need GPU operations are empty or not recorded."
    ),
    "no-time-base": (
        "The trace's times count from a moment that the file does not tell. Durations and distances "
        "hold; the time of day is not known."
    ),
    "no-time": (
        "GPU operations without a time (start and end are 0): they are counted, their duration is not "
        "recorded, and they are in no busy time. Of a slice that is a time they are no part."
    ),
    "not-a-table": (
        "The file holds a view or virtual table under the name of an event table. Only plain tables are "
        "read; it was ignored."
    ),
    "not-aligned": (
        "Of several profiles in one trace some do not say what time of day their zero is. Each is drawn "
        "from its own zero: times within a profile hold, what stands below each other in two profiles "
        "did not happen at the same time."
    ),
    "not-drawn": (
        "Rows without a time were left out of a trace: it has no place for them. They are in the "
        "profile's reports."
    ),
    "not-recorded-by-some": (
        "A report over several profiles of which some did not record what it needs. It is made of the "
        "others; the note counts those, and names the first."
    ),
    "number-ambiguous": (
        "Numbers such as 1.234 with one sign and three digits behind it, in a table of which nothing "
        "else tells whether it marks decimals or thousands. They were left out. Or times in a table "
        "whose row of units is missing: they were taken as nanoseconds."
    ),
    "occupancy-rounded": (
        "Kernels whose occupancy could not be computed from their launch, because the profile lacks "
        "their registers, their shared memory, or what the device is. The value that the profiler "
        "recorded was taken for them, which is rounded to whole percent."
    ),
    "op-before-call": (
        "GPU operations that start before the call that launched them. Their launch latency is not "
        "recorded; everything else counts."
    ),
    "path-shortened": (
        "Ranges lie so deep in each other that to spell out where each lies would take many times the "
        "room of the profile; mostly a range is opened in a loop and never closed. In place of the "
        "middle of such a path stand how many characters were left out and a digest of the whole path: "
        "different paths remain different, and one path is the same in every profile. All rows and "
        "numbers are there."
    ),
    "peer-copy-repeated": (
        "The file holds copies between devices twice, in the tables of all copies and of such copies. "
        "Each is counted once; nothing is missing."
    ),
    "precision-differs": (
        "Times or sizes are rounded on one side of a comparison and not, or in other ways, on the "
        "other. Differences of the size of a rounding step mean nothing."
    ),
    "process-assumed": (
        "GPU operations did not name their process; the only process of the profile was assumed."
    ),
    "process-unnamed": (
        "The log does not begin with the line in which the profiler names the process. Its rows belong "
        "to one process whose number is not recorded."
    ),
    "processes-differ": (
        "The two sides of a comparison, or runs of one side, have different numbers of processes or "
        "ranks. Sums are over different amounts of work."
    ),
    "processes-merged": (
        "The tables add up what all processes did on all devices, and do not tell them apart. There are "
        "no ranks, and no rows of processes or devices."
    ),
    "profiler-diagnostic": (
        "A message that the profiler itself left in the profile: events it lost or could not collect."
    ),
    "python-functions-left-out": (
        "A trace recorded with stacks holds a row per call of a Python function, most of its rows. They "
        "are left out unless `--include python_functions` asks for them: of `import`, or of `report` on "
        "the file."
    ),
    "queues-not-drawn": (
        "A trace of many operations was written without the lengths of launch queues, which would have "
        "been most of it. The report queue_length tells them."
    ),
    "range-number-shared": (
        "The file joins beginnings and ends of ranges by a number, and several ranges have the same one. "
        "Each ends with the first end of that number; durations of these ranges may be wrong."
    ),
    "range-style-assumed": (
        "The file does not say which ranges were pushed and popped on one thread and which were started "
        "and ended anywhere. Those that another thread ended were started; all others are taken for "
        "pushed. It decides which threads' GPU operations belong to a range; durations hold."
    ),
    "range-unclosed": (
        "Ranges that were never closed. Their duration is not recorded; where an interval is needed "
        "they end with the recording."
    ),
    "range-unopened": (
        "Ends of ranges whose beginning was not recorded, because recording began later or rows are "
        "missing. They were left out."
    ),
    "rank-clash": (
        "Two statements about the rank of a process disagree; the note says which was kept. First comes "
        "`--rank-from`, then the recording itself (of which the MPI library before the environment), the "
        "record of `nsysconv profile`, the file's name."
    ),
    "rank-from-name": (
        "Nothing but the file's name tells which rank was recorded (`rank3` in it). If files were "
        "renamed, ranks are mixed up; the times and counts of each are right."
    ),
    "rank-repeated": (
        "Two recordings of one rank: a run cannot hold both. Either the program was started several "
        "times in one job, and each start is a run, or a rank was recorded twice. `import --run NAME` "
        "says which profiles are of one run."
    ),
    "rank-unknown": (
        "Profiles of a run do not tell their rank. They are in the run's sums and in none of its rows by "
        "rank. `import --rank-from REGEX` takes ranks from the names of files."
    ),
    "rank-unused": (
        "What tells a rank from outside (a name, a record, `--rank-from`) tells one, and several "
        "processes of the recording worked on GPUs. It was given to none of them."
    ),
    "ranks-missing": (
        "Ranks of a run left no profile here: they were not recorded, their reports were lost, or they "
        "were not imported. Sums over ranks are without them, and the slowest rank may be one of them."
    ),
    "recording-length-differs": (
        "One side of a comparison was recorded for more than 20 % longer than the other (median of its "
        "runs). Where the program did more work in that time, sums and counts are not comparable."
    ),
    "rounded-bytes": (
        "The log spells sizes with few digits. Each is as exact as its size and its throughput times its "
        "duration leave it together; the note says how far off the worst may be. Sums over many are "
        "nearly right."
    ),
    "rounded-times": (
        "The log spells times with few digits. The note says in what steps: times, gaps and differences "
        "smaller than that mean nothing, and operations may seem to overlap or to leave gaps by as much."
    ),
    "rows-combined": (
        "The two sides of a comparison do not tell a key alike: one of them does not record it (kinds of "
        "memory, ranks), or they have different numbers of devices or processes. Rows are added up over "
        "it; means, which cannot be added, are not compared."
    ),
    "rows-not-read": (
        "The file holds kinds of events for which there is no table yet. They are in no report; nothing "
        "that is reported depends on them."
    ),
    "reports-left-out": (
        "The page of a recording with very many kernels and API calls is without the reports that take "
        "longest. Name them to have them: `nsysconv report TARGET ranges -o ranges.html`."
    ),
    "rows-tested": (
        "How many rows of a comparison have an interval of their own, how many of these differ, and how "
        "many would by chance though nothing had changed: one in twenty. Nothing is corrected for it."
    ),
    "rows-unchanged": ("Rows that are the same on both sides of a comparison. They are not shown."),
    "run-outlier": (
        "A run of a side is far from the others of its side: by more than 3 % and five times their usual "
        "distance from the median. It counts like any other; it may have been disturbed."
    ),
    "runs-not-in-turns": (
        "All runs of one side of a comparison were recorded before all of the other. What drifts "
        "meanwhile (clocks, temperature, other users) looks like a change of the program; "
        "record them in turns."
    ),
    "sample-without-gpu": (
        "The log has no column that tells GPUs apart. Its samples are of no device; on a machine of "
        "several GPUs they are of all of them, mixed."
    ),
    "sample-without-time": (
        "The log does not tell when its samples were taken. Their values and their number hold; they "
        "stand on no time line, and a slice that is a time has none of them."
    ),
    "serialised-differs": (
        "On one side of a comparison, or in some of its runs, the profiler ran kernels one after the "
        "other. Durations, gaps and overlap of kernels are not comparable with those of a timeline."
    ),
    "side-empty": (
        "A side of a comparison, or a run of it, holds no GPU operation. An empty or failed recording "
        "is no improvement: nothing follows from its figures. Record it again, or leave it out."
    ),
    "slow-first-steps": (
        "The slowest steps of a run are its first ones: it was warming up. `--skip-first N` compares "
        "without them."
    ),
    "slow-steps": (
        "Some steps take much longer than the usual one: checkpoints, evaluations, or what disturbed the "
        "run. The mean counts them; `steps.trimmed_ns` is the usual step."
    ),
    "source-copied": (
        "The file had a hot journal beside it. A copy in a temporary folder was read, so that neither "
        "the file nor its folder changed."
    ),
    "steps-differ": (
        "The two sides of a comparison, or runs of one side, have different numbers of steps. Sums and "
        "counts are over different amounts of work; compare means, or record as many steps."
    ),
    "steps-not-annotated": (
        "On one side of a comparison the steps are annotated, on the other each process is one step from "
        "its begin to its end. A step has nothing in common with a whole process: they are not compared. "
        "Where the steps have another name on that side, or are ranges of a name of their own, "
        "`--step-range` says which; else annotate them and record again."
    ),
    "stray-pid": (
        "Processes of several virtual machines or nodes share one process number; they are shown as one."
    ),
    "symbols-only": (
        "The file holds the symbols of kernels and not their names, and no demangler is installed. "
        "Kernels are shown by their symbols; counts and times hold. Install `nsysconv[demangle]`."
    ),
    "tables-disagree": (
        "Two tables of one recording tell different numbers of the same operation: they were filtered in "
        "different ways, or are of different recordings. Times were kept, and sizes left out."
    ),
    "template-arguments-differ": (
        "In a comparison, kernels that are on one side only have the same function as kernels that are "
        "only on the other, with other template arguments: another tile, type or layout was chosen. They "
        "are rows of their own, for they are other programs; `--match name` adds all of a function up."
    ),
    "time-shifted": (
        "The export's times were shifted to the time of day. Times are shown from the whole second at or "
        "before the first event."
    ),
    "time-zone-assumed": (
        "The log tells times of day without their zone. They were read in the zone of the machine that "
        "imported it, or in the one that `TZ` names. In another zone, the log lies beside a profile of "
        "the same time by that many hours off; distances within it hold. Import it again with "
        "`TZ=Europe/Berlin nsysconv import --replace …`."
    ),
    "totals-incomplete": (
        "The rows of a table of totals tell their shares of its time, and those do not add up to 100 %: "
        "rows of it are missing in the log, because it was cut or lines of it cannot be read."
    ),
    "trace-truncated": (
        "The file ends before its events do: the program was killed, the disk was full, or the copy is "
        "incomplete. Everything up to there was read."
    ),
    "trailing-data": (
        "Behind the compressed trace the file holds something that is no gzip: a copy that was not cut "
        "to its new length, or two files in one. It was left out; what is compressed was read to its end."
    ),
    "unknown-code": (
        "A number that stands for a kind of copy, memory or event is not known to this version. The row "
        "is kept as Unknown."
    ),
    "unlinked-ops": (
        "GPU operations without a recorded API call (the recording began later, or the source does not "
        "link them). They count as GPU work; latency and the cause of the gap before them are unknown. "
        "Of a slice by thread, or of what was launched, they are left out: approximated."
    ),
    "values-left-out": (
        "Values that some ranks did not record, in a table of the least, the median and the greatest "
        "value over ranks. The three are those of the other ranks; the note counts what is left out."
    ),
    "window-differs": (
        "The time from a device's first to its last GPU operation is more than 20 % longer on one side "
        "of a comparison (median of its runs). It may be what is looked for, or more work, or more "
        "waiting: shares of the window and idle time depend on it. The note counts such devices."
    ),
    "windows-aligned": (
        "Profiles that do not tell the time of day, on a time axis that is made of it. Each of their "
        "devices is shown as if it had begun with the first of all: what stands below each other was "
        "not at the same time."
    ),
    "work-differs": (
        "The sides of a comparison did not do the same amount of work, or not under the same conditions: "
        "other numbers of steps, other launches of most kernels, another GPU, other options of the "
        "profiler. Sums and counts have no verdict, and limits on them cannot be told; means per step or "
        "per launch can be compared."
    ),
    "world-sizes-differ": (
        "The profiles of a run tell different numbers of ranks. They may be of several runs."
    ),
    "wrong-type": ("Cells of a numeric column held text or another type. The rows were left out."),
}


def merged(notes: Iterable[Note]) -> list[Note]:
    """The notes with equal slug, text and facts added up; the first `where` stays."""
    found: dict[tuple[str, str, frozenset[Fact]], Note] = {}
    for note in notes:
        key = (note.slug, note.text, note.facts)
        if key in found:
            old = found[key]
            of = old.of + note.of if old.of and note.of else 0
            note = replace(old, count=old.count + note.count, of=of)
        found[key] = note
    return list(found.values())
