"""The read path: objects, lists and watches from the cache."""
