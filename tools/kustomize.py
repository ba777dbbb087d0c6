"""Write the Kustomize bases of `deploy/kustomize`, rendered from the chart by Helm, so that both always deploy the same.

Each directory is one part, for the namespace `dray-system`. The scheduler's configuration is a file of its own there, with which
Kustomize generates a ConfigMap, so a changed configuration starts the pods again. Rules and dashboard need no cluster and stay
in `deploy/chart/monitoring`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "deploy/kustomize"
PARTS = {
    "scheduler": ("scheduler.enabled=true",),
    "shadow": ("shadow.enabled=true",),
    "policy": ("policy.enabled=true",),
    "simulated-nodes": ("simulatedNodes.enabled=true", "simulatedNodes.count=10"),
    "reader": ("reader.enabled=true",),
}
_OFF = ("scheduler.enabled=false", "reader.enabled=false")
_FIRST = "# Made from the chart by tools/kustomize.py; change it with patches of your own.\n"


def render(part: str) -> dict[str, str]:
    """The files of one part, by name."""
    values = [f"--set={value}" for value in (*_OFF, *PARTS[part])]
    command = [_helm(), "template", "dray", str(ROOT / "deploy/chart"), "--namespace=dray-system", *values]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    objects = [tree for tree in yaml.safe_load_all(printed) if tree]
    configured = [tree for tree in objects if tree["kind"] == "ConfigMap"]
    kustomization: dict[str, Any] = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": "dray-system",
        "resources": ["resources.yaml"],
    }
    files: dict[str, str] = {}
    for tree in configured:
        files |= tree["data"]
        generated = {"name": tree["metadata"]["name"], "files": sorted(tree["data"])}
        kustomization.setdefault("configMapGenerator", []).append(generated)
    rest = [tree for tree in objects if tree not in configured]
    for tree in rest:
        tree.get("spec", {}).get("template", {}).get("metadata", {}).get("annotations", {}).pop(
            "dray.dev/configuration", 0
        )
    files["resources.yaml"] = _FIRST + yaml.safe_dump_all(rest, sort_keys=False, width=120)
    files["kustomization.yaml"] = _FIRST + yaml.safe_dump(kustomization, sort_keys=False)
    return files


def _helm() -> str:
    found = shutil.which("helm", path=f"{ROOT / '.venv/programs'}:/usr/local/bin:/usr/bin")
    if found is None:
        sys.exit("tools/kustomize.py needs Helm; `make test` provides it")
    return found


def main() -> None:
    for part in PARTS:
        directory = TARGET / part
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        for name, text in render(part).items():
            (directory / name).write_text(text)


if __name__ == "__main__":
    main()
