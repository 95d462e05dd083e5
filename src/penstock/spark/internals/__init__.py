"""Everything that touches Spark's internals, in one place."""

from penstock.spark.internals.executors import (
    can_scale,
    executor_hosts,
    executor_memory_bytes,
    executors,
    locality_wait_ms,
    remove_executors,
    request_executors,
    slots_per_executor,
)
from penstock.spark.internals.files import folder_bytes, read_file, write_file
from penstock.spark.internals.frames import (
    arrow_of_rows,
    arrow_schema,
    as_event_time,
    batch_of,
    driver_addresses,
    is_event_time,
    protect_from_partial_retries,
    rows_of_arrow,
    supported_session,
)
from penstock.spark.internals.jobs import (
    JobDone,
    job_done,
    jobs_after,
    stages_as_planned,
    task_ms,
)
from penstock.spark.internals.jvm import (
    first_line,
)
from penstock.spark.internals.queries import (
    checkpoint_of,
    last_batch,
    progress_after,
    trigger_interval_ms,
    unfinished_batch,
    unread_files,
)
from penstock.spark.internals.state import (
    StateOperator,
    can_place,
    hint_location,
    shuffled_bytes,
    state_operators,
    tasks_by_operator,
    tasks_of,
)

__all__ = [
    "JobDone",
    "StateOperator",
    "arrow_of_rows",
    "arrow_schema",
    "as_event_time",
    "batch_of",
    "can_place",
    "can_scale",
    "checkpoint_of",
    "driver_addresses",
    "executor_hosts",
    "executor_memory_bytes",
    "executors",
    "first_line",
    "folder_bytes",
    "hint_location",
    "is_event_time",
    "job_done",
    "jobs_after",
    "last_batch",
    "locality_wait_ms",
    "progress_after",
    "protect_from_partial_retries",
    "read_file",
    "remove_executors",
    "request_executors",
    "rows_of_arrow",
    "shuffled_bytes",
    "slots_per_executor",
    "stages_as_planned",
    "state_operators",
    "supported_session",
    "task_ms",
    "tasks_by_operator",
    "tasks_of",
    "trigger_interval_ms",
    "unfinished_batch",
    "unread_files",
    "write_file",
]
