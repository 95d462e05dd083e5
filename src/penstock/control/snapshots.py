"""Snapshots: everything that the routers of a batch decide with."""

import json
import zlib
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np

from penstock.errors import PenstockError, first_line
from penstock.policies import codec

_PIN = "penstock-pin"


@dataclass(frozen=True)
class Snapshot:
    """Everything that the routers of a batch decide with; tasks that run again get the same.

    Attributes:
        version: number that differs for different contents.
        created_s: time at which the snapshot was made, in seconds since 1970.
        packed: snapshot of the policies, compressed.
        began_s: time at which routing of the batch began, in seconds since 1970.
        shares: share of each router in the operator's capacity; empty if they are unknown.
        active: number of the operator's instances that get records; None for all of them.
        records: number of records that the batch is expected to have; None if it is unknown.
    """

    version: int
    created_s: float
    packed: bytes
    began_s: float = 0.0
    shares: tuple[float, ...] = ()
    active: int | None = None
    records: int | None = None

    @property
    def data(self) -> bytes:
        """Snapshot of the policies."""
        try:
            return zlib.decompress(self.packed)
        except zlib.error as error:
            raise PenstockError(f"the packed snapshot is damaged ({error})") from None

    def active_of(self, instances: int) -> int:
        """Return how many of an operator's instances get records."""
        return instances if self.active is None else self.active

    def share(self, router: int) -> float:
        """Return the share of a router in the operator's capacity."""
        if router < len(self.shares):
            return self.shares[router]
        return 1 / (len(self.shares) + 1)

    def header(self) -> dict[str, Any]:
        """Return everything but the snapshot of the policies, for JSON."""
        fields = asdict(replace(self, packed=b""))
        del fields["packed"]
        return fields

    @classmethod
    def of(cls, header: dict[str, Any], packed: bytes) -> Self:
        """Make a snapshot from its `header` and the packed policies."""
        # Version 0.1.0 first wrote the number of active instances as "instances", 0 for all.
        active = header.get("active", header.get("instances"))
        return cls(
            version=int(header["version"]),
            created_s=float(header["created_s"]),
            packed=packed,
            began_s=float(header.get("began_s", 0.0)),
            shares=tuple(float(share) for share in header.get("shares", ())),
            active=int(active) if active else None,
            records=int(header["records"]) if header.get("records") else None,
        )

    def pin(self, batch: str) -> bytes:
        """Return bytes with which a batch can be decided about again, after a restart."""
        header = json.dumps({"batch": batch, **self.header()}).encode()
        parts = {"header": header, "packed": self.packed}
        return codec.encode(_PIN, {k: np.frombuffer(v, dtype=np.uint8) for k, v in parts.items()})


def read_pin(data: bytes) -> tuple[str, Snapshot]:
    """Read the bytes of `Snapshot.pin`: the batch, and its snapshot."""
    state = codec.decode(_PIN, data)
    try:
        header = json.loads(state["header"].tobytes())
        return str(header["batch"]), Snapshot.of(header, state["packed"].tobytes())
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise PenstockError(f"not the snapshot of a batch ({first_line(error)})") from None
