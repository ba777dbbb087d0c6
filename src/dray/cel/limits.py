"""How much an expression may take. The limits of text, cost and nesting are those of Kubernetes.

The sizes of values follow from the cost limit: one pass over a longer text or list would exceed
it. They exist because Kubernetes charges some operations less than what they make.
"""

from __future__ import annotations

from dray.cel.errors import CostExceeded

MAX_LENGTH = 10 * 1024
MAX_COST = 1_000_000

TEXT_COST_FACTOR = 0.1
REGEX_COST_FACTOR = 0.25

MAX_TEXT = int(MAX_COST / TEXT_COST_FACTOR)
MAX_LIST = MAX_COST


def bound_text(size: int) -> None:
    """Refuse to make a text, or bytes, of this size."""
    if size > MAX_TEXT:
        raise CostExceeded


def bound_list(size: int) -> None:
    """Refuse to make a list of this size."""
    if size > MAX_LIST:
        raise CostExceeded
