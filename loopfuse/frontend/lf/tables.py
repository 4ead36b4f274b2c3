"""Where the parser's tables are kept between processes.

Building the LALR tables takes about 60 ms, loading them 5. They are kept by pickle, so the file
must lie where nobody else can put one (see base/cache_directory), and begins with a hash of the
rest: damaged tables would parse wrongly, or worse.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from loopfuse.base.cache_directory import private_directory
from loopfuse.base.files import read_private, write_atomically

_LARGEST = 64 << 20


def tables_file(grammar: str) -> str | None:
    """The path for the tables of `grammar`; None where they must not be kept.

    The name holds a hash of all that decides the tables. `LOOPFUSE_CACHE=0` turns them off.
    """
    if os.environ.get("LOOPFUSE_CACHE", "1") == "0":
        return None
    directory = private_directory(make=True)
    if directory is None:
        return None
    decides = (grammar, metadata.version("lark"), sys.version, sys.implementation.name)
    name = hashlib.sha256("\0".join(decides).encode()).hexdigest()[:32]
    return str(directory / f"grammar-{name}.tables")


def read_tables(file: str) -> Any:
    """What `keep_tables` wrote; None where it is missing, damaged or another's."""
    with suppress(OSError):
        data = read_private(Path(file), _LARGEST)
        if _hash(file, data[64:]) == data[:64]:
            return pickle.loads(data[64:])
    return None


def keep_tables(file: str, tables: Any) -> None:
    """Keep `tables` for the next process; not being able to is no error."""
    body = pickle.dumps(tables, pickle.HIGHEST_PROTOCOL)
    with suppress(OSError):
        write_atomically(Path(file), _hash(file, body) + body, mode=0o600, sync=False)


def _hash(file: str, body: bytes) -> bytes:
    """What the file begins with; its name, which says what tables it holds, is in it."""
    return hashlib.sha256(Path(file).name.encode() + b"\0" + body).hexdigest().encode()
