r"""The line that all keys of a table have in common, and the line of each key beside it.

The common line $L(s) = A + B s$ is fitted to the moments of all keys by least squares. A key costs
$f_t$ times as much, and may have a slope of its own:

$$\hat w_t(s) = f_t L(\bar s_t) + b_t (s - \bar s_t)$$

with its mean size $\bar s_t$. The number $n_t$ of its records draws both towards the
common line, and so does $S_t$, the sum of squared differences of their sizes:

$$f_t = 1 + (q_t - 1) \frac{n_t}{n_t + \lambda}, \qquad
  b_t = f_t B + (b'_t - q_t B) \frac{S_t}{S_t + \kappa}$$

where $q_t$ and $b'_t$ are the factor and the slope of its own records alone. The ratios $\lambda$
and $\kappa$ are those of variances (empirical Bayes). The deviation of single records from their
line is divided by that of factors, and by that of slopes, between keys. Slopes and intercepts are
never negative, so no cost is.
"""

import numpy as np

from penstock.policies.costs.lines import Line, Lines, differs, is_size, own_slope, relative_noise
from penstock.policies.costs.totals import MOST_DOUBT
from penstock.policies.kernels import Float64, Int64, kernel

# Names of the numbers of a fit. USEFUL is 1 if size explains costs; SIZE, MS and SLOPE are a point
# and the slope of the common line; NOISE and BETWEEN are variances relative to the cost, of single
# records and of keys; DOUBT and SLOPE_DOUBT are lambda and kappa.
USEFUL, MEAN_SIZE, SIZE, MS, SLOPE, NOISE, BETWEEN, DOUBT, SLOPE_DOUBT, NUMBERS = range(10)
Fit = Float64

# Sized records without which nothing is fitted.
_LEAST = 8.0
# A slope is useful if it explains this share of the variance, and is as significant as that.
_EXPLAINED, _SIGNIFICANT = 0.02, 12.0
# Records of a key up to which its slope counts in the common line: hot keys must not own it.
_COUNTED = 8.0
# Records of a key whose own spread weighs as much as that of all keys.
_TYPICAL = 4.0
# Records of a key from which on its deviations from its own line are known.
_OWN = 3.0
_STEPS = 4


@kernel
def common_at(fitted: Fit, size: float) -> float:
    """Return the cost of a record of a size on the common line."""
    return float(max(fitted[MS] + fitted[SLOPE] * (size - fitted[SIZE]), 0.0))


@kernel
def _factor(line: Line, fitted: Fit) -> float:
    """Return the costs of a key over those of the common line."""
    common_ms = common_at(fitted, line.size)
    return line.ms / common_ms if common_ms > 0 else 1.0


@kernel
def fit(lines: Lines, used: int, out: Fit) -> None:
    """Fit the common line, and find how far keys differ from it.

    Args:
        lines: lines of a table.
        used: number of its entries that are in use.
        out: numbers of the fit, filled in.
    """
    out[:] = 0.0
    records, sizes = 0.0, 0.0
    for t in range(used):
        records += lines[t].records
        sizes += lines[t].sizes
    if records > 0:
        out[MEAN_SIZE] = sizes / records
    if records < _LEAST:
        return
    out[DOUBT] = _COUNTED
    for step in range(_STEPS):
        explained, total = _fit_common(lines, used, step == 0, out)
        if out[SLOPE] <= 0:
            return
        _fit_keys(lines, used, out)
    left = max(total - explained, 1e-12 * total)
    significant = explained * (records - 2) > _SIGNIFICANT * left
    out[USEFUL] = 1.0 if explained > _EXPLAINED * total and significant else 0.0


@kernel
def _fit_common(lines: Lines, used: int, first: bool, out: Fit) -> tuple[float, float]:
    """Fit the common line; return the variance that it explains, and the whole variance.

    A key counts by its mean as far as keys are alike, and by its slope up to some records.
    """
    weight, size, ms = 0.0, 0.0, 0.0
    for t in range(used):
        line = lines[t]
        if line.records > 0:
            own = line.weight * out[DOUBT] / (out[DOUBT] + line.records)
            own = max(own, 1e-6 * line.weight)
            weight += own
            size += own * line.size
            ms += own * line.ms
    size /= weight
    ms /= weight
    sxx, sxy, syy = 0.0, 0.0, 0.0
    for t in range(used):
        line = lines[t]
        if line.records > 0:
            own = line.weight * out[DOUBT] / (out[DOUBT] + line.records)
            counted = _COUNTED / (_COUNTED + line.records)
            factor = 1.0 if first else max(_factor(line, out), 1e-6)
            apart_size, apart_ms = line.size - size, line.ms - ms
            sxx += counted * line.sxx + own * apart_size * apart_size
            sxy += counted * line.sxy / factor + own * apart_size * apart_ms
            syy += counted * line.syy / factor**2 + own * apart_ms * apart_ms
    out[SIZE], out[MS], out[SLOPE] = size, ms, 0.0
    if sxy <= 0 or not differs(sxx, weight, size):
        return 0.0, syy
    out[SLOPE] = min(sxy / sxx, ms / size)
    return min(sxy * sxy / sxx, syy), syy


@kernel
def _fit_keys(lines: Lines, used: int, out: Fit) -> None:
    """Find how far records are from the lines of their keys, and these from the common line."""
    noise, freedom = 0.0, 0.0
    for t in range(used):
        if lines[t].records >= _OWN:
            noise += relative_noise(lines[t]) * lines[t].records
            freedom += lines[t].records - 2
    noise = noise / freedom if freedom > 0 else 0.0
    doubted = out[DOUBT]
    factors, weights, slopes, sizes = 0.0, 0.0, 0.0, 0.0
    for t in range(used):
        line = lines[t]
        if line.records <= 0:
            continue
        factor = _factor(line, out)
        # Keys with few records show little: one of them may be an outlier.
        weight = (line.records / (line.records + doubted)) ** 2 if doubted > 0 else 1.0
        factors += weight * ((factor - 1) ** 2 - noise / line.records)
        weights += weight
        if line.records >= _OWN and line.ms > 0 and own_slope(line) != 0:
            apart = (own_slope(line) - factor * out[SLOPE]) / line.ms
            slopes += apart * apart * line.sxx - noise
            sizes += line.sxx
    out[NOISE] = noise
    out[BETWEEN] = max(factors / weights, 0.0)
    out[DOUBT] = _doubt(noise, out[BETWEEN], MOST_DOUBT if freedom > 0 else _COUNTED)
    out[SLOPE_DOUBT] = _doubt(noise, slopes / sizes if sizes > 0 else 0.0, np.inf)


@kernel
def _doubt(noise: float, between: float, most: float) -> float:
    """Return the ratio of two variances; `most` if the second one is 0."""
    if between <= 0:
        return most
    return min(noise / between, most)


@kernel
def line_at(line: Line, size: float, fitted: Fit) -> float:
    """Return the expected cost of a record of a key and a size."""
    if line.records <= 0:
        return common_at(fitted, size)
    factor = _factor(line, fitted)
    believed = 1 + (factor - 1) * line.records / (line.records + fitted[DOUBT])
    level_ms = believed * common_at(fitted, line.size)
    slope = believed * fitted[SLOPE]
    if differs(line.sxx, line.weight, line.size):
        own = line.sxx / (line.sxx + fitted[SLOPE_DOUBT])
        slope += (own_slope(line) - factor * fitted[SLOPE]) * own
    steepest = level_ms / line.size if line.size > 0 else np.inf
    slope = min(max(slope, 0.0), steepest)
    return float(max(level_ms + slope * (size - line.size), 0.0))


@kernel
def estimate(lines: Lines, found: Int64, sizes: Float64, fitted: Fit, out: Float64) -> None:
    """Estimate each record by its line; a record of unknown size counts as one of mean size.

    Args:
        lines: lines of a table.
        found: entry of each record's key, or -1.
        sizes: size of each record.
        fitted: fit of the lines.
        out: expected cost of each record, filled in.
    """
    for i in range(found.size):
        size = sizes[i] if is_size(sizes[i]) else fitted[MEAN_SIZE]
        if found[i] < 0:
            out[i] = common_at(fitted, size)
        else:
            out[i] = line_at(lines[found[i]], size, fitted)


@kernel
def spread(lines: Lines, found: Int64, costs_ms: Float64, fitted: Fit, out: Float64) -> None:
    """Return how far costs may be from their estimates (standard deviation, ms).

    Deviations grow with the cost. Those of a key with few records are drawn towards those of all.

    Args:
        lines: lines of a table.
        found: entry of each record's key, or -1.
        costs_ms: result of `estimate`.
        fitted: fit of the lines.
        out: standard deviation of each record, filled in.
    """
    for i in range(found.size):
        variance = fitted[NOISE] + fitted[BETWEEN]
        if found[i] >= 0 and lines[found[i]].records > 0:
            line = lines[found[i]]
            own = max(line.records - 2.0, 0.0)
            total = line.records * relative_noise(line) + _TYPICAL * fitted[NOISE]
            variance = total / (own + _TYPICAL) * (1 + 1 / max(line.records, 1.0))
        out[i] = costs_ms[i] * np.sqrt(variance)
