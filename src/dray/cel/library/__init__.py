"""The functions that expressions can call, one module per subject."""
