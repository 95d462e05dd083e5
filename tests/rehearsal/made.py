"""Traces that tests make, in the form that operators write."""

from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq

from penstock.control.reports import ExecutionReport, RouterReport, TaskId
from penstock.control.samples import Sampler
from penstock.control.trace import BatchNumbers, table_of

NUMBERS = BatchNumbers(
    operator="enrich",
    query="sales",
    batch="0",
    began_ms=0.0,
    duration_ms=0.0,
    received=0,
    shed=0,
    instances=4,
    grouping="round_robin",
    executors={"a": 2, "b": 2},
)
START_MS = 1.7e12


def costs_of(keys):
    """Costs from 1 to 40 ms: most keys are cheap, some are expensive."""
    return np.where(keys % 10 == 0, 40.0, 1.0 + keys % 3)


def sample(keys, *, most=10_000, **more):
    sampler = Sampler(most)
    sampler.add(keys, **more)
    return sampler.pack()


def write_trace(
    folder,
    batches=8,
    records=400,
    every_ms=2000.0,
    slow=1.0,
    shed=0,
    most=10_000,
    extra_ms=300.0,
    **numbers,
):
    """Write a trace of an operator with four tasks, two on each executor; `b` may be slow."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(1)
    for number in range(batches):
        keys = rng.integers(0, 100, records)
        began_ms = START_MS + every_ms * number
        arrival_ms = began_ms - rng.uniform(0, every_ms, records)
        reports, busy_ms = [], np.zeros(4)
        for task in range(4):
            own = slice(task, records, 4)
            spent_ms = costs_of(keys[own]) * (slow if task > 1 else 1.0)
            busy_ms[task] = spent_ms.sum()
            reports.append(
                ExecutionReport(
                    TaskId("op", "q", str(number), task),
                    keys[own].size,
                    keys[own].size,
                    busy_ms[task],
                    "b" if task > 1 else "a",
                    sample=sample(
                        keys[own], costs_ms=spent_ms, arrival_ms=arrival_ms[own], most=most
                    ),
                )
            )
        if shed:
            lost = rng.integers(0, 100, shed)
            flags = np.ones(shed, dtype=np.bool_)
            late_ms = np.full(shed, began_ms - 1.0)
            packed = sample(lost, shed=flags, arrival_ms=late_ms)
            reports.append(
                RouterReport(TaskId("op", "q", str(number), 0), shed, 1.0, 0.0, sample=packed)
            )
        own_numbers = replace(
            NUMBERS,
            batch=str(number),
            began_ms=began_ms,
            duration_ms=float(busy_ms.max()) + extra_ms,
            received=records + shed,
            shed=shed,
            before=(str(number - 1), float(busy_ms.max()) + extra_ms + 150.0) if number else None,
            trigger_ms=every_ms,
            **numbers,
        )
        pq.write_table(table_of(own_numbers, reports), folder / f"{number:03}.parquet")
    return folder
