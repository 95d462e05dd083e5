r"""Costs of keys from the costs of whole calls: filters, and a judge of what they predict.

A call with $n_t$ records of key $t$ has the cost $y = \sum_t n_t (\mu + d_t)$ plus noise, with a
common level $\mu$. A filter keeps $\mu$ and all $d_t$, which start at 0: keys without evidence have
the common mean. Each call moves them by a Kalman step, in which their errors count as independent.
The variances $v$ and $P_t$ are relative to that of costs between keys:

$$S = v n^2 + \sum_t P_t n_t^2 + \lambda n, \qquad
  d_t \leftarrow d_t + \frac{P_t n_t}{S} (y - \hat y), \qquad
  P_t \leftarrow P_t - \frac{P_t^2 n_t^2}{S}$$

and $\mu$ likewise. $\lambda$ is the variance of records of one key over that between keys. It is
unknown, so there are two filters with different $\lambda$. All $P_t$ go back to 1 slowly, because
costs change. A call that is far from its expected cost is winsorised.

Every call is predicted before it is learnt, by each filter and by equal shares. The errors fade. A
filter is used while its error is clearly below that of equal shares.
"""

import numpy as np

from penstock.policies.kernels import Float32, Float64, Int64, kernel

# Lambda of each filter.
DOUBTS = (2.0, 32.0)
FILTERS = len(DOUBTS)
# Names of the numbers of the judge: errors of equal shares and of each filter in all calls; number
# of calls, and their cost; squared errors of the better filter, and the sum of squared costs of
# records that it has expected. All of them fade.
EQUAL, FIRST, SECOND, CALLS, TOTAL_MS, SQUARES, EXPECTED, NUMBERS = range(8)
# Columns of the common numbers of a filter: level, and its variance.
LEVEL, VARIANCE = range(2)
# Weight of a call in the next one, and calls that a judgement needs.
_FADING, LEAST_CALLS = 0.97, 12.0
# Error of a filter over that of equal shares below which it is used.
_CLEARLY = 0.98
# Largest error that is believed, in mean errors, and the number of calls before that. An error
# below this share of the mean cost is always believed.
_BELIEVED, _UNJUDGED, _NEGLIGIBLE = 5.0, 8.0, 0.01
# Share of the way to 1 that the variance of a key goes back with each of its calls. Least variance
# of a level.
_FORGOTTEN, _LEAST_VARIANCE = 1 / 512, 1e-3

# What the filters know, as a plain tuple (see `heavy_hitters.Table`):
#   own_ms: difference of each key to the level, in a row for each filter; the last column is that
#       of all keys that are not in the table,
#   variance: variance of each of these,
#   common: level of each filter, and its variance,
#   judged: numbers of the judge.
Filters = tuple[Float32, Float32, Float64, Float64]


def no_filters(capacity: int) -> Filters:
    """Return filters that have learnt nothing, for the entries of a table."""
    common = np.zeros((FILTERS, 2))
    common[:, VARIANCE] = 1
    own_ms = np.zeros((FILTERS, capacity + 1), dtype=np.float32)
    return own_ms, np.ones_like(own_ms), common, np.zeros(NUMBERS)


@kernel
def better(judged: Float64) -> int:
    """Return the number of the filter with the smaller error."""
    return 0 if judged[FIRST] <= judged[SECOND] else 1


@kernel
def chosen(judged: Float64) -> int:
    """Return the number of the filter that is used; -1 for equal shares."""
    best = better(judged)
    if judged[CALLS] < LEAST_CALLS or judged[FIRST + best] >= _CLEARLY * judged[EQUAL]:
        return -1
    return best


@kernel
def cost_of(number: int, column: int, filters: Filters) -> float:
    """Return the expected cost of a record by one filter."""
    own_ms, _, common, _ = filters
    return float(max(common[number, LEVEL] + own_ms[number, column], 0.0))


@kernel
def estimate(number: int, columns: Int64, filters: Filters, out: Float64) -> None:
    """Estimate each record by one filter; column -1 stands for a key that is not in the table."""
    for i in range(columns.size):
        out[i] = cost_of(number, columns[i], filters)


@kernel
def gather(counts: Float32, records: float, columns: Int64, found: Int64, gathered: Float64) -> int:
    """Collect the columns of the records of a call; return their number.

    Args:
        counts: number of records of each entry of the table that has measured them.
        records: number of all records of the call.
        columns: column of each of these entries; -1 if their keys are not in the table.
        found: columns, filled in; the last one is that of all other keys.
        gathered: number of records of each of them, filled in.
    """
    used = 0
    known = 0.0
    for i in range(columns.size):
        if columns[i] >= 0 and counts[i] > 0:
            found[used], gathered[used] = columns[i], counts[i]
            known += counts[i]
            used += 1
    if known < records:
        found[used], gathered[used] = -1, records - known
        used += 1
    return used


@kernel
def expected(number: int, found: Int64, counts: Float64, filters: Filters) -> tuple[float, float]:
    """Return the expected cost of a call by one filter, and the sum of its squared costs."""
    total_ms, squares_ms2 = 0.0, 0.0
    for t in range(found.size):
        cost_ms = cost_of(number, found[t], filters)
        total_ms += counts[t] * cost_ms
        squares_ms2 += counts[t] * cost_ms * cost_ms
    return total_ms, squares_ms2


@kernel
def _believed(error_ms: float, candidate: int, judged: Float64) -> float:
    """Return an error, or the largest one that is believed of this candidate."""
    if judged[CALLS] < _UNJUDGED:
        return error_ms
    most_ms = max(_BELIEVED * judged[candidate], _NEGLIGIBLE * judged[TOTAL_MS]) / judged[CALLS]
    return float(min(max(error_ms, -most_ms), most_ms))


@kernel
def judge(found: Int64, counts: Float64, equal_ms: float, cost_ms: float, filters: Filters) -> None:
    """Compare the predictions of a call with its cost, before anything learns it.

    Args:
        found: columns of its records.
        counts: number of records of each of these columns.
        equal_ms: prediction from equal shares.
        cost_ms: cost of the call.
        filters: filters and numbers of the judge.
    """
    _, _, common, judged = filters
    if common[0, LEVEL] == 0:  # nothing has been learnt
        return
    best = better(judged)
    errors_ms = np.empty(1 + FILTERS)
    apart_ms = _believed(cost_ms - equal_ms, EQUAL, judged)
    errors_ms[EQUAL] = abs(apart_ms)
    squares_ms2 = 0.0
    for number in range(FILTERS):
        predicted_ms, own_ms2 = expected(number, found, counts, filters)
        error_ms = _believed(cost_ms - predicted_ms, FIRST + number, judged)
        errors_ms[FIRST + number] = abs(error_ms)
        if number == best:
            squares_ms2 = own_ms2
    judged *= _FADING
    judged[: errors_ms.size] += errors_ms
    judged[CALLS] += 1
    judged[TOTAL_MS] += max(equal_ms + apart_ms, 0.0)
    judged[SQUARES] += errors_ms[FIRST + best] ** 2
    judged[EXPECTED] += squares_ms2


@kernel
def learn(found: Int64, counts: Float64, cost_ms: float, filters: Filters) -> None:
    """Learn one call: a Kalman step of each filter.

    Args:
        found: columns of its records.
        counts: number of records of each of these columns.
        cost_ms: cost of the call.
        filters: filters that learn.
    """
    own_ms, variance, common, judged = filters
    records = counts.sum()
    for number in range(FILTERS):
        if common[number, LEVEL] == 0:
            common[number, LEVEL] = cost_ms / records
            continue
        predicted_ms, _ = expected(number, found, counts, filters)
        error_ms = _believed(cost_ms - predicted_ms, FIRST + number, judged)
        total = common[number, VARIANCE] * records**2 + DOUBTS[number] * records
        for t in range(found.size):
            total += variance[number, found[t]] * counts[t] ** 2
        step_ms = error_ms / total
        moved = common[number, VARIANCE] * records
        level_ms = max(common[number, LEVEL] + moved * step_ms, 0.0)
        common[number, LEVEL] = level_ms
        common[number, VARIANCE] = max(
            common[number, VARIANCE] - moved * moved / total, _LEAST_VARIANCE
        )
        for t in range(found.size):
            one = found[t]
            gain = variance[number, one] * counts[t]
            own_ms[number, one] = max(own_ms[number, one] + gain * step_ms, -level_ms)
            variance[number, one] -= gain * gain / total
            variance[number, one] += (1 - variance[number, one]) * _FORGOTTEN


@kernel
def reset(column: int, filters: Filters) -> None:
    """Forget the key of a column: another one takes its place, which is one of the rest so far."""
    own_ms, variance, _, _ = filters
    own_ms[:, column] = own_ms[:, -1]
    variance[:, column] = 1


@kernel
def rescale(factor: float, filters: Filters) -> None:
    """Multiply all costs by a factor."""
    own_ms, _, common, judged = filters
    own_ms *= factor
    common[:, LEVEL] *= factor
    judged[EQUAL:CALLS] *= factor
    judged[TOTAL_MS] *= factor
    judged[SQUARES] *= factor * factor
    judged[EXPECTED] *= factor * factor
