"""What workflows look like outside."""
