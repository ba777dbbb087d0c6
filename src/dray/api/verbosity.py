"""Logging level of `-v 5`, below DEBUG: logs every checked rule with its result."""

WHY = 5
