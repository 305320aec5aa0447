"""The conformance kits, and what they share."""
