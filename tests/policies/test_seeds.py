"""Secret seeds: not printed, different for each operator, and taken over from snapshots."""

import json
import pickle

import numpy as np
import pytest

import penstock
from penstock.control import Controller, Journal, OperatorPolicies
from penstock.control.reports import ExecutionReport, TaskId, pack_costs
from penstock.errors import PenstockError
from penstock.policies.feedback import measure
from penstock.policies.grouping import (
    BoundedHash,
    Consistent,
    Factoring,
    Grouping,
    KeyHash,
    PartialKey,
    Proactive,
    ProactiveAsPublished,
    RandomChoices,
    TwoChoices,
)
from penstock.policies.seeds import SecretSeed

SEEDED = [BoundedHash, Consistent, Factoring, KeyHash, PartialKey, Proactive, RandomChoices]
KEYS = np.random.default_rng(5).integers(-(2**62), 2**62, 2_000)


def seed_of(name):
    operator = penstock.balance(
        lambda record: record, key="k", schema="k long", instances=4, grouping=name
    )
    return operator._make_grouping(None).seed, operator


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, kind in Grouping.registered().items()
        if "seed" in kind.parameters() and kind is not ProactiveAsPublished
    ],
)
def test_every_operator_has_a_seed_of_its_own(name):
    seed, operator = seed_of(name)
    assert isinstance(seed, SecretSeed)
    assert seed != seed_of(name)[0]
    assert operator._make_grouping(None).seed == seed  # the same for every use of the operator


def test_a_seed_that_the_user_gives_is_kept():
    given = KeyHash(4, seed=7)
    operator = penstock.balance(lambda one: one, key="k", schema="k long", grouping=given)
    assert operator._make_grouping(None).seed == 7


@pytest.mark.parametrize("kind", [*SEEDED, TwoChoices])
def test_a_secret_seed_decides_like_the_number_and_is_not_printed(kind):
    secret, plain = kind(4, seed=SecretSeed(987654)), kind(4, seed=987654)
    assert secret == plain
    assert np.array_equal(secret.route(KEYS), plain.route(KEYS))
    assert "987654" not in repr(secret)
    assert isinstance(secret.clone(instances=3).seed, SecretSeed)
    assert isinstance(pickle.loads(pickle.dumps(secret.seed)), SecretSeed)  # noqa: S301 - our own
    assert secret.snapshot() == plain.snapshot()


@pytest.mark.parametrize("kind", SEEDED)
def test_a_policy_takes_over_the_seed_of_a_snapshot(kind):
    before = kind(4, seed=SecretSeed(11))
    before.route(KEYS)
    after = kind(4, seed=SecretSeed(12))
    after.restore(before.snapshot())
    assert after.seed == 11
    assert isinstance(after.seed, SecretSeed)
    assert np.array_equal(after.route(KEYS), before.route(KEYS))


def test_a_snapshot_of_another_class_is_refused_without_its_seed():
    with pytest.raises(PenstockError, match="'KeyHash', expected 'Factoring'") as refused:
        Factoring(4, seed=SecretSeed(1)).restore(KeyHash(4, seed=SecretSeed(424242)).snapshot())
    assert "424242" not in str(refused.value)


def test_neither_stats_nor_journal_have_the_seed():
    secret = 31_415_926_535
    policies = OperatorPolicies(Consistent(2, seed=SecretSeed(secret)))
    journal = Journal()
    controller = Controller("op", "query", policies, journal=journal)
    controller.snapshot("0")
    controller.activate(1)
    shown = f"{controller.stats()!r} {json.dumps(journal.entries())} {policies!r}"
    assert str(secret) not in shown


@pytest.mark.parametrize("kind", [Factoring, Proactive])
def test_an_operator_goes_on_with_costs_that_another_seed_has_indexed(kind):
    """A driver saves, another one loads, a router restores, and its tasks report costs."""

    def controller(seed):
        policies = OperatorPolicies(kind(2, capacity=64, seed=SecretSeed(seed)))
        return Controller("op", "query", policies, journal=Journal())

    def execution(seed, batch):
        tracker = kind(2, capacity=64, seed=SecretSeed(seed)).tracker(0)
        keys, costs_ms = np.arange(20), np.linspace(1, 20, 20)
        messages = [*measure(tracker, keys, costs_ms, sizes=None), *tracker.finish()]
        return ExecutionReport(
            TaskId("op", "query", batch, 0, "use"),
            records=20,
            emitted=20,
            busy_ms=210.0,
            executor="1",
            costs=pack_costs(messages),
        )

    first, second = controller(1), controller(2)
    first.observe(execution(1, "0"))
    second.load(first.save())
    second.observe(execution(2, "1"))
    router = OperatorPolicies(kind(2, capacity=64, seed=SecretSeed(3)))
    router.restore(second.snapshot("2").data)
    expected_ms = router.grouping.expected_ms(np.arange(20))
    np.testing.assert_allclose(expected_ms, np.linspace(1, 20, 20))
    assert second.stats().processed == 20
