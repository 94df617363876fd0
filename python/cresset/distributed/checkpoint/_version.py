"""The release of torch whose way to take dicts apart is used: None for today's, "2_3" for that of 2.3."""
_derived_version = None
