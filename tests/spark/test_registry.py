"""The registered operators, without a session."""

from types import SimpleNamespace

from penstock.control import Journal
from penstock.spark.driver.registry import Registration, Registry


def registration(instances, query="q"):
    """An operator whose number of instances has followed the cluster."""
    policies = SimpleNamespace(grouping=SimpleNamespace(instances=instances))
    return Registration(
        None, "op", "name", policies, Journal(), controllers={query: f"{instances} slots"}
    )


def test_an_operator_that_is_used_again_is_the_newest():
    registry = Registry()
    for instances in (4, 8, 4):
        registry.add(registration(instances))
    (found,) = [controller for _, controller in registry.newest()]
    assert found == "4 slots"
    assert [one.identity for one in registry.all()] == ["op-8", "op-4"]
