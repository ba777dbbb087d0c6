"""dray: Dynamic Resource Allocation for Kubernetes, whole, in Python."""

__version__ = "0.2.0"
