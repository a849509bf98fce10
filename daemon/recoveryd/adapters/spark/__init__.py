"""Spark applications as child processes: command line, folders, spare drivers. Start at `runner`."""
