"""Random queries around Penstock's verbs: results, spill and stats are exact."""

import os

import pytest
from shapes import Query

pytestmark = pytest.mark.spark

# `make soak` tries many more.
SHAPES = int(os.environ.get("PENSTOCK_SHAPES", "12"))
FIRST = int(os.environ.get("PENSTOCK_FIRST_SHAPE", "0"))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SHAPES))
def test_a_random_query_is_exact(spark, tmp_path, seed):
    query = Query(spark, tmp_path, seed)
    try:
        query.run()
    finally:
        spark.catalog.clearCache()
        for verb in query.verbs:
            verb.op.close()
