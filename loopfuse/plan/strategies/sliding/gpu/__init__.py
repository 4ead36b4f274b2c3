"""Windows on a GPU: rows in registers and lanes, planes in shared memory."""
