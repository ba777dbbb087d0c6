"""The node agent: devices reach containers here.

Drivers register on sockets, claims are prepared before the first pod that uses them and unprepared after the last, and
pods run as containers of one of several runtimes. `Agent` is the whole of it; the pure parts (`cdi`, `checkpoint`,
`lifecycle`, `status`) can be used alone. Imports nothing here, so that a part costs only what it needs.
"""
