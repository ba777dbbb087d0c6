"""Examples of every command, for its help. A test parses each of them."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, ...]] = {
    "allocate": (
        "dray allocate -f hardware.yaml -f claims.yaml --node node-1",
        "dray allocate -f hardware.yaml -f claims.yaml --node node-1 -o json",
        "dray allocate --scenarios scenarios.jsonl",
    ),
    "allocator": (
        "dray allocator test -- ./my-allocator",
        "dray allocator test --without consumableCapacity,bindingConditions -- ./my-allocator",
        "dray allocator cases recorded/   # questions with the answers of Kubernetes, as JSON lines",
    ),
    "apiserver": (
        "dray apiserver --dir .dray --store sqlite",
        "dray apiserver --dir .dray --store etcd://127.0.0.1:2379 --port 7443",
    ),
    "autoscale": (
        "dray autoscale simulate --groups groups.yaml -f training.yaml              # nodes that these pods would need",
        "dray autoscale simulate --groups groups.yaml --recording cluster.json.gz   # nodes for its waiting pods",
        "dray autoscale plan --groups groups.yaml                                   # nodes for a running cluster",
        "dray autoscale run --groups groups.yaml --provider 127.0.0.1:8086          # add and remove nodes",
    ),
    "bench": ("dray bench scheduling", "dray bench scheduling --nodes 5000 --pods 10000"),
    "cel": (
        """dray cel 'device.driver == "gpu.example.com"' --driver gpu.example.com""",
        'dray cel \'device.attributes["gpu.example.com"].model == "a100"\' --device device.yaml',
    ),
    "completion": (
        'eval "$(dray completion bash)"   # in this shell',
        "dray completion fish > ~/.config/fish/completions/dray.fish",
    ),
    "controller-manager": (
        "dray controller-manager --kubeconfig .dray/kubeconfig",
        "dray controller-manager --controllers '*,-garbage-collector'",
    ),
    "dashboard": (
        "dray dashboard                               # the cluster of the current context",
        "dray dashboard --recording cluster.json.gz   # a cluster that `dray record` recorded",
        "dray dashboard --demo                        # an invented cluster with a changing workload",
    ),
    "delete": ("dray delete", "dray delete training"),
    "docs": ("dray docs", "dray docs tutorials", "dray docs --path   # the path of the pages"),
    "down": ("dray down", "dray down training"),
    "driver": (
        "dray driver example --node agent-0 --root .dray/nodes/agent-0",
        "dray driver test -- ./my-driver --node {node} --kubelet-dir {kubelet-dir}",
    ),
    "example": ("dray example tour   # into ./tour", "dray example driver ./mine"),
    "explain": (
        "dray explain pod training",
        "dray explain pod training --watch   # until it runs",
        "dray explain deployment web -n team-a",
        "dray explain claim large-or-two-small -n team-a -o json",
    ),
    "gates": ("dray gates", "dray gates --feature-gates AllAlpha=true"),
    "lint": ("dray lint -f manifests/", "dray lint -f pod.yaml --recording recording.json.gz --strict"),
    "list": ("dray list", "dray list   # running and stopped clusters"),
    "node": (
        "dray node --name n1 --root /tmp/n1 --kubeconfig .dray/kubeconfig",
        "dray node --name n1 --root /tmp/n1 --runtime oci --registry '*'",
    ),
    "record": ("dray record -o cluster.json.gz", "dray record -o shared.json.gz --anonymous"),
    "replay": (
        "dray replay day.json.gz                                # same decisions as recorded?",
        "dray replay day.json.gz --config packing.yaml          # with another scheduler configuration",
        "dray replay day.json.gz --profile 'dgx-h100*4'         # on other nodes",
        "dray replay day.json.gz --add-nodes 2 --like n1 --html report.html",
    ),
    "scheduler": (
        "dray scheduler --kubeconfig ~/.kube/config",
        "dray scheduler --config scheduler.yaml   # a KubeSchedulerConfiguration",
    ),
    "snapshot": ("dray snapshot save copy.db", "dray snapshot restore .dray --dir restored"),
    "status": ("dray status", "dray status training"),
    "top": (
        "dray top pools",
        "dray top nodes --sort-by utilisation",
        "dray top claims -A",
        "dray top devices --driver gpu.example.com --watch",
    ),
    "version": ("dray version", "dray version -o json"),
    "what-if": (
        "dray what-if -f training.yaml                           # whether it fits now, and where",
        "dray what-if -f training.yaml --how-many                # how many copies fit, and what limits them",
        "dray what-if -f training.yaml --add-nodes 2 --like n1   # with two more nodes like n1",
        "dray what-if -f training.yaml --profile 'dgx-h100*4'    # whether it fits on four of these nodes",
        "dray what-if --drain n1 --recording cluster.json.gz     # where the pods of n1 would go",
    ),
    "up": (
        "dray up --nodes 3 --devices 4",
        "dray up --name training --profile 'dgx-h100*4,cpu*10' --detach",
        "dray up --autoscale groups.yaml   # nodes are added and removed as pods need them",
        "dray up --agents 1   # a real node, which runs containers on this machine",
    ),
}


def epilog(command: str) -> str:
    """Return the examples of a command, for the end of its help."""
    return "\n".join(["examples:", *(f"  {example}" for example in EXAMPLES.get(command, ()))])
