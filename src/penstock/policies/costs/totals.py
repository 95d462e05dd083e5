"""Kernels on the totals of a Space-Saving table: means and variances of all its records."""

from penstock.policies.kernels import Float64, kernel

# Names of the totals.
SIZE, RECORDS, REST_MS, REST_MS2, REST, EVICTED, WITHIN_MS2, WITHIN, TOTALS = range(9)
# Names of the totals of relative differences; tables without `squares` do not have them.
RELATIVE2, RELATIVE, TOTALS_OF_SPREAD = range(8, 11)

# Records after which half of a key's mean is believed at the latest, however little keys explain.
MOST_DOUBT = 100.0


@kernel
def mean_of_rest(totals: Float64) -> float:
    """Return the mean cost of records that met a table without their key; 0 before the first."""
    return totals[REST_MS] / totals[REST] if totals[REST] > 0 else 0.0


@kernel
def variance_of_rest(totals: Float64) -> float:
    """Return the variance (ms^2) of the costs of different keys."""
    if totals[REST] == 0:
        return 0.0
    variance: float = totals[REST_MS2] / totals[REST] - mean_of_rest(totals) ** 2
    return max(variance, 0.0)


@kernel
def variance_within(totals: Float64, pairs: float) -> float:
    """Return the variance (ms^2) of the costs of one key.

    While there is little to compare, it is assumed to be the variance of different keys, with the
    weight of `pairs` comparisons.
    """
    total = totals[WITHIN_MS2] + pairs * variance_of_rest(totals)
    count = totals[WITHIN] + pairs
    return total / count if count > 0 else 0.0


@kernel
def typical_spread(totals: Float64) -> float:
    """Return the variance of costs within a key, relative to the square of their mean."""
    return totals[RELATIVE2] / totals[RELATIVE] if totals[RELATIVE] > 0 else 0.0


@kernel
def doubt(totals: Float64) -> float:
    """Return the number of records of a key after which half of its own mean is believed.

    If the spread is kept, variances are relative to squared means: a few long keys would otherwise
    make all others doubtful.
    """
    if totals.size == TOTALS:
        within = variance_within(totals, 0.0)
        between = variance_of_rest(totals) - within
    else:
        within = typical_spread(totals)
        mean_ms = mean_of_rest(totals)
        between = variance_of_rest(totals) / mean_ms**2 - within if mean_ms**2 > 0 else 0.0
    if within == 0:
        return 0.0
    return min(within / between, MOST_DOUBT) if between > 0 else MOST_DOUBT
