"""The wire: from bytes of a request to what is asked, and from what is found to bytes of an answer."""
