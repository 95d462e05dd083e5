"""Everything that an operator has learnt, as bytes that outlive the driver."""

from typing import NamedTuple

import numpy as np

from penstock.control.operator_policies import OperatorPolicies
from penstock.errors import PenstockError
from penstock.policies import codec
from penstock.policies.kernels import Float64

_LABEL = "penstock-operator"


class Saved(NamedTuple):
    """The learnt state of an operator.

    Attributes:
        policies: policies with everything learnt, for the number of instances that it was saved
            with.
        routed: records that each router has routed lately; None in files of older versions.
    """

    policies: OperatorPolicies
    routed: Float64 | None


def saved_bytes(policies: OperatorPolicies, routed: Float64) -> bytes:
    """Return the learnt state of an operator as bytes.

    Args:
        policies: policies of the operator, with as many instances as get records.
        routed: records that each router has routed lately.
    """
    learnt = np.frombuffer(policies.snapshot(), dtype=np.uint8)
    instances = np.array([policies.grouping.instances])
    return codec.encode(_LABEL, {"instances": instances, "learnt": learnt, "routed": routed})


def read_saved(data: bytes, *, like: OperatorPolicies) -> Saved:
    """Read the bytes of `saved_bytes`; refuse those of policies that differ.

    Args:
        data: the bytes.
        like: policies with the parameters that are expected.
    """
    state = codec.decode(_LABEL, data)
    try:
        policies = like.clone(instances=int(state["instances"][0]))
        policies.restore(state["learnt"].tobytes())
    except (KeyError, TypeError) as error:
        raise PenstockError(f"saved state does not fit {like!r}: {error}") from None
    return Saved(policies, state.get("routed"))
