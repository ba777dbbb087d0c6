"""The kinds of the API: one module per kind, with everything that is specific to the kind.

A module is named after its kind in snake case and contains a `Resource` named `KIND`. If another API group serves
the same stored objects, the module also has a `Resource` named `ALIAS`. `dray.api.resources` finds the modules.
"""
