"""Selectors: match objects by labels and fields, nodes by node selectors, and taints by tolerations.

Label and field selectors are text in a query or a LabelSelector in an object. The API server, allocator,
scheduler and controllers use them. All functions are pure. `validation` checks that a selector in an object is
well formed.
"""

from dray.api.selectors.fields import FieldSelector, parse_fields
from dray.api.selectors.labels import (
    EVERYTHING,
    NOTHING,
    AnySelector,
    LabelRequirements,
    Requirement,
    SelectorError,
    label_selector,
    spelled_out,
)
from dray.api.selectors.labels import parse as parse_labels
from dray.api.selectors.nodes import node_selector_matches, term_matches
from dray.api.selectors.taints import tolerates, tolerates_device, untolerated

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "AnySelector",
    "FieldSelector",
    "LabelRequirements",
    "Requirement",
    "SelectorError",
    "label_selector",
    "node_selector_matches",
    "parse_fields",
    "parse_labels",
    "spelled_out",
    "term_matches",
    "tolerates",
    "tolerates_device",
    "untolerated",
]
