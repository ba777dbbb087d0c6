"""Controllers of what makes pods: Deployment, ReplicaSet, ReplicationController, DaemonSet, StatefulSet, Job, CronJob.

Each is a small module that reads copies and writes, beside pure modules that decide; `docs/workloads.md` has the map.
"""
