"""Compiled kernels in the disk cache: their keys, and how an artifact is laid out there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from loopfuse.base.artifact import Artifact
from loopfuse.base.options import Options
from loopfuse.runtime import cache


def artifact_key(
    identity: str,
    file: str,
    kernel: str,
    options: Options,
    emit: frozenset[str],
    constants: Mapping[str, int] | None,
    host: str,
) -> str:
    """The key of what a compile makes: `identity` and `file` are the source's text and name,
    `emit` what is wanted, `host` the CPU that it is for (empty for a GPU)."""
    return cache.key_of(
        "artifact", identity, file, kernel, options, sorted(emit), sorted((constants or {}).items()), host
    )  # fmt: skip


def find_artifact(key: str) -> Artifact | None:
    """The artifact that lies there; None where there is none."""
    hit = cache.get(key)
    if hit is None:
        return None
    stored: dict[str, Any] = {**hit[0], **hit[1]}
    stored["warnings"] = tuple(stored["warnings"])  # JSON has lists alone
    return Artifact(**stored)


def store_artifact(key: str, artifact: Artifact) -> None:
    """Keep it, where the cache is used and has room."""
    stored = {one.name: getattr(artifact, one.name) for one in fields(artifact)}
    cache.put(
        key,
        {name: value for name, value in stored.items() if not isinstance(value, bytes)},
        {name: value for name, value in stored.items() if isinstance(value, bytes)},
    )
