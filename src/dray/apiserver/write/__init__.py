"""The write path: from an authorized request to one commit."""
