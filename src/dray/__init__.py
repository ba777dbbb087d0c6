"""dray: a complete implementation of Kubernetes Dynamic Resource Allocation, in Python."""

__version__ = "0.2.0"

KUBERNETES_VERSION = "v1.37.0"
"""Release of Kubernetes whose API and behaviour dray implements."""
