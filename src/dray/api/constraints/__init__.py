"""Validation of fields by constraints in the schema table, compiled once per message.

The column `c` of a field lists the constraints of the Kubernetes schema: `required`, `format=k8s-short-name`,
`maxItems=32` and so on. `judged` compiles the constraints of a message and of all nested messages into one Python
function and returns the errors in the order of Kubernetes: unions before the fields of their message, fields by
number, a field before its contents. Parts that an update does not change are not checked again.

The condition and the error of each constraint are one row in a table for built-in and custom resources (`table`).
The column `k` of a message lists the checks that Kubernetes does in code, in the same order; `checked` performs
these steps. Rules that neither can express are functions in `dray.api.validation`, referenced by a step or by the
module of a kind.
"""

from typing import TYPE_CHECKING

from dray.lazy import lazily

if TYPE_CHECKING:
    from dray.api.constraints.compiler import Checker
    from dray.api.constraints.judging import checked, judged, performed
    from dray.api.constraints.steps import function, steps_of

__all__ = ["Checker", "checked", "function", "judged", "performed", "steps_of"]

__getattr__ = lazily(
    __name__,
    {"compiler": ("Checker",), "judging": ("checked", "judged", "performed"), "steps": ("function", "steps_of")},
)
