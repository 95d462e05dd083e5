"""LAS: sheds records that would make others wait too long, from estimates of their cost."""

from typing import Any, Literal

import numpy as np

from penstock.policies.codec import Arrays
from penstock.policies.cost_learner import CostLearner
from penstock.policies.costs.heavy_hitters import MAX_CAPACITY
from penstock.policies.feedback import Feedback, SyncRequest
from penstock.policies.hashing import mix, word_of
from penstock.policies.kernels import Bool, Float64, Int64
from penstock.policies.shedding.admission import Admission
from penstock.policies.shedding.base import Admitted, Records
from penstock.policies.shedding.load_aware_as_published import LoadAwareAsPublished
from penstock.policies.shedding.target_shedder import TargetShedder, checked_target
from penstock.policies.shedding.targets import Target
from penstock.policies.validation import above_zero, at_least_zero, known, whole

Keep = Literal["any", "cheap"]

# Number of admitted records that can be replayed when an answer arrives.
_LOGGED = 1_024


def checked_keep(keep: str) -> Keep:
    """Return the preference if it is one."""
    return "cheap" if known("keep", keep, ("any", "cheap")) == "cheap" else "any"


class LoadAware(CostLearner, TargetShedder):
    r"""Load-Aware Shedding: sheds the records that would make the target fail.

    The shedder keeps a finish clock $C$ of the operator. A record that arrives now would wait for

    $$\hat q = \max(C, now) - now$$

    It is shed if the mean waiting time, with $\hat q$, would exceed the target. Otherwise the clock
    moves on by the expected cost of the record (see `admission`). Costs are learnt as in POSG: a
    table of frequent keys, and the mean of the rest.

    Every N-th admitted record carries a request. When that record is done, the instance answers
    with the true time and the costs measured since the last answer. Records admitted in the
    meantime are then replayed from the true time on. The replay corrects the mean waiting time.

    It sheds nothing until the first answer has arrived (NOP), and holds the target from then on
    (RUN). In micro-batches the engine reports the true waiting time of records.

    Args:
        target: limit of the waiting time: `average`, `sliding_average` or `each_record`.
        keep: "any" sheds whatever arrives when the target is at stake, as the paper does;
            "cheap" sheds expensive records first, and so keeps more of them.
        instances: number of instances that share the admitted records, >= 1.
        window: N, number of admitted records between two requests, >= 1.
        first_window: length of the first window; it doubles until it is `window`.
        capacity: number of entries of the cost model per instance, >= 1, 28 bytes each.
        half_life: number of records after which a measurement counts half, > 0; may be infinite.
        drift: expected change of an instance's slowdown within 1,000 of its records (standard
            deviation), >= 0.
        seed: seed of the cost model's index, >= 0.
        sized: whether costs follow the size of records (see `costs.BySize`), in 32 more bytes an
            entry.
        together: whether instances measure whole calls of a function, and not single records (see
            `costs.ByCall`), in 16 more bytes an entry; ignored if `sized`.

    Example:
        >>> from penstock.policies.costs import SpaceSaving
        >>> from penstock.policies.shedding import each_record
        >>> shedder = LoadAware(target=each_record("5 ms"))
        >>> shedder.state, shedder.admit([1, 1, 1], [0.0, 0.0, 0.0])
        ('NOP', array([ True,  True,  True]))
        >>> measured = SpaceSaving(capacity=4)
        >>> measured.update([1, 2], [10.0, 1.0])
        >>> shedder.observe(Feedback(0, measured))
        >>> shedder.restart()
        >>> shedder.state, shedder.admit([2, 1, 2, 2], [0.0, 0.0, 1.0, 8.0])
        ('RUN', array([ True,  True, False,  True]))

    References:
        N. Rivetti, Y. Busnel and L. Querzoni, "Load-Aware Shedding in Stream Processing
        Systems", 2020 (hal-03115253), section 3. `as_published` follows it word by word.

    Deviations:
        A finish clock that knows idle time, instead of cumulated costs minus elapsed time, which
        drifts by orders of magnitude. A table of frequent keys instead of Count-Min matrices. The
        clock is corrected every N records, by replaying the records that came after. Answers
        correct errors, where the paper multiplies every cost by 1 + epsilon. Records that would
        wait for at most half of the target are always admitted. `keep="cheap"` contradicts the
        paper's Theorem 4 (optimality): its proof only compares shedders that see the same records.
    """

    name = "las"

    def __init__(
        self,
        target: Target,
        keep: Keep = "any",
        instances: int = 1,
        window: int = 32,
        first_window: int = 16,
        capacity: int = 1_024,
        half_life: float = 8_192,
        drift: float = 0.02,
        seed: int = 0,
        sized: bool = False,
        together: bool = False,
    ) -> None:
        self.keep = checked_keep(keep)
        cheap = self.keep == "cheap"
        admission = Admission(checked_target(target), cheap=cheap, logged=_LOGGED)
        super().__init__(target, instances, admission)
        self.window = whole("window", window, least=1)
        self.first_window = whole("first_window", first_window, least=1)
        self.capacity = whole("capacity", capacity, least=1, most=MAX_CAPACITY)
        self.half_life = above_zero("half_life", half_life)
        self.drift = at_least_zero("drift", drift)
        self.seed = whole("seed", seed, least=0)
        self.sized = bool(sized)
        self.together = bool(together)
        self._costs = self._pooled()
        # Length of the current window, and number of records left in it.
        self._window = np.full(1, min(self.first_window, self.window))
        self._left = self._window.copy()
        self._asked = np.zeros(1, dtype=np.int64)

    @classmethod
    def as_published(cls, target: Target, **params: Any) -> LoadAwareAsPublished:  # noqa: ANN401
        """Return the shedder that follows the paper's text literally."""
        return LoadAwareAsPublished(target, **params)

    def admit_until_answer(
        self,
        keys: Int64,
        arrival_ms: Float64,
        now_ms: Float64,
        protected: Bool,
        sizes: Float64 | None = None,
    ) -> Admitted:
        """Decide up to a record that carries a request."""
        records = Records(
            keys=keys, arrival_ms=arrival_ms, now_ms=now_ms, protected=protected, sizes=sizes
        )
        mask = self._decide(records.part(slice(0, 4 * self.window)), self._left)
        if self._left[0]:
            return Admitted(mask)
        self._window[0] = min(2 * int(self._window[0]), self.window)
        self._left[0] = self._next_window()
        number, done_ms = self._admission.request()
        return Admitted(mask, answerable=True, request=SyncRequest(0, number, done_ms))

    def _expected(self, records: Records) -> Float64:
        return self.expected_ms(records.keys, records.sizes)

    def _next_window(self) -> int:
        """Return the number of records that are admitted before the next request.

        With several instances this number varies. Otherwise, where instances get records in turn,
        every request would go to the same instance.
        """
        length = int(self._window[0])
        if self.instances == 1:
            return length
        self._asked[0] += 1
        part = int(mix(self._asked[0], word_of(self.seed))) % 1024 / 1024
        return max(1, round(length * (0.75 + 0.5 * part)))

    @property
    def running(self) -> bool:
        """Whether costs are known, so that it sheds."""
        return bool(self._costs.heard.any())

    def _observe(self, feedback: Feedback) -> None:
        """Learn measured costs, correct the clock, and take note of waiting times."""
        super()._observe(feedback)
        if feedback.delta_ms is not None:
            self._admission.correct(feedback.epoch, feedback.delta_ms, self._pace)

    def _state(self) -> Arrays:
        return {
            **super()._state(),
            "window": self._window,
            "left": self._left,
            "asked": self._asked,
            **self._costs.arrays(),
        }
