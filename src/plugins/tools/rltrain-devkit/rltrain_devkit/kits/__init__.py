"""The conformance kits, and the code that they share."""
