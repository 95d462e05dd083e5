"""A running application, read from Spark's REST interface."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

from penstock.diagnosis.log import Log
from penstock.diagnosis.tasks import Execution, Job, Stage
from penstock.errors import PenstockError

# Longest time to wait for an answer, tasks of a stage, and stages that are read: the newest ones.
_TIMEOUT_S = 20.0
_MOST_TASKS = 20_000
_MOST_STAGES = 400
_ENDED = ("SUCCESS", "FAILED", "KILLED")
_NEAR = ("PROCESS_LOCAL", "NODE_LOCAL")
# Streaming queries describe their jobs so: name, id, run and batch.
_STREAMING = re.compile(r"\bid = ([0-9a-f-]{36})\b.*\bbatch = (\d+)", re.DOTALL)
_LACKING = (
    "Spark's REST interface has no progress of streaming queries and no names of operators: "
    "planning, commits, backlog, state and Python functions are unknown. An event log has them."
)

# Returns the answer to a path below the application, such as "jobs".
Get = Callable[[str], Any]


def read_url(url: str) -> Log:
    """Read a running application from the address of its pages.

    Args:
        url: address, such as "http://127.0.0.1:4040".

    Raises:
        PenstockError: if nothing answers there, or something else than Spark.
    """
    root = _root(url)
    found = _answer(url, f"{root}/api/v1/applications")
    if not isinstance(found, list) or not found or "id" not in found[0]:
        raise PenstockError(f"--url must be the pages of a Spark application; {url!r} is not")
    application = found[0]
    version = _answer(url, f"{root}/api/v1/version")
    base = f"{root}/api/v1/applications/{application['id']}"
    return read_application(
        lambda path: _answer(url, f"{base}/{path}"),
        name=str(application.get("name", "")),
        version=str(version.get("spark", "")) if isinstance(version, dict) else "",
    )


def _root(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise PenstockError(f"--url must be such as http://127.0.0.1:4040; got {url!r}")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _answer(url: str, address: str) -> Any:  # noqa: ANN401 - any JSON
    try:
        with urlopen(address, timeout=_TIMEOUT_S) as response:  # noqa: S310 - http(s) only, see _root
            return json.loads(response.read())
    except HTTPError as error:
        raise PenstockError(
            f"--url must be the pages of a Spark application; {url!r} answers {error.code} to "
            f"{urlsplit(address).path}"
        ) from None
    except (URLError, HTTPException, OSError) as error:
        reason = getattr(error, "reason", error)
        raise PenstockError(f"--url: {url!r} does not answer ({reason})") from None
    except ValueError:
        raise PenstockError(f"--url: {url!r} does not answer with JSON; is it Spark?") from None


def read_application(get: Get, *, name: str, version: str, lacking: str = _LACKING) -> Log:
    """Build a log from the answers of the REST interface.

    Args:
        get: function that returns the answer to a path below the application.
        name: name of the application.
        version: version of Spark.
        lacking: sentence about data that is missing.
    """
    log = Log(name=name, version=version)
    settings = get("environment").get("sparkProperties", [])
    log.settings = {key: value for key, value in settings if key.startswith("spark.")}
    for one in get("allexecutors"):
        executor = log.executors[log.executor(str(one["id"]))]
        executor.cores = int(one.get("totalCores") or 0) or None
        executor.added_ms = _ms(one.get("addTime")) or 0.0
        executor.removed_ms = _ms(one.get("removeTime"))
    executions = _executions(log, get)
    for one in get("jobs"):
        _add_job(log, one, executions)
    stages = [one for one in get("stages") if one.get("status") in {"COMPLETE", "FAILED", "ACTIVE"}]
    stages.sort(key=lambda one: -int(one["stageId"]))
    if len(stages) > _MOST_STAGES:
        log.notes.append(f"Only the newest {_MOST_STAGES} of {len(stages)} stages were read.")
    for one in stages[:_MOST_STAGES]:
        _add_stage(log, one, get)
    known = {number for number, _ in log.stages}
    log.jobs = {n: job for n, job in log.jobs.items() if known & {*job.stages}}
    log.notes.append(lacking)
    return log


def _executions(log: Log, get: Get) -> dict[int, int]:
    """Add SQL queries; return the query of each job."""
    of_job: dict[int, int] = {}
    for one in get("sql?details=false&length=10000"):
        number, started_ms = int(one["id"]), _ms(one.get("submissionTime")) or 0.0
        ended = one.get("status") != "RUNNING"
        ended_ms = started_ms + float(one.get("duration") or 0) if ended else None
        title = str(one.get("description") or f"SQL query {number}")
        log.executions[number] = Execution(title, started_ms, ended_ms)
        for kind in ("runningJobIds", "successJobIds", "failedJobIds"):
            of_job |= dict.fromkeys(map(int, one.get(kind) or []), number)
    return of_job


def _add_job(log: Log, one: dict[str, Any], executions: dict[int, int]) -> None:
    number = int(one["jobId"])
    described = str(one.get("description") or "")
    streaming = _STREAMING.search(described)
    log.jobs[number] = Job(
        number=number,
        submitted_ms=_ms(one.get("submissionTime")) or 0.0,
        stages=tuple(map(int, one.get("stageIds") or [])),
        name=described or str(one.get("name") or f"job {number}"),
        query=streaming[1] if streaming else None,
        batch=int(streaming[2]) if streaming else None,
        execution=executions.get(number),
        ended_ms=_ms(one.get("completionTime")),
    )


def _add_stage(log: Log, one: dict[str, Any], get: Get) -> None:
    number, attempt = int(one["stageId"]), int(one.get("attemptId") or 0)
    stage = Stage(
        number,
        name=str(one.get("name") or ""),
        shuffled=bool(one.get("shuffleReadBytes")),
        submitted_ms=_ms(one.get("submissionTime")),
    )
    tasks = get(f"stages/{number}/{attempt}/taskList?length={_MOST_TASKS}&sortBy=ID")
    for task in tasks:
        launch_ms, duration_ms = _ms(task.get("launchTime")), task.get("duration")
        if task.get("status") not in _ENDED or launch_ms is None or duration_ms is None:
            continue
        metrics = task.get("taskMetrics") or {}
        shuffle = metrics.get("shuffleReadMetrics") or {}
        source = metrics.get("inputMetrics") or {}
        stage.rows.extend(
            (
                float(task["index"]),
                float(log.executor(str(task["executorId"]))),
                launch_ms,
                launch_ms + float(duration_ms),
                float(metrics.get("executorRunTime") or 0),
                float(metrics.get("jvmGcTime") or 0),
                float(shuffle.get("fetchWaitTime") or 0),
                0.0,
                float(metrics.get("diskBytesSpilled") or 0),
                float(source.get("recordsRead") or 0) + float(shuffle.get("recordsRead") or 0),
                float(task["status"] != "SUCCESS"),
                float(task.get("taskLocality") in _NEAR),
            )
        )
    log.stages[number, attempt] = stage


def _ms(text: str | None) -> float | None:
    """Return a time of the REST interface in ms since 1970.

    Example:
        >>> _ms("1970-01-01T00:00:01.500GMT"), _ms(None)
        (1500.0, None)
    """
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text.removesuffix("GMT"))
    except ValueError:
        return None
    return 1000 * moment.replace(tzinfo=UTC).timestamp()
