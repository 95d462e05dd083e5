"""Code that runs in Spark's tasks, in the Python workers of executors."""
