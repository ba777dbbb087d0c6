"""Validation of objects before they are stored, with the field paths, reasons and messages of Kubernetes.

Each kind names its functions per operation; metadata is validated in the same way for all kinds. The functions get
typed objects and yield field errors in the order of Kubernetes; they never modify objects. Admission decides what
depends on other objects; `decode` handles types, unknown fields and formats of scalars.
"""

from typing import TYPE_CHECKING

from dray.lazy import lazily

if TYPE_CHECKING:
    from dray.api.validation.context import Complaint, Context, DerivedCheck, ExpressionUse, PolicyCheck, SelectorCheck
    from dray.api.validation.objects import validate_copy, validate_create, validate_update

__all__ = [
    "Complaint",
    "Context",
    "DerivedCheck",
    "ExpressionUse",
    "PolicyCheck",
    "SelectorCheck",
    "validate_copy",
    "validate_create",
    "validate_update",
]

__getattr__ = lazily(
    __name__,
    {
        "context": ("Complaint", "Context", "DerivedCheck", "ExpressionUse", "PolicyCheck", "SelectorCheck"),
        "objects": ("validate_copy", "validate_create", "validate_update"),
    },
)
