"""The typed program: `syntax` (as written), `nodes` (the core), `check` between them, and the
core's printer, formatter and interpreter."""
