"""Custom resources: kinds whose schema comes from a CustomResourceDefinition instead of the table.

A definition becomes a `Resource` like any other (`kinds`), with a compiled schema for each version (`structure`), by
which trees are pruned and defaulted (`pruning`) and values are judged (`values`). Objects are structs with typed
metadata (`objects`). Pure. Left out: rules in CEL, which whoever knows the language passes in, and webhooks.
"""

from typing import TYPE_CHECKING

from dray.lazy import lazily

if TYPE_CHECKING:
    from dray.api.custom.kinds import CustomKind, custom_resource
    from dray.api.custom.objects import CustomObject, members
    from dray.api.custom.structure import SchemaNode, ValidationRule

__all__ = ["CustomKind", "CustomObject", "SchemaNode", "ValidationRule", "custom_resource", "members"]

__getattr__ = lazily(
    __name__,
    {
        "kinds": (
            "CustomKind",
            "custom_resource",
        ),
        "objects": (
            "CustomObject",
            "members",
        ),
        "structure": (
            "SchemaNode",
            "ValidationRule",
        ),
    },
)
