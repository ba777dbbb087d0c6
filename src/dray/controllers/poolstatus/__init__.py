"""Answers ResourcePoolStatusRequests: how many devices of a driver's pools are in use (KEP-5677).

`computation` counts and is pure; `controller` writes the answers.
"""
