"""What fusion and strategies both speak of: units of loops, groups of them, their alignment, their storage."""
