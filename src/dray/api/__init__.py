"""The Kubernetes API without a server: types, defaults, conversion, validation, quantities, feature gates and errors.

All functions are pure: they do no input or output. This package imports no other part of dray.
"""
