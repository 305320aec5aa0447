"""What was trained, put to use: found, loaded, played, evaluated and exported."""
