"""Assemble the components of a cluster and run them in one process: for commands, tests and demonstrations.

`options` has the settings, `server` runs an API server with components beside it, `parts` creates the components of
`dray up`, `component` runs one component with any API server, `clusters` finds the clusters of a user. `dray.cli` has
the command lines and their output.
"""

from dray.assembly.options import ClusterOptions, ServerOptions, ServerStartError

__all__ = ["ClusterOptions", "ServerOptions", "ServerStartError"]
