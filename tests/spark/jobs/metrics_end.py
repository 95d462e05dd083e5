"""An application that is stopped while its metrics and its dashboard are served.

Argument: the folder for the results.
"""

import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from shared import write_json

import penstock
from penstock.spark.lab import session

place = Path(sys.argv[1])


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310
            return answer.status
    except (urllib.error.URLError, ConnectionError):
        return 0


def servers():
    names = {"penstock-web", "penstock-sampler"}
    return [one for one in threading.enumerate() if one.name in names]


def refusal(verb):
    try:
        verb()
    except penstock.PenstockError as error:
        return str(error)
    return ""


refused = [refusal(penstock.metrics), refusal(penstock.dashboard)]
spark = session("local[1]", "penstock-test-metrics-end")
served = [penstock.metrics(), penstock.metrics(), penstock.dashboard()]
before = [answers(one.url) for one in served]
threads = len(servers())
spark.stop()
end = time.monotonic() + 30
while servers() and time.monotonic() < end:
    time.sleep(0.05)
found = {
    "refused": refused,
    "before": before,
    "threads": threads,
    "left": len(servers()),
    "after": [answers(one.url) for one in served],
    "closed": [one.closed for one in served],
}
write_json(place / "found.json", found)
