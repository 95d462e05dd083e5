"""One application on several executor processes that runs jobs, one after the other.

A request is a file `<number>.json` with the name and the arguments of a job. When the job has
ended, and the executors that it has lost are replaced, there is a file `<number>.done` with the
trace of its failure; the file is empty if the job has not failed.

Arguments: the folder of the requests.
"""

import json
import math
import runpy
import sys
import traceback
from itertools import count
from pathlib import Path

from pyspark.sql import SparkSession
from shared import until, write_text

from penstock.spark import internals
from penstock.spark.lab import session

EXECUTORS = 3
folder = Path(sys.argv[1])
jobs = Path(__file__).parent

spark = session(
    f"local-cluster[{EXECUTORS},1,1024]",
    "penstock-test-served",
    spark__executor__memory="512m",
    spark__shuffle__io__retryWait="1s",
    spark__shuffle__io__maxRetries="1",
)
# A job gets the session of the application, and must leave it to the next one.
SparkSession.stop = lambda self: None


def failure_of(job, arguments):
    """Run a job, and return the trace of its failure."""
    sys.argv = [job, *arguments]
    try:
        runpy.run_path(str(jobs / f"{job}.py"), run_name="__main__")
    except Exception:
        return traceback.format_exc()
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
    return ""


def wait_for_executors():
    """Wait until all executors have joined."""
    until(lambda: len(internals.executors(spark)) == EXECUTORS, lambda: internals.executors(spark))


wait_for_executors()
for number in count():
    request, done = folder / f"{number}.json", folder / f"{number}.done"
    until(request.exists, lambda: "no request", wait_s=math.inf)
    failure = failure_of(*json.loads(request.read_text()))
    wait_for_executors()
    write_text(done, failure)
