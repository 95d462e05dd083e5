"""Access to Spark's internals: the only package that uses py4j."""

from penstock.spark.internals.executors import (
    Executor,
    can_scale,
    executor_memory_bytes,
    executors,
    live_executors,
    locality_wait_ms,
    remove_executors,
    request_executors,
    slots_per_executor,
)
from penstock.spark.internals.files import folder_bytes, read_file, write_file
from penstock.spark.internals.jobs import (
    JobDone,
    job_done,
    jobs_after,
    stages_as_planned,
    task_ms,
)
from penstock.spark.internals.jvm import JvmError
from penstock.spark.internals.queries import (
    BatchDone,
    checkpoint_of,
    last_batch,
    progress_after,
    trigger_interval_ms,
    unfinished_batch,
    unread_files,
)
from penstock.spark.internals.sessions import (
    as_event_time,
    driver_addresses,
    is_event_time,
    protect_from_partial_retries,
    supported_session,
)
from penstock.spark.internals.shuffles import shuffled_bytes
from penstock.spark.internals.state import (
    StateOperator,
    can_place,
    hint_location,
    state_operators,
)
from penstock.spark.internals.tasks import tasks_by_operator, tasks_of

__all__ = [
    "BatchDone",
    "Executor",
    "JobDone",
    "JvmError",
    "StateOperator",
    "as_event_time",
    "can_place",
    "can_scale",
    "checkpoint_of",
    "driver_addresses",
    "executor_memory_bytes",
    "executors",
    "folder_bytes",
    "hint_location",
    "is_event_time",
    "job_done",
    "jobs_after",
    "last_batch",
    "live_executors",
    "locality_wait_ms",
    "progress_after",
    "protect_from_partial_retries",
    "read_file",
    "remove_executors",
    "request_executors",
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
