"""Ten thousand batches of one query: nothing that it uses may grow.

Run it as `PYTHONPATH=tests python -m endurance`.
"""
