"""The functions that selectors may call, one module a subject."""
