"""Custom resources in the API server: which definitions hold, what their schemas ask, and who converts their objects.

Objects of custom resources take the same way as all others (`write`, `read`, `wire`); here is what is theirs alone.
"""
