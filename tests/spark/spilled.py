"""An operator that spills, and what it has spilled."""

from flows import TIMED, drop, run, source, timed_files, unwanted

import penstock


def balanced(shedder, schema=TIMED, **more):
    more = {"instances": 2, "arrival": "ts", "name": "same", **more}
    return penstock.balance(
        lambda record: record, key="entity", schema=schema, shed=shedder, **more
    )


def files_of(folder):
    return len(list(folder.rglob("[!.]*.parquet")))


def three_batches(spark, place):
    """A folder with what an operator has shed in three batches: 5 records of e1 in each."""
    drop(place / "in", *timed_files(3))
    op = balanced(unwanted(spark, "e1"), spill=str(place / "spill"))
    run(source(spark, place / "in", TIMED).transform(op), place, "live")
    op.close()
    return place / "spill"
