"""The wire: from the bytes of a request to a Request, and from an Answer to the bytes of a response."""
