"""Names of plans that templates recommend."""
