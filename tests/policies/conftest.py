"""Twins of the kernels, for the tests below this folder (`from twins import ...`)."""
