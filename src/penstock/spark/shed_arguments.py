"""Checks of the arguments for shedding: `shed`, `arrival`, `protect` and `spill`."""

from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import BooleanType, DataType, TimestampNTZType, TimestampType

from penstock.errors import PenstockError, first_line
from penstock.policies.shedding import Shedder
from penstock.spark.arguments import column_of
from penstock.spark.paths import absolute


@dataclass(frozen=True)
class ShedArguments:
    """The shedder of an operator, and the columns that it needs.

    Attributes:
        shedder: the policy that decides.
        arrival: column or expression with the time of arrival.
        protect: condition of records that must not be shed; None protects nothing.
        spill: folder in which shed records are kept; None drops them for good.
    """

    shedder: Shedder
    arrival: str | Column
    protect: str | Column | None = None
    spill: str | None = None

    def shedder_for(self, instances: int) -> Shedder:
        """Return the shedder for a number of instances, with nothing learnt."""
        return self.shedder.clone(instances=instances)

    def columns(self, frame: DataFrame) -> tuple[Column, Column]:
        """Return times of arrival in milliseconds since 1970, and which records are protected."""
        arrival = column_of(frame, self.arrival)
        kind = _type_of(frame, arrival, name="arrival", given=self.arrival)
        if not isinstance(kind, TimestampType | TimestampNTZType):
            raise PenstockError(
                f"arrival must be a timestamp; {self.arrival} is {kind.simpleString()}. "
                "Convert it, for example with timestamp_millis(...)"
            )
        # A time without a time zone is in the session's time zone, as everywhere in Spark.
        arrival_ms = sf.unix_micros(arrival.cast("timestamp")) / 1000.0
        if self.protect is None:
            return arrival_ms, sf.lit(False)
        given = self.protect
        protect = given if isinstance(given, Column) else sf.expr(given)
        kind = _type_of(frame, protect, name="protect", given=self.protect)
        if not isinstance(kind, BooleanType):
            raise PenstockError(
                f"protect must be a condition; {self.protect} is {kind.simpleString()}"
            )
        return arrival_ms, sf.coalesce(protect, sf.lit(False))


def shed_arguments(
    shed: Shedder | None,
    *,
    arrival: str | Column | None,
    protect: str | Column | None,
    spill: str | None,
) -> ShedArguments | None:
    """Validate the user's arguments for shedding; None if the operator does not shed."""
    if shed is None:
        given = {"arrival": arrival, "protect": protect, "spill": spill}
        extra = [name for name, value in given.items() if value is not None]
        if extra:
            raise PenstockError(
                f"{extra[0]} needs a shedder; give shed=penstock.shedding.LoadAware(...)"
            )
        return None
    if not isinstance(shed, Shedder):
        raise PenstockError(
            "shed must be a shedder, such as "
            "penstock.shedding.LoadAware(target=penstock.shedding.average('2 s')); "
            f"got {shed!r}"
        )
    if arrival is None:
        raise PenstockError(
            "arrival must name the column with the time of arrival, such as "
            "arrival='timestamp': waiting times are measured from there; got None"
        )
    for name, value in {"arrival": arrival, "protect": protect}.items():
        if value is not None and not isinstance(value, str | Column):
            raise PenstockError(f"{name} must be a column, or text that names one; got {value!r}")
    if spill is not None and (not isinstance(spill, str) or not spill):
        raise PenstockError(f"spill must be the path of a folder; got {spill!r}")
    _refuse_unfit(shed)
    return ShedArguments(shed, arrival, protect, None if spill is None else absolute(spill))


def _refuse_unfit(shedder: Shedder) -> None:
    """Refuse a shedder that cannot work in micro-batches, or for several instances."""
    kind = type(shedder).__name__
    if shedder.needs_answers:
        raise PenstockError(
            f"shed: {kind} needs an answer to single records, which micro-batches do not have; "
            "use penstock.shedding.LoadAware"
        )
    try:
        shedder.clone(instances=1)
    except TypeError as error:
        raise PenstockError(
            f"shed: {kind} must take the number of instances ({error}); give its __init__ a "
            "parameter instances=1, and pass it on to super().__init__"
        ) from None


def _type_of(frame: DataFrame, column: Column, *, name: str, given: str | Column) -> DataType:
    try:
        return frame.select(column).schema.fields[0].dataType
    except PySparkException as error:
        raise PenstockError(
            f"{name} must fit the DataFrame, which has {', '.join(frame.columns)}; "
            f"got {given} ({first_line(error)})"
        ) from None
