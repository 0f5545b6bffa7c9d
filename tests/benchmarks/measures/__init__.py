"""Each module measures one thing: it makes its own stage and returns rows of the table."""
