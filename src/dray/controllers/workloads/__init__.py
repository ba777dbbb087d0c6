"""Controllers that create pods: Deployment, ReplicaSet, ReplicationController, DaemonSet, StatefulSet, Job, CronJob.

Each controller is a small module that reads informers' copies and writes. Pure modules beside it decide;
`docs/workloads.md` has the map.
"""
