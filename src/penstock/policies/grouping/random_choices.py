"""The power of random choices."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.policies.codec import Arrays
from penstock.policies.grouping.greedy import least_loaded
from penstock.policies.grouping.loads import TOTAL, LoadCounting
from penstock.policies.grouping.slots import first_choices, owners, salt_of, shift_of
from penstock.policies.kernels import Int32, Int64, kernel
from penstock.policies.validation import between, int64_keys, positive, whole

# Votes that a record adds for the key with the reservation; another key's record takes 1 off.
_LOYALTY = 2


class Bins(NamedTuple):
    """Bins with their loads, and the keys that their last places are reserved for.

    Attributes:
        owner: bin of each slot that a choice may name (see `slots`).
        loads: number of records sent to each bin; old ones are faded.
        counted: sum of the loads (`TOTAL`).
        reserved: key that the last places of each bin are reserved for.
        votes: lead of that key over all others, in votes.
        overflow: bin for records that find no room, as an array of one.
    """

    owner: Int32
    loads: Int64
    counted: Int64
    reserved: Int64
    votes: Int64
    overflow: Int64


class RandomChoices(LoadCounting):
    r"""The power of random choices (PoRC): the first of a key's choices that has room.

    A bin has room if its load is below $(1 + \epsilon)$ times the mean:

    $$P_t(j) = H(j + s), \quad s = \min \{s : L_{H(j + s)} < (1 + \epsilon) m_t / n\}$$

    So rare keys stay at their first choice, and a frequent key spreads over as many bins as it
    fills. With lifetime counts the imbalance $(\max L - \bar L) / \bar L$ is at most
    $\epsilon + n / m$ for any stream.

    Args:
        instances: number of parallel instances (bins) n, >= 1.
        epsilon: part of the mean load by which a bin may be above it, > 0. A small one balances
            better, a large one keeps keys together.
        probes: number of choices tried before the record goes to an overflow bin. That is the
            least loaded bin, until it is full.
        half_life: records per bin after which a load counts half; None for lifetime counts.
        seed: seed that the hash function is drawn with.
        reserve: part of the room above the mean that is reserved for the hottest key of a bin, 0
            to 1; 0 is the published scheme.

    Example:
        >>> routed = RandomChoices(instances=4).route([7] * 100)  # one key fills all four
        >>> bool(np.bincount(routed).max() <= 26)
        True

    References:
        Consistent Grouping (Nasir et al., 2016), section V-A and Algorithm 1.

    Deviations:
        A record is counted before room is tested, because otherwise the first one finds none.
        Choices follow by double hashing. The search ends after `probes` choices: it could take
        thousands, and would not change the imbalance. Records that arrive together count together,
        the most frequent keys first, so that keys spread no further than necessary.

        The upper half of the room above the mean is reserved for the key that takes most of it
        (found by majority vote). A hot key keeps its bins full. Rare keys that share a bin with it
        would find room there now and then, and so spread over several bins. `as_published` has no
        reservation.
    """

    name = "porc"

    def __init__(
        self,
        instances: int,
        epsilon: float = 0.01,
        probes: int = 64,
        half_life: int | None = 1_000,
        seed: int = 0,
        reserve: float = 0.5,
    ) -> None:
        super().__init__(instances, half_life, seed)
        self.epsilon = positive("epsilon", epsilon)
        self.probes = whole("probes", probes, least=1)
        self.reserve = between("reserve", reserve, 0, 1, closed="low high")
        self._salt = salt_of(self.seed)
        self._lay_out()

    @classmethod
    def as_published(cls, instances: int, epsilon: float = 0.01, seed: int = 0) -> "RandomChoices":
        """Return the paper's scheme: lifetime counts, and room for every key alike."""
        return cls(instances, epsilon, half_life=None, seed=seed, reserve=0.0)

    def route_together(self, keys: npt.ArrayLike) -> Int32:
        """Fill every bin with its share of all records, the most frequent keys first.

        So hot keys fill bins of their own, and rare keys find room at their first choice.
        """
        array = int64_keys("keys", keys)
        _, numbered, counts = np.unique(array, return_inverse=True, return_counts=True)
        order = np.lexsort((numbered, -counts[numbered]))
        out = np.empty(array.size, dtype=np.int32)
        out[order] = self._route(array[order], together=True)
        return out

    def _choose(self, keys: Int64, out: Int32, arriving: int) -> None:
        """Probe the choices of every key."""
        # The same decisions with numbers that kernels can count to: no bin is ever full.
        epsilon = min(self.epsilon, 2.0 * self.instances)
        shared = epsilon * (1 - self.reserve)
        _choose(keys, arriving, epsilon, shared, self.probes, self._salt, self._bins, out)

    def begin(self, router: int) -> None:
        """Empty all bins; routers overflow into different ones."""
        super().begin(router)
        self._bins.overflow[0] = router % self.instances
        self._bins.reserved[:] = 0
        self._bins.votes[:] = 0

    def resize(self, instances: int) -> None:
        """Keep the choices of most keys."""
        super().resize(instances)
        self._lay_out()

    def _fade(self) -> None:
        super()._fade()
        np.right_shift(self._bins.votes, 1, out=self._bins.votes)

    def _lay_out(self) -> None:
        self._bins = Bins(
            owner=owners(self.instances),
            loads=self._loads,
            counted=self._counted,
            reserved=np.zeros(self.instances, dtype=np.int64),
            votes=np.zeros(self.instances, dtype=np.int64),
            overflow=np.zeros(1, dtype=np.int64),
        )

    def _state(self) -> Arrays:
        bins = self._bins
        hot = {"reserved": bins.reserved, "votes": bins.votes, "overflow": bins.overflow}
        return super()._state() | hot


@kernel
def _choose(
    keys: Int64,
    arriving: int,
    epsilon: float,
    shared: float,
    probes: int,
    salt: np.uint64,
    bins: Bins,
    out: Int32,
) -> None:
    """Find room for every record."""
    owner, loads, counted, reserved, votes, overflow = bins
    starts, steps = np.empty(keys.size, np.uint32), np.empty(keys.size, np.uint32)
    first_choices(keys, salt, owner, starts, steps, out)
    shift = shift_of(owner)
    room, open_to_all = (1 + epsilon) / loads.size, (1 + shared) / loads.size
    total = counted[TOTAL]
    for i in range(keys.size):
        total += arriving
        chosen = out[i]
        crowded = np.int64(open_to_all * total) + 1
        if loads[chosen] >= crowded:
            full = np.int64(np.ceil(room * total))
            key, choice, left = keys[i], starts[i], probes
            while loads[chosen] >= crowded:
                if loads[chosen] < full:
                    # The last places are for the key that takes most of them.
                    if reserved[chosen] == key:
                        votes[chosen] += _LOYALTY
                        break
                    votes[chosen] -= 1
                    if votes[chosen] < 0:
                        reserved[chosen], votes[chosen] = key, 0
                        break
                left -= 1
                if left == 0:
                    if loads[overflow[0]] >= full:
                        overflow[0] = least_loaded(loads)
                    chosen = np.int32(overflow[0])
                    break
                choice = np.uint32(choice + steps[i])
                chosen = owner[choice >> shift]
            out[i] = chosen
        loads[chosen] += 1
    counted[TOTAL] = total
