"""Typed, immutable wire objects of the storage versions, one module a group.

`python tools/generate_types.py` writes the modules from `schema.json`.
"""
