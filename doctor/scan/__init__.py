"""Log files to occurrences: sources, kinds, the matching engines, records, the scanner."""
