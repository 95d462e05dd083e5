"""From a slow job to a measured gain: diagnose, rehearse, change one line, compare.

The job asks a service for the price of each order, over HTTP. The service answers half of the
customers within a tenth of a second, and some in seconds. It runs in this script, on the loopback
address.

    python examples/slow_job.py                  # about five minutes; pages go to slow-job/
    python examples/slow_job.py --quick          # few orders: numbers mean nothing
"""

import argparse
import base64
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import penstock

SLOTS = 8
ORDERS = "order long, customer long"
PRICED = "order long, price double"


class Prices(BaseHTTPRequestHandler):
    """A service that answers `GET /customer` with a price, and takes its time for some."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer a request."""
        customer = int(self.path[1:])
        time.sleep(answer_ms(customer) / 1000)
        price = f"{customer % 97}.50".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(price)))
        self.end_headers()
        self.wfile.write(price)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def answer_ms(customer: int) -> float:
    """Return how long the service takes: 95 ms or less for half of the customers, 3 s for a few."""
    return 60.0 * (1.0 - np.random.default_rng(customer).random()) ** -0.66


def price(order: dict, url: str) -> dict:
    """Ask for the price of an order: the function of the job."""
    with urlopen(f"{url}/{order['customer']}") as answer:  # noqa: S310 - our own service
        return {"order": order["order"], "price": float(answer.read())}


def price_all(batches: Iterator[pa.RecordBatch], url: str) -> Iterator[pa.RecordBatch]:
    """Ask for the prices of all orders of a task, in the way of plain Spark."""
    for batch in batches:
        yield pa.RecordBatch.from_pylist([price(order, url) for order in batch.to_pylist()])


def write_orders(folder: Path, batches: int, orders: int) -> None:
    """Write one file of orders for each batch."""
    folder.mkdir()
    customers = np.random.default_rng(1).integers(0, 500, (batches, orders))
    for number, own in enumerate(customers):
        numbers = np.arange(orders) + orders * number
        table = pa.table({"order": numbers, "customer": own})
        pq.write_table(table, folder / f"{number:04}.parquet")


def run(name: str, pricing: Callable[[DataFrame], DataFrame], *, out: Path) -> bool:
    """Run the job with one way of pricing, and an event log; return whether it was exact."""
    logs = out / name
    logs.mkdir()
    spark = (
        SparkSession.builder.master(f"local[{SLOTS}]")
        .appName(name)
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.dir", logs.absolute().as_uri())
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    orders = spark.readStream.schema(ORDERS).option("maxFilesPerTrigger", 1)
    priced = pricing(orders.parquet(str(out / "orders")))
    query = (
        priced.writeStream.queryName("prices")
        .format("parquet")
        .option("path", str(out / f"{name}-prices"))
        .option("checkpointLocation", str(out / f"{name}-checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()
    given, found = (pq.read_table(out / folder)["order"] for folder in ("orders", f"{name}-prices"))
    return sorted(found.to_pylist()) == sorted(given.to_pylist())


def command(*arguments: str) -> None:
    """Run a command of Penstock, and show it."""
    print("\n$ penstock " + shlex.join(arguments), flush=True)
    subprocess.run([sys.executable, "-m", "penstock", *arguments], check=True)  # noqa: S603


def keep_pictures(page: Path) -> None:
    """Write the pictures of a page into files beside it."""
    for number, image in enumerate(re.findall(r"data:image/png;base64,([^\"]+)", page.read_text())):
        page.with_name(f"{page.stem}-{number}.png").write_bytes(base64.b64decode(image))


def main() -> None:
    """Walk from the first look to the measured gain."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("slow-job"), help="folder for all files")
    parser.add_argument("--batches", type=int, default=12, help="number of batches of each run")
    parser.add_argument("--orders", type=int, default=200, help="number of orders of a batch")
    parser.add_argument("--quick", action="store_true", help="run with few orders")
    args = parser.parse_args()
    batches, orders = (4, 40) if args.quick else (args.batches, args.orders)
    out: Path = args.out
    if out.exists() and not (out / "orders").is_dir():
        parser.error(f"--out {out} has other files; name another folder")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    write_orders(out / "orders", batches, orders)
    service = ThreadingHTTPServer(("127.0.0.1", 0), Prices)
    service.daemon_threads = True
    threading.Thread(target=service.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{service.server_port}"
    # Python workers have the packages of this script.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

    # 1. The job as it is, on Spark's own shuffle. It needs no change: its event log is enough.
    ask = partial(price_all, url=url)
    exact = [run("before", lambda f: f.repartition(SLOTS).mapInArrow(ask, PRICED), out=out)]
    command("diagnose", f"{out}/before", "--html", f"{out}/diagnosis.html")

    # 2. The same division of records by Penstock, which also records what each order costs.
    def balanced(grouping: str) -> Callable[[DataFrame], DataFrame]:
        operator = penstock.balance(
            partial(price, url=url),
            key="customer",
            schema=PRICED,
            instances=SLOTS,
            name="price",
            grouping=grouping,
            record=out / f"trace-{grouping}",
        )
        return lambda frame: frame.transform(operator)

    exact.append(run("recorded", balanced("round_robin"), out=out))
    tried = ["--executors", "1", "--executors", "2", "--target", "9 s"]
    command("rehearse", f"{out}/trace-round_robin", *tried, "--out", str(out))

    # 3. The change: orders are routed by what they cost. Then both runs are put side by side.
    exact.append(run("after", balanced("factoring"), out=out))
    command("compare", f"{out}/before", f"{out}/after", "--html", f"{out}/comparison.html")
    command("compare", f"{out}/trace-round_robin", f"{out}/trace-factoring")

    print(f"\n{batches * orders:,} orders priced exactly once: {'yes' if all(exact) else 'NO'}")
    for name in ("diagnosis", "comparison"):
        keep_pictures(out / f"{name}.html")
    print(f"Pages: {out}/diagnosis.html and {out}/comparison.html; pictures of them: {out}/*.png")


if __name__ == "__main__":
    main()
