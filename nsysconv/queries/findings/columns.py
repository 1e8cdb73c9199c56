"""The columns and options of the report of all checks."""

from __future__ import annotations

from nsysconv.queries.columns import PROFILE, count_column
from nsysconv.queries.contract import Option
from nsysconv.queries.findings.contract import words
from nsysconv.report import Column, Unit

COLUMNS = (
    PROFILE,
    Column("rank", Unit.ID, "Rank with the largest cost; null: unknown."),
    Column("device_id", Unit.ID, "Device with the largest cost; null: all."),
    Column("rule", Unit.TEXT, "The check, see docs/definitions/findings.md.", key=True),
    Column(
        "kind",
        Unit.TEXT,
        "saving: avoidable time; cost: where time goes; risk: what may end a run.",
    ),
    Column("saving_ns", Unit.NS, "Upper bound of the time saved; null for other kinds."),
    Column("cost_ns", Unit.NS, "Time it takes; null for other kinds."),
    Column(
        "share_pct",
        Unit.PCT,
        "Saving or cost as a share of the time in the breakdown; null for risks.",
    ),
    Column(
        "per_step_ns",
        Unit.NS,
        "Saving or cost divided by the number of steps; null: no steps, or most of it comes once.",
        brief=False,
    ),
    Column(
        "same_as",
        Unit.TEXT,
        "Another check that reports the same time (more than 80 % of the larger one's) and names "
        "its cause; null: none.",
        brief=False,
    ),
    Column(
        "part_of",
        Unit.TEXT,
        "A check whose larger time contains more than 80 % of this one's; null: none.",
        brief=False,
    ),
    Column(
        "all_savings_pct",
        Unit.PCT,
        "Upper bound of all savings together, as share_pct; time that several share counts once.",
        brief=False,
    ),
    Column("value", Unit.REAL, "What the check measured, in `unit`."),
    Column("threshold", Unit.REAL, "The check reports values above it."),
    Column("unit", Unit.TEXT, "Unit of value and threshold.", brief=False),
    Column("step", Unit.TEXT, "The step in which the costliest gap lies; null: none.", brief=False),
    Column(
        "stream_id",
        Unit.ID,
        "Stream of the operation that ended the costliest gap; null: none.",
        brief=False,
    ),
    Column("before", Unit.TEXT, "GPU operation before the costliest gap; null: none.", brief=False),
    Column("after", Unit.TEXT, "GPU operation after the costliest gap; null: none.", brief=False),
    Column(
        "event",
        Unit.TEXT,
        "Id (for `nsysconv why`) of the operation that ended the costliest gap, else of the "
        "longest event involved; null: none.",
        brief=False,
    ),
    Column(
        "gap",
        Unit.TEXT,
        "Id (for `nsysconv why`) of the costliest gap; null: the bottleneck is not idle time.",
        brief=False,
    ),
    Column(
        "where",
        Unit.TEXT,
        "Rank and device with the largest cost, or the profile, in words; null: there is only one.",
        brief=False,
    ),
    count_column("device_count", "Devices, over all ranks of a run, that have this bottleneck."),
    Column("cause", Unit.TEXT, "The bottleneck in a few words.", brief=False),
    Column("finding", Unit.TEXT, "The bottleneck in a sentence."),
    Column("advice", Unit.TEXT, "What to do about it."),
    Column("report", Unit.TEXT, "The report with the rows behind it.", brief=False),
    Column("slice", Unit.TEXT, "The part of the profile to look at, as flags.", brief=False),
)

OPTIONS = (
    Option("ignore", None, "Checks to skip, separated by commas."),
    *(
        Option(
            name,
            None,
            f"Threshold of the check {name}, {each.unit}: {each.threshold:g} by default"
            + ("." if each.on else ", but it is off."),
        )
        for name, each in words().items()
    ),
)
