"""Describe the components of a cluster in text, for its record and for the user who started it."""

from __future__ import annotations

from dray.assembly.options import ClusterOptions, ServerOptions


def runs(options: ServerOptions) -> tuple[str, ...]:
    """Return one line of text per component of a cluster."""
    lines = [f"API server, {'state in memory' if options.store == 'memory' else f'state in {options.store}'}"]
    if not isinstance(options, ClusterOptions):
        return tuple(lines)
    lines.append("scheduler, controllers")
    if options.nodes:
        lines.append(f"{counted(options.nodes, 'simulated node')} × {counted(options.devices, 'device')}")
    if options.profile:
        lines.append(f"simulated nodes {options.profile}")
    if options.agents:
        runtime = _runtime(options.runtime)
        lines.append(f"{counted(options.agents, 'node agent')}, runtime {runtime}{not_isolated(runtime)}")
    if options.autoscale:
        driven = f", ordered by Cluster Autoscaler at {options.provider_address}" if options.provider_address else ""
        lines.append(f"simulated nodes of {options.autoscale} as pods need them{driven}")
    if not (options.nodes or options.profile or options.agents or options.autoscale):
        lines.append("no nodes yet: --nodes 3 simulates some, --agents 1 runs containers on this machine")
    return tuple(lines)


def _runtime(name: str) -> str:
    """Return the runtime that `auto` selects on this machine, or the given one."""
    from dray.node.runtimes import AUTO, unavailable

    if name != AUTO:
        return name
    return "process" if unavailable("bwrap") else "bwrap"


def not_isolated(runtime: str) -> str:
    """Return a remark on the isolation of a runtime, to append to a line.

    Starts with a space; empty for an unknown runtime.
    """
    return {
        "process": " (containers are plain processes of yours: files, network and other processes are not isolated)",
        "bwrap": " (own mounts, devices and processes; the network is the machine's)",
        "fake": " (nothing is executed)",
    }.get(runtime, "")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 node`, `2 nodes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
