"""Causes in words, for summaries and pages."""

from penstock.diagnosis.causes import Cause

EXPLAINED = {
    Cause.TOO_FEW_TASKS: "there are fewer tasks than slots, or the last round of tasks is short",
    Cause.TASK_OVERHEAD: "tasks spend their time on being started, not on records",
    Cause.HOT_KEYS: "some tasks have many more records than others",
    Cause.UNEVEN_COSTS: "tasks with as many records take unequal times",
    Cause.SLOW_EXECUTOR: "an executor takes longer for the same work",
    Cause.CROWDED_STATE: "too many partitions of the state are on few executors",
    Cause.LOCALITY_WAIT: "tasks wait for slots near their data while other slots are free",
    Cause.GARBAGE_COLLECTION: "the JVM collects garbage while tasks wait",
    Cause.DISK_SPILL: "memory is short, and tasks write to disk",
    Cause.FETCH_WAIT: "tasks wait for blocks of other executors",
    Cause.PYTHON_START: "tasks wait for Python workers to start",
    Cause.FAILED_TASKS: "tasks failed or were killed, and ran again",
    Cause.LATE_TASKS: "tasks start late although slots are free: the driver is slow, or busy",
    Cause.OVER_PROVISIONED: "most slots have no work most of the time",
    Cause.UNDER_PROVISIONED: "more records arrive than all slots can process",
    Cause.HEALTHY: "no cause takes 10% of the time",
}
PHASES = {
    "trigger_wait": "trigger wait",
    "planning": "planning",
    "offsets_and_commits": "offsets, commits",
    "scheduling": "scheduling",
    "stages": "stages",
}
