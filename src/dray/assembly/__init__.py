"""Puts the parts of a cluster together and runs them in one process: for commands, tests and demonstrations.

`options` says what is wanted, `server` runs an API server with parts beside it, `parts` makes the parts of `dray up`,
`component` runs one part against any API server, `clusters` finds the clusters of a user. Left out: words of command
lines and what people read (`dray.cli`).
"""

from dray.assembly.options import ClusterOptions, ServerOptions, ServerStartError

__all__ = ["ClusterOptions", "ServerOptions", "ServerStartError"]
