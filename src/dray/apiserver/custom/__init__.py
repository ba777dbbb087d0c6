"""Custom resources in the API server: served definitions, checks of their schemas, and conversion of objects.

Custom objects are read and written like all others (`write`, `read`, `wire`); only their special parts are here.
"""
