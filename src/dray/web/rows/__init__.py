"""From objects of the API to rows of tables, one module a kind of thing. Pure, but for the tables that number the rows."""
