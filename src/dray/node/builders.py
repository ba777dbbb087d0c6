"""Why a container was not started, taken from the last output of the program that should have built it: bwrap or
runc.

Whether it was started is known without this text (`shim.began`). A text in an unknown form is passed on unchanged.
"""

from __future__ import annotations

import json
from contextlib import suppress

from dray.node.shim import not_executed

_RUNC = "unable to start container process: "


def why_not_started(said: str, program: str) -> str:
    """Return the reason in the wording known from Kubernetes; `said` is the output of bwrap or runc.

    Output of another form is returned unchanged.
    """
    with suppress(ValueError, TypeError, KeyError):
        said = str(json.loads(said)["msg"])  # runc writes JSON
    if _RUNC in said:
        return said.partition(_RUNC)[2]
    _, found, why = said.partition(f"bwrap: execvp {program}: ")
    return not_executed(program, why) if found else said
