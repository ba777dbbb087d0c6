"""The write path: from a checked request to one commit."""
