"""Settings with which the sessions of tests need less computing time."""

import os

# Spark compiles code for each query, which takes a third of the computing time of short queries.
INTERPRETED = {
    "spark__sql__codegen__factoryMode": "NO_CODEGEN",
    "spark__sql__codegen__wholeStage": "false",
}


def interpreted() -> dict[str, str]:
    """Return settings of Spark with which it interprets queries; none with PENSTOCK_CODEGEN=1."""
    return {} if os.environ.get("PENSTOCK_CODEGEN") else INTERPRETED
