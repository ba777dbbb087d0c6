"""Answers ResourcePoolStatusRequests: how much of a driver's pools is in use (KEP-5677).

`computation` counts and is pure, `controller` answers.
"""
