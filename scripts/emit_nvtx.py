"""Operators of PyTorch as the ranges that `torch.autograd.profiler.emit_nvtx` makes of them."""

from __future__ import annotations

import json
from dataclasses import replace

from kineto_framework import Framework, Operator
from workload import Range, Workload


def with_ranges(workload: Workload, framework: Framework) -> Workload:
    """Return the workload with a range per operator, as with `emit_nvtx(record_shapes=True)`."""
    ordered = sorted(framework.operators, key=lambda operator: (operator.start_ns, -operator.end_ns))
    ranges = [
        Range(operator.thread, range_name(operator, number), operator.start_ns, operator.end_ns)
        for number, operator in enumerate(ordered, 1)
    ]
    events = replace(workload.events, ranges=(*workload.events.ranges, *ranges))
    return replace(workload, events=events)


def range_name(operator: Operator, number: int) -> str:
    """Return the text of its range: name, number in its graph, number of the call, shapes.

    A backward operator has the number of its forward one and says no thread.
    """
    sequence = "" if operator.sequence is None else f", seq = {operator.sequence}"
    shapes = _flat(json.loads(operator.shapes))
    sizes = f", sizes = {json.dumps(shapes)}" if shapes else ""
    return f"{operator.name}{sequence}, op_id = {number}{sizes}"


def _flat(shapes: list[list[object]]) -> list[list[object]]:
    # Today the tensors of a list are inputs of their own.
    flat: list[list[object]] = []
    for shape in shapes:
        of_list = [each for each in shape if isinstance(each, list)]
        flat += of_list or [shape]
    return flat
