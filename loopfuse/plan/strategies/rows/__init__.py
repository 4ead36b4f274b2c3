"""Rows: loops that read a row again and again, and reduce it, by the threads of a warp or a block together."""
