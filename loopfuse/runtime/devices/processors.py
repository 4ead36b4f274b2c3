"""How many processors this process may use: its affinity, and the quota of its control groups."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path


def usable_processors() -> int:
    """The CPUs that the calling thread may run on, and no more than the control groups' quota pays
    for (rounded up)."""
    allowed = len(os.sched_getaffinity(0))
    quota = _quota_here()
    return allowed if quota is None else max(1, min(allowed, quota))


@lru_cache(maxsize=1)
def _quota_here() -> int | None:
    return quota(Path("/proc/self"))


def quota(process: Path) -> int | None:
    """Whole processors that the control groups around a process pay for, the tightest of them; None
    where nothing limits it. `process` holds its `cgroup` and `mountinfo` (cgroups(7))."""
    try:
        groups = (process / "cgroup").read_text().splitlines()
        mounts = (process / "mountinfo").read_text().splitlines()
    except OSError:
        return None
    found: list[float] = []
    for line in groups:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        first = not controllers  # `0::/path` is the one hierarchy of version 2
        if not first and "cpu" not in controllers.split(","):
            continue
        for root, place in _mounts(mounts, first):
            inside = _within(path, root)
            folders = [place / inside, *(place / inside).parents]
            for folder in folders:
                limit = _limit_v2(folder) if first else _limit_v1(folder)
                if limit is not None:
                    found.append(limit)
                if folder == place:
                    break
    return max(1, -int(-min(found) // 1)) if found else None


def _mounts(lines: list[str], unified: bool) -> list[tuple[str, Path]]:
    """Where the hierarchy is mounted: the group that is the mount's root, and the folder."""
    found: list[tuple[str, Path]] = []
    for line in lines:
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or len(kind) < 3:
            continue
        if kind[0] == ("cgroup2" if unified else "cgroup") and (
            unified or "cpu" in kind[2].split(",")
        ):
            # Spaces and the like are written in octal.
            found.append((_unescaped(fields[3]), Path(_unescaped(fields[4]))))
    return found


def _unescaped(text: str) -> str:
    for code in ("040", "011", "012", "134"):
        text = text.replace(f"\\{code}", chr(int(code, 8)))
    return text


def _within(path: str, root: str) -> str:
    """A group's path below the mount's root; of a group that the mount does not show (a container
    sees its own as the root), the root."""
    root = root.rstrip("/")
    if root and path != root and not path.startswith(f"{root}/"):
        return ""
    inside = path[len(root) :].strip("/")
    return "" if ".." in inside.split("/") else inside


def _limit_v2(folder: Path) -> float | None:
    """`max 100000` or `150000 100000`: microseconds in each period."""
    try:
        words = (folder / "cpu.max").read_text().split()
    except OSError:
        return None
    return _ratio(words[0], words[1] if len(words) > 1 else "100000") if words else None


def _limit_v1(folder: Path) -> float | None:
    try:
        quota = (folder / "cpu.cfs_quota_us").read_text().strip()
        period = (folder / "cpu.cfs_period_us").read_text().strip()
    except OSError:
        return None
    return _ratio(quota, period)


def _ratio(quota: str, period: str) -> float | None:
    if not (quota.isdecimal() and period.isdecimal() and int(quota) and int(period)):
        return None  # `max`, or -1
    return int(quota) / int(period)
