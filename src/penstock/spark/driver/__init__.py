"""Code that runs on the driver while a query runs: the control plane and the slow loop."""
