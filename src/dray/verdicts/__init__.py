"""What each scheduling rule says about each node for a pod, as codes with numbers and subjects.

The scheduler, the simulation and explain use one composition of rules (`rules.Rules`) on one state of the cluster
(`nodes.NodeTable`, `dray.allocator.Index`), which the caller keeps up to date. The package is pure. Whether a pod may
use its claims at all is decided before (`dray.api.claim_access`), and text is produced last
(`dray.api.reasons.wording`).
"""
