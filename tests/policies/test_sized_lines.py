"""Lines of costs by size: they age, and take room in messages, with the entries of the table."""

import numpy as np

from penstock.policies.costs import BySize, SpaceSaving


def learnt(records):
    model = BySize(8, seed=1, spread=True)
    keys, costs_ms, sizes = zip(*records, strict=True)
    model.update(keys, costs_ms, sizes)
    return model


def test_decay_ages_lines_with_their_entries():
    model = learnt([(1, 5.0, 2.0), (1, 7.0, 4.0), (2, 1.0, 1.0)])
    before = model.lines.copy()
    model.decay(0.25)
    for name in ("records", "sizes", "weight", "sxx", "sxy", "syy"):
        np.testing.assert_allclose(model.lines[name], 0.25 * before[name], rtol=1e-6)


def test_a_message_has_a_line_for_each_entry():
    model = learnt([(key, 1.0, 1.0) for key in range(3)])
    plain = SpaceSaving(8, seed=1, spread=True)
    plain.update([0, 1, 2], [1.0, 1.0, 1.0])
    assert model.message_bytes == plain.message_bytes + 3 * model.lines.itemsize
