"""Files and nested options, read safely."""
