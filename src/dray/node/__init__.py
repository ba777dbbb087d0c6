"""The node agent, which does on a node what the kubelet does in Kubernetes: it gives pods their devices and runs
them.

Drivers register on sockets. Claims are prepared before the first pod that uses them and unprepared after the last,
and pods run as containers of one of several runtimes. `Agent` combines all parts; the pure parts (`cdi`,
`checkpoint`, `lifecycle`, `status`) can be used alone. This package imports none of them, so that importing one part
loads only that part's dependencies.
"""
