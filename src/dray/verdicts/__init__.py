"""Would this pod fit on this node, and if not, why: rule by rule, as codes with numbers and subjects.

The scheduler, explain and whoever else asks use one composition of rules (`rules.Rules`) on one picture of the cluster
(`nodes.NodeTable`, `dray.allocator.Index`). Pure: whoever asks keeps the picture. Whether a pod may use its claims at
all is decided before (`dray.api.claim_access`); words are made last (`dray.api.reasons.wording`).
"""
