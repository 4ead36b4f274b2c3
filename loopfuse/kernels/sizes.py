"""Sizes and integer parameters that a kernel accepts: its preconditions and its `assume`s hold there,
and its arrays are small enough to be interpreted."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from loopfuse.base.diagnostics import UserError
from loopfuse.kernels.trial import known_sizes
from loopfuse.lang.nodes import Assume, Expr
from loopfuse.lang.walk import iterators, loads, symbols, walk_stmts
from loopfuse.runtime.arrays.arguments import refuse
from loopfuse.runtime.formulas import evaluate, names_in

if TYPE_CHECKING:
    from loopfuse.kernels.kernel import Kernel
    from loopfuse.poly.isl_sizes import SizeSet

CASES = 12
# Points (iterations, roughly) the interpreter may visit a case: a few microseconds each.
LARGEST_ARRAY = 3000
STAGES = ((LARGEST_ARRAY, CASES), (100_000, 3), (1 << 24, 1))
"""Elements an array may have, and how many cases there are then. The next stage is for kernels whose
sizes, fixed or assumed, do not fit the one before."""
_SIDES = (1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 33, 40, 64, 0)
_SIZE_LIMIT = 1 << 48
_DRAWN, _SCANNED = 240, 40
"""How many points of the affine conditions are drawn, and around how many of them each name is tried
at every value up to `_FAR`, where other conditions are left."""
_FAR = 2000


@dataclass(frozen=True, slots=True)
class _Condition:
    """Something that must hold: its text, its names, and whether it does."""

    text: str
    names: frozenset[str]
    holds: Callable[[Mapping[str, int]], bool]
    expr: Expr | None
    promised: bool = False
    """An `assume` of the program. What a call is held to is among the preconditions too."""


def choose_sizes(
    kernel: Kernel,
    fixed: Mapping[str, int],
    target: str,
    seed: int,
    preconditions: Sequence[str] | None = None,
) -> list[dict[str, int]]:
    """Up to `CASES` different choices of sizes and integer parameters that the kernel accepts:
    the `preconditions` of its report, where one was made, say which, and its `assume`s.

    UserError[no-sizes] where none is found.
    """
    given = known_sizes(kernel, fixed)
    if preconditions is None:
        code = "object" if target == "cpu" else "ptx"
        made = kernel.compile(target, emit=(code,)).manifest["preconditions"]
        preconditions = [one["text"] for one in made]
    chooser = _Chooser(kernel, given, _conditions(kernel, given, preconditions))
    for largest, most in STAGES:
        found = chooser.draw(random.Random(seed), largest, most)
        if found:
            return found
    raise chooser.refusal()


def accepted_near(
    kernel: Kernel,
    wanted: Mapping[str, int],
    given: Mapping[str, int],
    preconditions: Sequence[str],
) -> dict[str, int]:
    """`wanted`, or the sizes and integer parameters close to it that `kernel` accepts; those `given` as
    they are. UserError[no-sizes] where there are none."""
    own = known_sizes(kernel, given, strict=False)
    chooser = _Chooser(kernel, own, _conditions(kernel, own, preconditions))
    case = {name: wanted[name] for name in chooser.names}
    if chooser.accepts(case, None):
        return dict(wanted)
    point = chooser.points.near(case, own)
    if point is None or not chooser.accepts(point, None):
        raise chooser.refusal(case)
    return {**wanted, **point}


def _conditions(
    kernel: Kernel, given: Mapping[str, int], preconditions: Sequence[str]
) -> list[_Condition]:
    """What the kernel needs, and what its `assume`s on sizes and parameters promise besides."""
    from loopfuse.lang.interp import evaluator
    from loopfuse.lang.printer import print_expr
    from loopfuse.poly.isl_sizes import read_condition

    found: list[_Condition] = []
    for text in dict.fromkeys(preconditions):
        held = lambda case, one=text: bool(evaluate(one, case))  # noqa: E731 - bound to its text
        found.append(_Condition(text, names_in(text), held, read_condition(text)))
    integers = _integers(kernel)
    constants = {name: given.get(name, 1) for name in kernel.constants}
    # The constants of a specialised kernel stand in its body as numbers.
    if not constants or set(constants) <= set(given):
        program = kernel.program(constants or None).kernel(kernel.name)
        for stmt in walk_stmts(program.body):
            if not isinstance(stmt, Assume):
                continue
            names = frozenset(symbols(stmt.condition))
            if iterators(stmt.condition) or loads(stmt.condition):
                continue
            if names <= {*kernel.signature.sizes, *integers}:
                text = re.sub(r"\bi64\((\w+)\)", r"\1", print_expr(stmt.condition))
                value = evaluator(stmt.condition)
                held = lambda case, one=value: bool(one(case))  # noqa: E731
                found.append(_Condition(text, names, held, stmt.condition, True))
    return found


def _integers(kernel: Kernel) -> dict[str, tuple[int, int]]:
    """The integer parameters, and the numbers they may have."""
    from loopfuse.lang.semantics import integer_limits

    return {
        p.name: integer_limits(p.dtype)
        for p in kernel.signature.parameters
        if not p.is_array and p.dtype.is_integer
    }


class _Chooser:
    """Draws sizes and integer parameters (`names`) of a kernel, those `given` as they are."""

    def __init__(
        self, kernel: Kernel, given: Mapping[str, int], conditions: Sequence[_Condition]
    ) -> None:
        self.kernel = kernel
        self.given = dict(given)
        self.conditions = list(conditions)
        self.integers = _integers(kernel)
        self.names = (*kernel.signature.sizes, *self.integers)
        extents = {e: None for p in kernel.signature.parameters for e in p.extents or ()}
        self.extents = [one for one in extents if not one.isdecimal()]
        self.numbers = _numbers_near([one.text for one in conditions])

    @cached_property
    def points(self) -> SizeSet:
        """Where the conditions hold that isl can express, and no extent is negative."""
        from loopfuse.poly.isl_sizes import SizeSet, read_condition

        exprs = [one.expr for one in self.conditions]
        exprs += [read_condition(f"{extent} >= 0") for extent in self.extents]
        limits = dict.fromkeys(self.kernel.signature.sizes, (0, _SIZE_LIMIT)) | self.integers
        return SizeSet(self.names, [one for one in exprs if one is not None], limits)

    def accepts(self, case: Mapping[str, int], largest: int | None) -> bool:
        """Every condition holds, and no array has more than `largest` elements."""
        for parameter in self.kernel.signature.parameters:
            count = 1
            for extent in parameter.extents or ():
                size = evaluate(extent, case)
                if size < 0:
                    return False
                count *= size
            if largest is not None and count > largest:
                return False
        return all(one.holds(case) for one in self.conditions)

    def draw(self, generator: random.Random, largest: int, most: int) -> list[dict[str, int]]:
        """Up to `most` different choices with no array of more than `largest` elements."""
        found: list[dict[str, int]] = []
        for case in self._candidates(generator, largest):
            if case not in found and self.accepts(case, largest):
                found.append(case)
                if len(found) == most:
                    return found
        if not found:
            found += self._scanned(generator, largest, most)
        return found

    def _candidates(self, generator: random.Random, largest: int) -> Iterator[dict[str, int]]:
        free = [name for name in self.names if name not in self.given]
        for attempt in range(4000 if free else 1):
            yield self._small(generator, attempt, largest) | self.given
        if not self.conditions or not free:
            return
        for attempt in range(_DRAWN):
            point = self._point(generator, attempt, largest)
            if point is None:
                return
            yield point

    def _small(self, generator: random.Random, attempt: int, largest: int) -> dict[str, int]:
        # The likeliest to be accepted come first and again: one value for every size. Where small ones
        # are refused, the numbers that the conditions name are tried too.
        sides = (*_SIDES, *self.numbers) if attempt > 100 or largest > LARGEST_ARRAY else _SIDES
        together = generator.choice(sides)
        case = {
            name: together if attempt % 3 == 0 else generator.choice(sides)
            for name in self.kernel.signature.sizes
        }
        small = (*range(6), *self.numbers) if attempt > 100 else tuple(range(6))
        return case | {name: generator.choice(small) for name in self.integers}

    def _point(self, generator: random.Random, attempt: int, largest: int) -> dict[str, int] | None:
        """One of the set: near small numbers, every other one a few steps beside the nearest."""
        wanted = self._small(generator, attempt, largest)
        order = list(wanted)
        generator.shuffle(order)
        point = self.points.near({name: wanted[name] for name in order}, self.given)
        if point is None or attempt % 2 == 0:
            return point
        steps = {n: generator.choice(_SIDES) * generator.choice((1, 1, -1)) for n in order}
        return self.points.near({n: point[n] + steps[n] for n in order}, self.given)

    def _scanned(self, generator: random.Random, largest: int, most: int) -> list[dict[str, int]]:
        """Choices around points of what isl can express, each name at every small value."""
        free = [name for name in self.names if name not in self.given]
        if not self.points.left:
            return []
        found: list[dict[str, int]] = []
        for attempt in range(_SCANNED):
            point = self._point(generator, attempt, largest)
            if point is None:
                break
            for name in free:
                signed = name in self.integers and self.integers[name][0] < 0
                cases = ({**point, name: n} for n in range(-_FAR // 10 if signed else 0, _FAR))
                case = next((one for one in cases if self.accepts(one, largest)), None)
                if case is not None and case not in found:
                    found.append(case)
                    if len(found) == most:
                        return found
        return found

    # ------------------------------------------------------------------------------- refusing

    def refusal(self, wanted: Mapping[str, int] | None = None) -> UserError:
        """Why nothing was found, with sizes that would do where there are any."""
        name = self.kernel.name
        if self.points.is_empty():
            return refuse(
                "no-sizes",
                f"no sizes satisfy all that `{name}` needs: {self._conflict({})}",
                "change one of these, as an `assume` that says less",
            )
        if self.points.is_empty(self.given):
            usual = dict.fromkeys(self.names, 1) | dict.fromkeys(self.kernel.signature.sizes, 16)
            near = self._named(self.points.near({**usual, **self.given}))
            return refuse(
                "no-sizes",
                f"`{name}` needs `{self._conflict(self.given)}`, which cannot be at {_told(self.given)}",
                f"give others: `{near}`" if near else "give others",
            )
        left = [one for one in self.conditions if not self._is_affine(one)]
        if left:
            names = sorted({each for one in left for each in one.names if each not in self.given})
            broken = "; ".join(one.text for one in left)
            option = self._option(dict.fromkeys(names, "..."))
            return refuse(
                "no-sizes",
                f"no small sizes were found that satisfy what `{name}` needs: {broken}",
                f"name some that do: `{option}`"
                if names
                else f"give others than {_told(self.given)}",
            )
        return self._too_large(wanted)

    def _too_large(self, wanted: Mapping[str, int] | None) -> UserError:
        head = (
            f"`{self.kernel.name}` has arrays of more than {STAGES[-1][0]} elements at every size "
            "that was tried, and interpreting them would take hours"
        )
        zeros = wanted or dict.fromkeys(self.names, 1)
        smaller = self.points.near(zeros)
        if smaller is not None and self.given and self.accepts(smaller, STAGES[-1][0]):
            return refuse("no-sizes", head, f"name smaller sizes: `{self._named(smaller)}`")
        needs = "; ".join(one.text for one in self._shown())
        if needs:
            return refuse("no-sizes", head, f"to verify it, let it need less than `{needs}`")
        return refuse("no-sizes", head, "to verify it, declare smaller arrays")

    def _named(self, point: Mapping[str, int] | None) -> str:
        return self._option({name: str(value) for name, value in (point or {}).items()})

    def _option(self, values: Mapping[str, str]) -> str:
        """How sizes are given, where the kernel was written; empty for none."""
        told = [f"{name}={values[name]}" for name in self.names if name in values]
        if self.kernel.signature.door == "python":
            return f"verify({', '.join(told)})" if told else ""
        return f"--size {','.join(told)}" if told else ""

    def _is_affine(self, condition: _Condition) -> bool:
        exprs = [one.expr for one in self.conditions if one.expr is not None]
        if condition.expr is None:
            return False
        return not any(exprs[k] is condition.expr for k in self.points.left if k < len(exprs))

    def _shown(self) -> list[_Condition]:
        """The conditions without those that say again what a precondition says."""
        return [one for one in self.conditions if not (one.promised and self._is_affine(one))]

    def _conflict(self, given: Mapping[str, int]) -> str:
        """The fewest conditions that no point satisfies together."""
        from loopfuse.poly.isl_sizes import SizeSet

        kept = [one for one in self.conditions if self._is_affine(one)]
        limits = dict.fromkeys(self.kernel.signature.sizes, (0, _SIZE_LIMIT)) | self.integers
        # The program's own words are told where the report's say nothing: a contradiction is `False`.
        for one in sorted(kept, key=lambda each: each.text != "False" and not each.promised):
            fewer = [each for each in kept if each is not one]
            exprs = [each.expr for each in fewer if each.expr is not None]
            if SizeSet(self.names, exprs, limits).is_empty(given):
                kept = fewer
        return "; ".join(one.text for one in kept)


def _told(sizes: Mapping[str, int]) -> str:
    return " ".join(f"{name}={value}" for name, value in sizes.items())


def _numbers_near(conditions: Sequence[str]) -> tuple[int, ...]:
    """The numbers that stand in the conditions, and those beside them."""
    found = {int(text) for one in conditions for text in re.findall(r"\b\d+\b", one)}
    near = {number + more for number in found for more in (-1, 0, 1, 7)} | {2 * n for n in found}
    return tuple(sorted(n for n in near if 0 <= n < 1 << 31))
