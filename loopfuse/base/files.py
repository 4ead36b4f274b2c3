"""Files written whole or not at all, and files read only if they are what they should be.

A file is first written beside its place under a hidden name (a *draft*), then renamed: readers
see the old contents or the new, whatever fails or is killed meanwhile. Every failure is an
OSError, after which nothing has changed and no draft is left; a killed process may leave a draft,
which goes with a later write to the same folder.
"""

from __future__ import annotations

import errno
import os
import re
import select
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

# `.NAME.TOKEN.draft`: so strange that no file of a user's is taken for one.
_DRAFT = re.compile(r"\..*\.[0-9a-f]{16}\.draft", re.DOTALL)
# A draft this old (seconds) is nobody's any more: writing one takes well under a minute.
ABANDONED = 3600.0
# Seconds to wait for each part of what a pipe brings.
PATIENCE = 10.0


def write_atomically(
    path: Path, data: bytes, *, mode: int | None = None, sync: bool = True
) -> None:
    """Write `data` to `path` whole or not at all. OSError as of the file system.

    `mode` is the file's permissions; if not given, those of the file it replaces, else an
    ordinary new file's. A symbolic link is replaced, not followed. With `sync` a device that
    fails late (a quota, a network disk) fails here too; without, the reader must check.
    """
    draft = _draft(path, data, mode, sync)
    try:
        os.replace(draft, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise


def write_together(files: Mapping[Path, bytes]) -> None:
    """Write several files, making folders where they are missing: every draft is complete before
    the first file changes. OSError, with `filename` the place it was meant for; then no file has
    changed (unless a rename fails after another succeeded), and no folder is left that was made.
    """
    made: list[Path] = []
    drafts: dict[Path, str] = {}
    path = Path()
    try:
        for path, data in files.items():
            made += _make_folders(path.parent)
            drafts[path] = _draft(path, data, None, sync=True)
        for path in files:
            os.replace(drafts[path], path)
            del drafts[path]
    except BaseException as error:
        for draft in drafts.values():
            with suppress(OSError):
                os.unlink(draft)
        for folder in reversed(made):
            with suppress(OSError):
                os.rmdir(folder)  # only if nothing is in it
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror or str(error), str(path)) from error
        raise
    for folder in {path.parent for path in files}:
        remove_abandoned(folder)


def _draft(path: Path, data: bytes, mode: int | None, sync: bool) -> str:
    """A draft of `path` that holds `data`, ready to be renamed."""
    kept = None
    with suppress(FileNotFoundError):
        status = os.lstat(path)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        kept = stat.S_IMODE(status.st_mode) & 0o777 if stat.S_ISREG(status.st_mode) else None
    token = os.urandom(8).hex()
    name = os.path.join(path.parent, f".{path.name[:40]}.{token}.draft")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    handle = os.open(name, flags, 0o666 if mode is None else mode)
    try:
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(handle, rest) :]
            if mode is None and kept is not None:
                os.fchmod(handle, kept)
            if sync:
                os.fsync(handle)
        finally:
            os.close(handle)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    return name


def _make_folders(folder: Path) -> list[Path]:
    """Make `folder` and those around it; the ones that were missing, outermost first."""
    missing: list[Path] = []
    while not folder.is_dir() and folder != folder.parent:
        missing.append(folder)
        folder = folder.parent
    made: list[Path] = []
    try:
        for one in reversed(missing):
            with suppress(FileExistsError):  # another process made it; or it is a file
                os.mkdir(one)
                made.append(one)
            if not one.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(one))
    except BaseException:
        for one in reversed(made):
            with suppress(OSError):
                os.rmdir(one)
        raise
    return made


def is_draft(name: str) -> bool:
    """The file name is one that a draft gets."""
    return _DRAFT.fullmatch(name) is not None


def remove_abandoned(folder: Path) -> None:
    """Remove the drafts in `folder` that killed processes left: those older than an hour."""
    with suppress(OSError), os.scandir(folder) as entries:
        old = time.time() - ABANDONED
        for entry in entries:
            if is_draft(entry.name):
                with suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_mtime < old:
                        os.unlink(entry.path)


def read_private(path: Path, most: int) -> bytes:
    """The bytes of a regular file that belongs to this user and that nobody else may write.

    OSError where it is anything else (a link, a pipe, another's), or has more than `most` bytes.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if others_may_write(status):
            raise PermissionError(errno.EPERM, "another user may have written it", str(path))
        if status.st_size > most:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
        return file.read(most + 1)


def read_bounded(name: str, most: int) -> bytes | None:
    """The bytes of a file, device or pipe; None where there are more than `most`.

    OSError where it cannot be read: also a pipe that nobody writes to, or whose writer says
    nothing for `PATIENCE` seconds.
    """
    handle = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        is_pipe = stat.S_ISFIFO(os.fstat(handle).st_mode)
        parts: list[bytes] = []
        count = 0
        while count <= most:
            try:
                part = os.read(handle, 1 << 20)
            except BlockingIOError:
                if not select.select([handle], [], [], PATIENCE)[0]:
                    raise TimeoutError(errno.ETIMEDOUT, "nothing arrives from it", name) from None
                continue
            if not part:
                if is_pipe and not parts:
                    raise OSError(errno.EPIPE, "nobody writes to this pipe", name)
                return b"".join(parts)
            parts.append(part)
            count += len(part)
        return None
    finally:
        os.close(handle)


def others_may_write(status: os.stat_result) -> bool:
    """What `status` is of belongs to another user, or its group or everybody may write to it."""
    return status.st_uid != os.geteuid() or bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
