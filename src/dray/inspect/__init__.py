"""Analysis of a cluster's objects: why something waits, what is in use, and what is wrong with a manifest.

All modules except `reading` are free of I/O: objects in, findings out. The commands `dray explain`, `dray top` and
`dray lint` fetch the objects of any cluster and print the findings. Left out: output for people (`dray.cli`).
"""
