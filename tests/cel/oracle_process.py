"""The other implementation, in a process of its own: it may crash, and it leaks.

Reads one JSON expression a line and prints {"value": ...}, {"error": ...} or {"refused": ...}.
"""

import json
import sys

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings


def main() -> None:
    variables = {"device": cel.Type.Map(cel.Type.STRING, cel.Type.DYN)}
    extensions = [ext_bindings.ExtBindings(), ext_optional.ExtOptional(), ext_strings.ExtStrings()]
    environment = cel.NewEnv(variables=variables, extensions=extensions)
    device = json.loads(sys.argv[1])
    for line in sys.stdin:
        print(json.dumps(answer(environment, json.loads(line), device)), flush=True)


def answer(environment: cel.Env, expression: str, device: dict[str, object]) -> dict[str, object]:
    try:
        compiled = environment.compile(expression)
    except Exception as error:  # whatever it raises is its way to refuse
        return {"refused": str(error)}
    try:
        result = compiled.eval(data={"device": device})
        if result.type() == cel.Type.ERROR:
            return {"error": str(result.value())}
        return {"value": result.plain_value()}
    except Exception as error:
        return {"error": str(error)}


if __name__ == "__main__":
    main()
