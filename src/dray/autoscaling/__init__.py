"""Autoscaling for pods with claims: which nodes to add for the pods that wait, which to remove, and why.

`groups` reads node groups, `planner.plan` finds the cheapest nodes over all groups at once, `scale_down.removable` the
nodes that can go, `loop.Autoscaler` does both again and again through a provider. docs/autoscaling.md tells how.
"""
