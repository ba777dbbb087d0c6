"""Asks a server what Kubernetes was asked, and compares the answers."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dray.api.wire import Tree
from tests.apiserver.asking import HttpAsker

DATA = Path(__file__).parent.parent / "data"
GATES = "DRAResourcePoolStatus=true,GenericWorkload=true,DRAWorkloadResourceClaims=true"
UNUSED = "is stored, but no part of dray acts on it"  # a warning that Kubernetes has no reason to give
VOLATILE = {
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "selfLink",
    "deletionTimestamp",
    "continue",
    "remainingItemCount",
    "storageVersionHash",
}


def cases(name: str) -> list[Tree]:
    return [json.loads(line) for line in gzip.decompress((DATA / name).read_bytes()).splitlines()]


def cleaned(value: Any, names: dict[str, str]) -> Any:
    """A body without what differs from run to run. Descriptions of columns are free text."""
    if isinstance(value, dict):
        column = "priority" in value and "format" in value
        kept = {k: v for k, v in value.items() if k not in VOLATILE and not (column and k == "description")}
        return {k: cleaned(v, names) for k, v in kept.items()}
    if isinstance(value, list):
        return [cleaned(item, names) for item in value]
    if isinstance(value, str):
        for ours, recorded in names.items():
            value = value.replace(ours, recorded)
        value = re.sub(r"\b(gen-)[a-z0-9]{5}\b", r"\1*", value)
        value = re.sub(r"^\d+s$", "0s", value)  # the age in a table
        value = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", value)
    return value


async def replayed(http: HttpAsker, case: Tree) -> list[Tree]:
    tag = uuid.uuid4().hex[:8]
    names = {f"ns-{tag}": "NS", f"-{tag}": "SFX", tag: "TAG"}
    await http("POST", "/api/v1/namespaces", {"metadata": {"name": f"ns-{tag}"}})
    answers, version, token = [], "1", ""

    def filled(text: str) -> str:
        text = text.replace("NS", f"ns-{tag}").replace("SFX", f"-{tag}")
        return text.replace("LATEST", version).replace("CONTINUE", token)

    for step in case["steps"]:
        body = step.get("raw") or (filled(json.dumps(step["body"])) if "body" in step else None)
        # The one who recorded was Python-urllib, and is named where somebody else applies.
        headers = {"accept": step.get("accept", "application/json"), "user_agent": "Python-urllib/3"}
        if body is not None:
            headers["content_type"] = step.get("type", "application/json")
        for _ in range(100):  # a step with `until` waits for a code
            async with http.send(step["method"], filled(step["path"]), body, **headers) as response:
                data = await response.read()
                found = {"code": response.status, "warning": response.headers.get("Warning")}
            if response.status == step.get("until", response.status):
                break
            await asyncio.sleep(0.05)
        if UNUSED in (found["warning"] or ""):
            del found["warning"]
        try:
            tree = json.loads(data)
        except ValueError:
            tree = {"text": data.decode()}
        metadata = tree.get("metadata") or {}
        version, token = metadata.get("resourceVersion", version), metadata.get("continue") or token
        answers.append({"body": cleaned(tree, names), **{k: cleaned(v, names) for k, v in found.items()}})
    return answers


def without_uids(answers: list[Tree]) -> list[Tree]:
    """Answers in which every uid inside a text is the same word."""
    text = json.dumps(answers)
    found: list[Tree] = json.loads(re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "UUID", text))
    return found


def causes(body: Tree) -> list[tuple[str, str]]:
    return sorted((c.get("field", ""), c.get("reason", "")) for c in (body.get("details") or {}).get("causes") or ())


def differences(case: Tree, answers: list[Tree], own_words: bool = False) -> Iterator[str]:
    """Yields what the answers say otherwise than recorded; texts are not compared where the server has its own words."""
    for number, (want, got) in enumerate(zip(case["want"], answers, strict=True)):
        for part in ("code", "warning"):
            if want.get(part) != got.get(part):
                yield f"step {number}: {part} {got.get(part)}, want {want.get(part)}: {json.dumps(got['body'])[:200]}"
        wanted, body = want["body"], got["body"]
        if want["code"] < 400:
            if wanted != body:
                yield f"step {number}: body {json.dumps(body)[:400]}, want {json.dumps(wanted)[:400]}"
            continue
        if (wanted.get("reason"), causes(wanted)) != (body.get("reason"), causes(body)):
            yield f"step {number}: {body.get('reason')} {causes(body)}, want {wanted.get('reason')} {causes(wanted)}"
        if wanted.get("message") != body.get("message") and not own_words:
            yield f"step {number}: {body.get('message')!r}, want {wanted.get('message')!r}"
