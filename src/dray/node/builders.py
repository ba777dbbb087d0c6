"""Why a container was not started, read from the last words of the program that was to build it: bwrap or runc.

That it was not started is known without words (`shim.began`). Words that are not known are told as they are.
"""

from __future__ import annotations

import json
from contextlib import suppress

from dray.node.shim import not_executed

_RUNC = "unable to start container process: "


def why_not_started(said: str, program: str) -> str:
    """The reason in the words that Kubernetes' users know."""
    with suppress(ValueError, TypeError, KeyError):
        said = str(json.loads(said)["msg"])  # runc's
    if _RUNC in said:
        return said.partition(_RUNC)[2]
    _, found, why = said.partition(f"bwrap: execvp {program}: ")
    return not_executed(program, why) if found else said
