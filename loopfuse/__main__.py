"""`python -m loopfuse`: the command, where its script is not on the path."""

from __future__ import annotations

from loopfuse.cli import main

if __name__ == "__main__":
    main()
