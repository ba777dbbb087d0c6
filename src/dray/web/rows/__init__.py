"""Rows of tables from API objects, one module per group of kinds. Pure, except for the tables that number rows."""
