"""The description of an operator that the driver sends to its tasks."""

import uuid
from dataclasses import dataclass
from typing import Any, Self

from penstock.control import OperatorPolicies
from penstock.policies.grouping import Grouping
from penstock.policies.shedding import Shedder
from penstock.spark.channel import Address
from penstock.spark.destinations import Destinations


@dataclass(frozen=True)
class OperatorSpec:
    """Everything that a task must know about its operator.

    Attributes:
        identity: identity of the operator, unique in the application.
        name: name of the operator, for people.
        grouping: class and parameters of the grouping. Tasks make the object themselves, because
            its arrays may be large.
        shedder: class and parameters of the shedder; None if the operator sheds nothing.
        instances: number of instances of the operator.
        address: address of the driver's control channel.
        destinations: numbers that the routing stage writes.
        use: identity of the frame that the operator is applied to; equal for equal frames.
        frame: name of this frame alone, for jobs that have no other name.
        reads: columns that the routing stage gets, in their order.
        asks: whether routers ask the driver in any case, so that it hears of a run of the query
            before tasks keep failed records.
        record: largest number of records that a task reports for a trace; 0 for none.
    """

    identity: str
    name: str
    grouping: tuple[type[Grouping], dict[str, Any]]
    shedder: tuple[type[Shedder], dict[str, Any]] | None
    instances: int
    address: Address
    destinations: Destinations
    use: str
    frame: str
    reads: tuple[str, ...]
    asks: bool = False
    record: int = 0

    @classmethod
    def of(
        cls,
        identity: str,
        name: str,
        policies: OperatorPolicies,
        *,
        address: Address,
        destinations: Destinations,
        use: str,
        reads: tuple[str, ...],
        asks: bool = False,
        record: int = 0,
    ) -> Self:
        """Return the spec of an operator with these policies."""
        shedder = policies.shedder
        return cls(
            identity=identity,
            name=name,
            grouping=(type(policies.grouping), policies.grouping.params()),
            shedder=None if shedder is None else (type(shedder), shedder.params()),
            instances=policies.grouping.instances,
            address=address,
            destinations=destinations,
            use=use,
            # An equal frame may have other records later, such as those of new files in a folder.
            frame=f"{use}-{uuid.uuid4().hex[:8]}",
            reads=reads,
            asks=asks,
            record=record,
        )

    def policies(self) -> OperatorPolicies:
        """Return the policies with nothing learnt."""
        kind, params = self.grouping
        shedder = None if self.shedder is None else self.shedder[0](**self.shedder[1])
        return OperatorPolicies(kind(**params), shedder)
