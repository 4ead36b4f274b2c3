"""Writing Python functions: source lines, the objects they mention, and the fields of a state.

A *state* is a list that one running call owns: argument blocks, grids, the last pointers. Its
fields are declared while the source is written, and made when a call first needs a state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from types import CodeType
from typing import Any

from loopfuse.runtime.checks import ERROR_WORD
from loopfuse.runtime.devices.gpu_clearing import Clearing
from loopfuse.runtime.devices.steps import ArgumentBlock
from loopfuse.runtime.formulas import evaluate


@dataclass(frozen=True, slots=True)
class Clears:
    """What is to be cleared of the outputs that a call makes. `parts`, by name: what the machine's
    `clear` is given before the launches (nothing: there is nothing to clear; None: the whole array);
    `clearing`: the launch that clears the rest itself."""

    parts: Mapping[str, Any]
    clearing: Clearing | None = None


@dataclass(slots=True)
class Making:
    """What the fields of a state are made from: sizes, integers and strides by name, bytes that
    each array spans, shapes of the outputs to allocate, how many bytes of a view lie before its
    first element, what is to be cleared of the outputs and how, the address of the error word (0: nothing
    is checked); and what was made already, by key."""

    values: Mapping[str, Any]
    bytes: Mapping[str, int]
    shapes: Mapping[str, tuple[int, ...]]
    before: Mapping[str, int]
    clears: Clears = field(default_factory=lambda: Clears({}))
    error_word: int = 0
    made: dict[Any, Any] = field(default_factory=dict[Any, Any])

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """The object made for `key`, made on first use."""
        if key not in self.made:
            self.made[key] = make()
        return self.made[key]

    def block(self, site: int, arguments: Any) -> ArgumentBlock:
        """The argument block of launch number `site`, with everything in it that is known."""

        def make() -> ArgumentBlock:
            pointers = {one["name"]: 0 for one in arguments if one["kind"] == "pointer"}
            pointers[ERROR_WORD] = self.error_word
            return ArgumentBlock(arguments, pointers, self.values, not self.bytes)

        return self.once(("block", site), make)

    @property
    def integers(self) -> dict[str, int]:
        """The sizes and integers by name, from which an offender is described."""
        return {name: value for name, value in self.values.items() if isinstance(value, int)}

    def formula(self, text: str, variables: tuple[str, ...]) -> Callable[..., int]:
        """The formula as a function of host loop variables, everything else known."""

        def value(*given: int) -> int:
            return int(evaluate(text, {**self.values, **dict(zip(variables, given))}))

        return value


class Draft:
    """A function `call(args, kwargs)` being written. `weaves`: launches may be replaced
    (`Clears.clearing`)."""

    def __init__(self, weaves: bool = False) -> None:
        self.weaves = weaves
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self.fields: list[Callable[[Making], Any]] = []
        self._known: dict[Any, str] = {}
        self.depth = 0

    def add(self, *lines: str) -> None:
        """Lines at the current depth."""
        self.lines += ["    " * self.depth + line for line in lines]

    def mention(self, stem: str, thing: Any) -> str:
        """A name for `thing`."""
        name = f"{stem}_{len(self.names)}"
        self.names[name] = thing
        return name

    def field(self, key: Any, make: Callable[[Making], Any]) -> str:
        """The field `key` of the state, as source; `make` makes its first value."""
        if key not in self._known:
            self._known[key] = f"s[{len(self.fields)}]"
            self.fields.append(make)
        return self._known[key]

    def number(self, text: str) -> str:
        """The value of a formula over what is known when the state is made."""
        return self.field(("number", text), lambda m: int(evaluate(text, m.values)))

    def over(self, text: str, variables: tuple[str, ...]) -> str:
        """A formula that reads host loop variables, called with them."""
        function = self.field(
            ("formula", text, variables), lambda m: m.formula(text, variables)
        )
        return f"{function}({', '.join(map(local_variable, variables))})"

    def finish(self) -> Callable[[Any, Any], Any]:
        """The function."""
        namespace = dict(self.names)
        exec(_compiled("\n".join(self.lines)), namespace)
        return namespace["call"]

    def state(self, making: Making) -> list[Any]:
        """A new state; it holds on to what its fields were made from."""
        return [*(make(making) for make in self.fields), making]

    def maker(self, making: Callable[[], Making]) -> Callable[[], list[Any] | None]:
        """A function that makes a state, or None where memory is short."""
        return partial(_make, self, making)


def _make(draft: Draft, making: Callable[[], Making]) -> list[Any] | None:
    try:
        return draft.state(making())
    except MemoryError:
        return None


@lru_cache(maxsize=256)
def _compiled(text: str) -> CodeType:
    return compile(text, "<loopfuse call>", "exec")


def local_variable(name: str) -> str:
    """The local that holds host loop variable `name`."""
    return f"v_{name}"
