"""Custom resources: kinds whose schema comes from a CustomResourceDefinition instead of the built-in schema table.

`kinds` converts a definition to a `Resource`, with a compiled schema per version (`structure`). `pruning` prunes
and defaults objects, and `values` validates them. Objects are structs with typed metadata (`objects`). All
functions are pure. CEL rules are passed in by callers that can evaluate CEL. Conversion webhooks are not part of
this package.
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
