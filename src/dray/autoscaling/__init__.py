"""Autoscaling for pods with claims: which nodes to add for waiting pods, which nodes to remove, and why.

`groups` reads node groups, `planner.plan` finds the cheapest nodes over all groups at once, `scale_down.scale_down`
finds
removable nodes, and `loop.Autoscaler` does both repeatedly through a provider. See docs/autoscaling.md.
"""
