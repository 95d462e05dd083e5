"""Snapshots: what the routers of a batch decide with."""

import json
import zlib
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np

from penstock.errors import PenstockError
from penstock.policies import codec

_PIN = "penstock-pin"


@dataclass(frozen=True)
class Snapshot:
    """What the routers of a batch decide with; the same if some of them run again.

    Attributes:
        version: different for different contents.
        created_s: when it was made, in seconds since 1970.
        packed: the policies' snapshot, compressed.
        began_s: when the batch began to be routed, in seconds since 1970.
        shares: of the operator's capacity, by router; empty if nothing is known of them.
        instances: how many of the operator's instances get records; 0 for all of them.
    """

    version: int
    created_s: float
    packed: bytes
    began_s: float = 0.0
    shares: tuple[float, ...] = ()
    instances: int = 0

    @property
    def data(self) -> bytes:
        """The policies' snapshot."""
        return zlib.decompress(self.packed)

    def share(self, router: int) -> float:
        """Return the share of a router in the operator's capacity."""
        if router < len(self.shares):
            return self.shares[router]
        return 1 / (len(self.shares) + 1)

    def header(self) -> dict[str, Any]:
        """Everything but the policies' snapshot, for JSON."""
        fields = asdict(replace(self, packed=b""))
        del fields["packed"]
        return fields

    @classmethod
    def of(cls, header: dict[str, Any], packed: bytes) -> Self:
        """Make one from what `header` gave."""
        return cls(
            int(header["version"]),
            float(header["created_s"]),
            packed,
            float(header.get("began_s", 0.0)),
            tuple(float(share) for share in header.get("shares", ())),
            int(header.get("instances", 0)),
        )

    def pin(self, batch: str) -> bytes:
        """Return bytes from which a batch can be decided about again, after a restart."""
        header = json.dumps({"batch": batch, **self.header()}).encode()
        parts = {"header": header, "packed": self.packed}
        return codec.encode(_PIN, {k: np.frombuffer(v, dtype=np.uint8) for k, v in parts.items()})


def read_pin(data: bytes) -> tuple[str, Snapshot]:
    """Read what `Snapshot.pin` gave: the batch, and its snapshot."""
    state = codec.decode(_PIN, data)
    try:
        header = json.loads(state["header"].tobytes())
        return str(header["batch"]), Snapshot.of(header, state["packed"].tobytes())
    except (KeyError, TypeError, ValueError) as error:
        raise PenstockError(f"not the snapshot of a batch ({error})") from None
