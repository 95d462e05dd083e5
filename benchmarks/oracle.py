"""An oracle beside Spark: processes without any engine, which know the cost of every record."""

import multiprocessing
import time
from multiprocessing.connection import Connection

import numpy as np

from penstock.experiments.batch_trials import Load
from penstock.policies.grouping.list_scheduling import Ran, list_schedule


def oracle_ms(load: Load, slots: int) -> float:
    """Run all batches in processes that share them longest first; return the time, in ms.

    What it needs above the ideal is mostly the machine's own: calls sleep longer than they should.

    Args:
        load: batches of records with their costs.
        slots: number of processes, each of which does one call at a time.
    """
    # Processes that are forked would share the threads of a Spark session.
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe() for _ in range(slots)]
    processes = [context.Process(target=_serve, args=(end,), daemon=True) for _, end in pipes]
    for process in processes:
        process.start()
    try:
        ends = [end for end, _ in pipes]
        _batch(ends, np.zeros(slots))  # until all processes have started
        start = time.perf_counter()
        for costs_ms in load.costs_ms:
            _batch(ends, costs_ms)
        return 1000 * (time.perf_counter() - start)
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _batch(ends: list[Connection], costs_ms: np.ndarray) -> None:
    """Share out a batch, the longest record first, and wait for all processes."""
    costs_ms = np.sort(costs_ms)[::-1].copy()
    tasks, slots = costs_ms.size, len(ends)
    ran = Ran(np.empty(tasks, dtype=np.int64), np.empty(tasks), np.empty(tasks))
    list_schedule(costs_ms, (np.ones(slots), np.zeros(tasks), 0.0), np.zeros(slots), ran)
    shares = [costs_ms[ran.slot == slot].tolist() for slot in range(slots)]
    for end, share in zip(ends, shares, strict=True):
        end.send(share)
    for end in ends:
        end.recv()


def _serve(end: Connection) -> None:
    while True:
        for cost_ms in end.recv():
            time.sleep(cost_ms / 1000)
        end.send(None)
