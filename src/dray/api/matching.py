"""Defaults of the request selectors of admission webhooks and policies."""

from __future__ import annotations


def matching_defaults(path: str, *rule_lists: str) -> dict[str, object]:
    """Return the defaults of the selectors at a path, and of the rules in the named lists, by path of the field."""
    selectors: dict[str, object] = {f"{path}.namespaceSelector": {}, f"{path}.objectSelector": {}}
    return {f"{path}.matchPolicy": "Equivalent", **selectors, **{f"{path}.{name}[].scope": "*" for name in rule_lists}}


def policy_defaults(path: str) -> dict[str, object]:
    """Return the defaults of the match resources of a policy or its binding at a path, by path of the field."""
    return matching_defaults(path, "resourceRules", "excludeResourceRules")


def webhook_defaults() -> dict[str, object]:
    """Return the defaults of webhooks, by path of the field."""
    webhook = {"failurePolicy": "Fail", "timeoutSeconds": 10, "clientConfig.service.port": 443}
    return {f"webhooks[].{name}": value for name, value in webhook.items()} | matching_defaults("webhooks[]", "rules")
