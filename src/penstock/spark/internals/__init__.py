"""Everything that touches Spark's internals, in one place."""

from penstock.spark.internals.executors import (
    can_scale,
    executor_memory_bytes,
    executors,
    remove_executors,
    request_executors,
    slots_per_executor,
)
from penstock.spark.internals.files import (
    read_file,
    write_file,
)
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
    jobs_after,
    stages_of,
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

__all__ = [
    "arrow_of_rows",
    "arrow_schema",
    "as_event_time",
    "batch_of",
    "can_scale",
    "checkpoint_of",
    "driver_addresses",
    "executor_memory_bytes",
    "executors",
    "first_line",
    "is_event_time",
    "jobs_after",
    "last_batch",
    "progress_after",
    "protect_from_partial_retries",
    "read_file",
    "remove_executors",
    "request_executors",
    "rows_of_arrow",
    "slots_per_executor",
    "stages_of",
    "supported_session",
    "task_ms",
    "trigger_interval_ms",
    "unfinished_batch",
    "unread_files",
    "write_file",
]
