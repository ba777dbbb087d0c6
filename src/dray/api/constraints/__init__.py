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
    from dray.api.constraints.judging import checked, judged
    from dray.api.constraints.steps import function

__all__ = ["checked", "function", "judged"]

__getattr__ = lazily(__name__, {"judging": ("checked", "judged"), "steps": ("function",)})
