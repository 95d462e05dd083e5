"""`penstock.shed`: a shedder in front of any operator or aggregation."""

from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from penstock.errors import PenstockError
from penstock.policies.grouping import RoundRobin
from penstock.policies.shedding import MeanCost, Shedder, Target
from penstock.spark import internals
from penstock.spark.execution import INSTANCE
from penstock.spark.operators import Key, RoutedOperator, name_of, refuse_reserved
from penstock.spark.shedding import checked_shedding
from penstock.spark.spill import keep_shed
from penstock.spark.tasks import shipped


def shed(
    target: Target | Shedder,
    *,
    arrival: str | Column,
    key: Key | None = None,
    protect: str | Column | None = None,
    spill: str | None = None,
    name: str = "shed",
    journal: Path | str | None = None,
) -> "Gatekeeper":
    """Return an operator for `DataFrame.transform` that drops what would wait too long.

    It goes in front of anything: joins, aggregations, a sink that is slow. As nobody measures
    single records there, all of them are taken to cost the same; what that is, is learnt from how
    long batches take. In front of a function of your own, `penstock.balance(..., shed=...)` knows
    more and drops less.

    Args:
        target: what must hold: `penstock.average`, `sliding_average` or `each_record`; or a
            shedder that needs no measured costs.
        arrival: timestamp column since when records wait.
        key: column or columns, for a shedder that looks at keys.
        protect: condition of records that must not be shed, as "priority = 'high'".
        spill: folder in which shed records are kept as Parquet files, exactly once. All columns
            then go through Python.
        name: of the operator in stats, journal and checkpoint; unique in a query.
        journal: file for observations and plans (JSON lines, rotated).

    Example:
        >>> from penstock import average
        >>> op = shed(average("2 s"), arrival="timestamp")
        >>> op.name
        'shed'
    """
    shedder = MeanCost(target) if isinstance(target, Target) else target
    if not isinstance(shedder, Shedder):
        raise PenstockError(
            f"target must be a target, as penstock.average('2 s'), or a shedder; got {target!r}"
        )
    if shedder.measurements() is not None:
        raise PenstockError(
            f"target: {type(shedder).__name__} needs costs that nobody measures here; give a "
            "target, or use penstock.balance(..., shed=...)"
        )
    return Gatekeeper(shedder, key, arrival, protect, spill, name, journal)


class Gatekeeper(RoutedOperator):
    """A shedder in front of anything: made by `penstock.shed`, used by `DataFrame.transform`."""

    in_front = True

    def __init__(
        self,
        shedder: Shedder,
        key: Key | None,
        arrival: str | Column,
        protect: str | Column | None,
        spill: str | None,
        name: str,
        journal: Path | str | None,
    ) -> None:
        shedding = checked_shedding(shedder, arrival, protect, spill)
        # Without a key all records are alike: a column that needs a session is made when used.
        self._alike = key is None
        keys = "" if key is None else key
        super().__init__(name_of(self, name), keys, None, RoundRobin(1), journal, shedding)

    def __call__(self, frame: DataFrame) -> DataFrame:
        """Return the frame without the records that are shed."""
        spark = internals.supported_session(frame)
        refuse_reserved(frame)
        keys = (sf.lit(0),) if self._alike else self.keys
        decided, spec, _, spill = self._decide(spark, frame, keys)
        if spill is None:
            return decided.filter(sf.col(INSTANCE) >= 0).drop(INSTANCE)
        numbers = [*map(str, range(len(frame.columns))), INSTANCE]
        stage = keep_shed(spec, spill)
        return decided.toDF(*numbers).mapInArrow(shipped(stage), frame.schema)
