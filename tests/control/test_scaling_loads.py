"""Loads that the scaling loop follows: noise, steps, backlogs, and idle times."""

import numpy as np
import pytest
from scaled_query import FOLLOWING, INTERVAL_S, WAITING, followed, loop_of

from penstock.control import Limits
from penstock.control.timeline import Look, Work
from penstock.policies.scaling import Fixed, Preventive


def noisy(per_s, seed=0, noise=0.1):
    shares = 1 + np.random.default_rng(seed).uniform(-noise, noise, 10_000)
    return lambda second: per_s * shares[second]


@pytest.mark.parametrize("scaler", FOLLOWING)
@pytest.mark.parametrize("per_s", [30.0, 120.0, 215.0, 300.0])
def test_noise_around_a_constant_load_changes_nothing(scaler, per_s):
    """An executor can do 100 records/s: the loads are not next to where one more is needed."""
    for seed in range(3):
        found = followed(loop_of(scaler, 4), noisy(per_s, seed), 50)
        assert len(set(found[12:])) == 1, found


def test_fixed_does_not_follow_noise():
    assert len(set(followed(loop_of(Fixed({"words": 6}), 4), noisy(200.0), 30)[1:])) == 1


@pytest.mark.parametrize("per_s", np.linspace(40, 500, 12))
def test_preventive_does_not_flap_at_any_constant_load(per_s):
    found = followed(loop_of(Preventive(), 6), noisy(per_s, seed=1), 60)
    assert np.count_nonzero(np.diff(found[12:])) <= 2, found


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("scaler", FOLLOWING)
def test_a_step_brings_more_executors_within_two_periods(scaler, told):
    loop = loop_of(scaler)
    found = followed(loop, lambda second: 50.0 if second < 100 else 150.0, 20, told=told)
    # The plan at 100 s, before the step, is the tenth.
    assert set(found[2:10]) == {1}
    assert found[11] >= 2
    assert found[-1] >= 2


def large_step(second):
    """One executor works from 105 s to 120.2 s on what has come in 5 s."""
    return 50.0 if second < 100 else 300.0


@pytest.mark.parametrize("scaler", FOLLOWING)
def test_a_large_step_is_followed_while_its_first_batch_still_runs(scaler):
    found = followed(loop_of(scaler), large_step, 20)
    assert set(found[2:10]) == {1}
    assert found[10] >= 2
    assert found[11] >= 3
    assert 4 <= found[-1] <= 5
    # Who knows of it later needs more to catch up.
    assert found.max() < followed(loop_of(scaler), large_step, 20, told=False).max()


@pytest.mark.parametrize("scaler", FOLLOWING)
def test_a_step_of_which_nothing_is_told_is_followed_as_soon_as_its_first_batch_is_done(scaler):
    found = followed(loop_of(scaler), large_step, 20, told=False)
    assert set(found[2:12]) == {1}
    assert found[12] >= 3
    assert found[-1] >= 4


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("scaler", FOLLOWING)
def test_what_is_no_longer_needed_goes(scaler, told):
    def load(second):
        return 300.0 if 100 <= second < 300 else 30.0

    found = followed(loop_of(scaler), load, 60, told=told)
    assert found[25] >= 4
    assert set(found[50:]) == {1}
    found = followed(loop_of(scaler, limits=Limits(2, 8, 2)), load, 60, told=told)
    assert set(found[50:]) == {2}


@pytest.mark.parametrize("scaler", FOLLOWING)
def test_a_backlog_needs_more_executors_than_what_comes(scaler):
    found = []
    for behind in (0.0, 4_000.0):
        loop = loop_of(scaler, 2, limits=Limits(1, 20, 2))
        for i in range(7):
            done = Work(500.0 * i, 500.0 * i, 20 * 500.0 * i)
            loop.timeline.add(Look(INTERVAL_S * i, 1.0, 500.0, behind, done))
        found.append(loop.plan(30.0, WAITING).executors)
    # To work it off in 20 s takes 200 records/s, or two executors.
    assert found[1] - found[0] >= 2


@pytest.mark.parametrize("scaler", FOLLOWING)
def test_a_query_that_is_idle_needs_the_least(scaler):
    found = followed(loop_of(scaler, 6), lambda second: 300.0 if second < 100 else 0.0, 40)
    assert found[-1] == 1
