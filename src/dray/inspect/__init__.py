"""Understanding a cluster from its objects: why something waits, what is in use, what a manifest gets wrong.

Everything here but `snapshot` is pure: objects in, findings out. The commands `dray explain`, `dray top` and `dray lint`
fetch the objects and print the findings, for any cluster. Left out: output for people (`dray.cli`).
"""
