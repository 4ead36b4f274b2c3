"""Where the parser's tables are kept between processes.

Building the LALR tables takes about 60 ms, loading them 5. Lark keeps them by pickle, so the file
must lie where nobody else can put one: in loopfuse's cache directory, and only if that directory
belongs to this user and no other may write to it.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from importlib import metadata
from pathlib import Path


def tables_file(grammar: str) -> str | None:
    """The path for the tables of `grammar`; None where they must not be kept.

    The name holds a hash of all that decides the tables. The directory is the one of
    `runtime.cache` (which this room may not import), and `LOOPFUSE_CACHE=0` turns it off.
    """
    if os.environ.get("LOOPFUSE_CACHE", "1") == "0":
        return None
    home = os.environ.get("XDG_CACHE_HOME", "") or os.path.expanduser("~/.cache")
    directory = Path(os.environ.get("LOOPFUSE_CACHE_DIR", "") or Path(home) / "loopfuse")
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.stat()
    except OSError:
        return None
    others = stat.S_IWGRP | stat.S_IWOTH
    if status.st_uid != os.geteuid() or status.st_mode & others:
        return None
    decides = (grammar, metadata.version("lark"), sys.version, sys.implementation.name)
    name = hashlib.sha256("\0".join(decides).encode()).hexdigest()[:32]
    return str(directory / f"grammar-{name}.tables")
