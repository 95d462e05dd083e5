"""The dashboard of a query on a cluster whose state moves."""

import pytest
from browsing import fields, leave, picture, until
from jobs_of import started
from jobs_of import until as until_there

pytestmark = [pytest.mark.spark, pytest.mark.apart, pytest.mark.long]


def test_the_page_shows_where_the_state_of_a_query_lives(tmp_path, browser):
    place = tmp_path / "placed"
    with started("place", tmp_path, "placed", "endless") as process:
        until_there((place / "gathered").exists, process, "place", tmp_path)
        browser.get((place / "dashboard").read_text())
        # The placer of the job moves the 12 key groups of both operators to one executor.
        executors = until(
            browser,
            """const found = [...document.querySelectorAll("[data-executor]")].map((one) =>
                 [one.dataset.executor, one.querySelectorAll("i").length]);
               return found.some(([, groups]) => groups === 12) && found""",
        )
        assert len({name for name, _ in executors}) == len(executors)
        assert sum(groups for _, groups in executors) == 12
        attached = fields(browser, "#attached")
        assert int(attached["moved"][0]) >= 1
        picture(browser, "dashboard-state")
        assert leave(browser) == []
