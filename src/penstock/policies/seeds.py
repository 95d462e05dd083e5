"""Secret seeds: an attacker who knows the seed can choose keys that collide."""


class SecretSeed(int):
    """A seed that is not printed; otherwise it is the number.

    A policy with a secret seed takes over the seed of a snapshot that it restores. So an operator
    whose seed is drawn at random goes on with what an earlier one has learnt.

    Example:
        >>> seed = SecretSeed(7)
        >>> seed, f"{seed}", seed + 1
        (<secret>, '<secret>', 8)
    """

    def __repr__(self) -> str:
        return "<secret>"

    def __str__(self) -> str:
        return "<secret>"

    def __format__(self, spec: str) -> str:
        return "<secret>"
