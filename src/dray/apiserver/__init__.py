"""The API server: one entry point for every request, and HTTP as a codec around it."""
