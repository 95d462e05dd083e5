"""All cost models have the same signatures."""

import pytest

from penstock.policies.costs import ByCall, BySize, CostModel, CountMin, Exact, SpaceSaving

MODELS = [
    ByCall(capacity=8),
    BySize(capacity=8),
    CountMin(),
    Exact(keys=[1, 2], costs_ms=[9.0, 9.0]),
    SpaceSaving(capacity=8),
]


def test_the_models_here_are_all_there_are():
    assert {type(model) for model in MODELS} == set(CostModel.registered().values())


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_update_takes_its_arguments_by_keyword(model):
    by_keyword, by_position = model.clone(), model.clone()
    by_keyword.update(keys=[1, 2, 1], costs_ms=[10.0, 4.0, 10.0])
    by_position.update([1, 2, 1], [10.0, 4.0, 10.0])
    assert by_keyword.estimate(keys=[1, 2]).tolist() == [10.0, 4.0]
    assert by_keyword.snapshot() == by_position.snapshot()
