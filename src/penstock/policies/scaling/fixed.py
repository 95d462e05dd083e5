"""The scaler that does not scale."""

from collections.abc import Mapping

from penstock.policies.scaling.base import History, Scaler, Topology
from penstock.policies.validation import known, refuse_other, whole


class Fixed(Scaler):
    """Gives every operator a fixed number of instances: the two configurations of the paper.

    Args:
        degrees: number of instances of each operator; operators that are not named have
            `min_degree`.
        min_degree: least number of instances of an operator, >= 1.
        max_degree: largest number of instances of an operator.
        min_executors: least number of executors of an application, >= 1.
        max_executors: largest number of executors of an application; None for the number at the
            time it is attached.

    Example:
        >>> Fixed(degrees={"sink": 8}).degrees
        {'sink': 8}

    References:
        AUTOSCALE (Kombi et al., 2017), section V-C: ConfMin and ConfExpt.
    """

    name = "fixed"

    def __init__(
        self,
        degrees: Mapping[str, int] | None = None,
        min_degree: int = 1,
        max_degree: int = 8,
        min_executors: int = 1,
        max_executors: int | None = None,
    ) -> None:
        super().__init__(min_degree, max_degree, min_executors, max_executors)
        given = {} if degrees is None else degrees
        refuse_other("degrees", given, Mapping, ", such as {'sink': 8}")
        self.degrees = {
            name: whole(f"degrees of {name}", degree, least=1) for name, degree in given.items()
        }

    def wanted(self, topology: Topology, history: History) -> dict[str, tuple[int, str]]:
        """Return the same degrees for any history."""
        for name in self.degrees:
            known("operator", name, topology.parents)
        return {
            name: (self.degrees.get(name, self.min_degree), "fixed") for name in topology.parents
        }
