"""The API server: one way in for every request, and HTTP as a codec around it."""
