"""`penstock.shed`: a shedder in front of any operator or aggregation."""

from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from penstock.errors import PenstockError
from penstock.policies.grouping import RoundRobin
from penstock.policies.shedding import MeanCost, Shedder, Target
from penstock.spark import internals
from penstock.spark.arguments import Key, name_of, refuse_reserved
from penstock.spark.destinations import SHED
from penstock.spark.executor.columns import DESTINATION, PARTITION
from penstock.spark.executor.shipping import shipped
from penstock.spark.executor.spill_writer import passing_or_spilling
from penstock.spark.routed import RoutedOperator
from penstock.spark.shed_arguments import shed_arguments


def shed(
    target: Target | Shedder,
    *,
    arrival: str | Column,
    key: Key | None = None,
    protect: str | Column | None = None,
    spill: str | None = None,
    name: str = "shed",
    journal: Path | str | None = None,
    record: Path | str | None = None,
) -> "ShedOperator":
    """Return an operator for `DataFrame.transform` that sheds records that would wait too long.

    It goes in front of anything: joins, aggregations, a slow sink. Single records are not measured
    there, so all of them are assumed to cost the same. That cost is learnt from the duration of
    batches. In front of a function of your own, `penstock.balance(..., shed=...)` knows more and
    sheds less.

    Args:
        target: target that must hold, made by `average`, `sliding_average` or `each_record` of
            `penstock.shedding`; or a shedder that needs no measured costs.
        arrival: timestamp column since which records wait.
        key: column or columns, for a shedder that looks at keys.
        protect: condition of records that must not be shed, such as "priority = 'high'".
        spill: folder in which shed records are kept as Parquet files, exactly once. All columns
            then go through Python.
        name: name of the operator in stats, journal and checkpoint; unique in a query.
        journal: file for observations and plans (JSON lines, rotated).
        record: folder for a sampled trace, for `penstock rehearse`; see `penstock.balance`. Its
            records have no costs. A batch is written when the next one has started.

    Example:
        >>> from penstock.shedding import average
        >>> op = shed(average("2 s"), arrival="timestamp")
        >>> op.name
        'shed'
    """
    shedder = MeanCost(target) if isinstance(target, Target) else target
    if not isinstance(shedder, Shedder):
        raise PenstockError(
            "target must be a target, such as penstock.shedding.average('2 s'), or a shedder; "
            f"got {target!r}"
        )
    if shedder.measurements() is not None:
        raise PenstockError(
            f"target: {type(shedder).__name__} needs measured costs, which are missing here; give "
            "a target, or use penstock.balance(..., shed=...)"
        )
    return ShedOperator(
        shedder,
        key,
        arrival=arrival,
        protect=protect,
        spill=spill,
        name=name,
        journal=journal,
        record=record,
    )


class ShedOperator(RoutedOperator):
    """A shedder in front of anything: made by `penstock.shed`, used by `DataFrame.transform`."""

    in_front = True

    def __init__(
        self,
        shedder: Shedder,
        key: Key | None,
        *,
        arrival: str | Column,
        protect: str | Column | None,
        spill: str | None,
        name: str,
        journal: Path | str | None,
        record: Path | str | None = None,
    ) -> None:
        # Without a key all records are alike. A column needs a session, so it is made when used.
        self._alike = key is None
        super().__init__(
            name_of(self, name),
            "" if key is None else key,
            instances=None,
            grouping=RoundRobin(1),
            journal=journal,
            record=record,
            shed=shed_arguments(shedder, arrival=arrival, protect=protect, spill=spill),
        )

    def __call__(self, frame: DataFrame) -> DataFrame:
        """Return the frame without the records that are shed."""
        spark = internals.supported_session(frame)
        refuse_reserved(frame)
        keys = (sf.lit(0),) if self._alike else self.keys
        decided = self._decide(spark, frame, keys)
        if decided.spill is None:
            admitted = decided.frame.filter(sf.col(DESTINATION) != SHED)
            return admitted.drop(DESTINATION, PARTITION)
        numbers = [*map(str, range(len(frame.columns))), PARTITION, DESTINATION]
        stage = passing_or_spilling(decided.spec, decided.spill)
        return decided.frame.toDF(*numbers).mapInArrow(shipped(stage), frame.schema)
