"""The kinds of the API: one file per kind, with everything that is specific to it.

A file is called as its kind, in lower case with underscores, and contains a `Resource` named `KIND`; another group that
serves the same stored objects has a `Resource` named `ALIAS` there. `dray.api.resources` finds the files.
"""
