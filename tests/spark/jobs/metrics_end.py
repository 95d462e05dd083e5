"""An application that is stopped while it is watched in every way.

Argument: the folder for the results.
"""

import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from shared import until, write_json

import penstock
from penstock.spark.lab import session

place = Path(sys.argv[1])


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310
            return answer.status
    except (urllib.error.URLError, ConnectionError):
        return 0


def threads():
    """Names of all threads of Penstock, and of those that answer its peers."""
    names = [one.name for one in threading.enumerate()]
    return sorted(name for name in names if name.startswith("penstock-") or "_serve" in name)


def refusal(verb):
    try:
        verb()
    except penstock.PenstockError as error:
        return str(error)
    return ""


refused = [refusal(penstock.metrics), refusal(penstock.dashboard)]
spark = session("local[1]", "penstock-test-metrics-end")
served = [penstock.metrics(), penstock.metrics(), penstock.dashboard(show_keys=True)]
op = penstock.balance(lambda r: r, key="id", schema="id long", instances=2, name="watched")
op.on_batch(lambda batch: None)
spark.range(10).transform(op).collect()
writer = spark.readStream.format("rate").load().writeStream.format("noop")
query = writer.trigger(processingTime="1 hour").start()
scaler = penstock.scaling.Preventive()
attached = penstock.attach(query, scale=scaler, period="1 hour", dry_run=True, dashboard=True)
served.append(attached.dashboard)
processed = op.stats().processed
before = [answers(one.url) for one in served]
until(lambda: "penstock-save" in threads(), threads)
running = threads()
spark.stop()
end = time.monotonic() + 30
while threads() and time.monotonic() < end:
    time.sleep(0.05)
asked_s = time.monotonic()
op.stats()
found = {
    "refused": refused,
    "before": before,
    "running": sorted(set(running)),
    "left": threads(),
    "processed": processed,
    "stats_s": time.monotonic() - asked_s,
    "after": [answers(one.url) for one in served],
    "closed": [one.closed for one in served],
}
write_json(place / "found.json", found)
