"""What an assertion of `loopfuse.testing` is about: one kernel, planned for a fixed target.

Plans are kept per kernel object, so that ten assertions on one kernel plan it once.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from loopfuse.base import forks
from loopfuse.base.diagnostics import Diagnostic, LoopfuseError, UserError
from loopfuse.base.options import Options, Target, parse_target
from loopfuse.kernels.kernel import Kernel, Kernels
from loopfuse.kernels.python import PythonKernel, Specialised
from loopfuse.kernels.trial import known_sizes
from loopfuse.kernels.words import in_python
from loopfuse.watch import current_run

if TYPE_CHECKING:
    from loopfuse.pipeline import Planned
    from loopfuse.plan.units.records import Report

DEFAULT_TARGET = "sm_80"
"""What plans are made for unless a test or the kernel says otherwise: the same on every machine."""

_PLANS: WeakKeyDictionary[Kernel, dict[Options, Planned]] = WeakKeyDictionary()
_LOCK = forks.Lock()


def refuse(code: str, message: str, fix: str = "", notes: Sequence[str] = ()) -> UserError:
    """The error for an assertion that asks for something that is not there."""
    return UserError(Diagnostic(code, message, notes=tuple(notes), fix=fix))


@dataclass(frozen=True)
class Subject:
    """A kernel with the options its plan is made under. Not slotted: it keeps its report."""

    kernel: Kernel
    options: Options
    constants: tuple[tuple[str, int], ...] = ()

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.kernel.name

    @property
    def target(self) -> Target:
        """What it is planned for."""
        return self.options.target

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes and integer parameters that the test gave."""
        return self.options.size_map

    @property
    def size_names(self) -> tuple[str, ...]:
        """Sizes and integer parameters that formulas may hold."""
        integers = [
            one.name
            for one in self.kernel.signature.parameters
            if not one.is_array and one.dtype.is_integer
        ]
        return (*self.kernel.signature.sizes, *integers)

    @property
    def conditions(self) -> tuple[str, ...]:
        """What the sizes of every call satisfy: the preconditions, and no negative extent."""
        extents = {
            extent: None
            for one in self.kernel.signature.parameters
            for extent in one.extents or ()
            if not (extent.isidentifier() or extent.isdecimal())
        }
        return (*self.planned.report.preconditions, *(f"{extent} >= 0" for extent in extents))

    @cached_property
    def planned(self) -> Planned:
        """The plan; LoopfuseError for a program that is wrong."""
        return self.plan(self.options)

    @cached_property
    def unfused(self) -> Planned:
        """The plan with fusion off."""
        return self.plan(replace(self.options, fuel=0))

    def plan(self, options: Options) -> Planned:
        """The plan under other options, made once."""
        with _LOCK:
            known = _PLANS.setdefault(self.kernel, {})
        if options not in known:
            from loopfuse import pipeline

            with spoken_in_python(self.kernel):
                program = self.kernel.program(dict(self.constants) or None)
                known[options] = pipeline.plan_kernel(program, self.name, options, current_run())
        return known[options]

    @cached_property
    def report(self) -> Report:
        """What `explain` shows of the plan."""
        report = self.planned.report
        if not isinstance(self.kernel, Specialised):
            return report
        return replace(report, spelled=tuple(self.kernel.spelled().items())).in_words()

    def dependences(self) -> dict[str, Any]:
        """The `deps` JSON, at the sizes given."""
        with spoken_in_python(self.kernel):
            return self.kernel.dependences(self.sizes)


@contextmanager
def spoken_in_python(kernel: Kernel) -> Generator[None, None, None]:
    """Messages about a Python kernel in Python's spelling."""
    try:
        yield
    except LoopfuseError as error:
        if not isinstance(kernel, Specialised):
            raise
        raise type(error)(*(in_python(one, kernel.shapes(), kernel.spelled()) for one in error.diagnostics)) from None


def find_subject(
    kernel: Any,
    target: str | None = None,
    sizes: Mapping[str, int] | None = None,
    args: Sequence[Any] | Mapping[str, Any] = (),
) -> Subject:
    """The kernel meant, under its own options; UserError for what is no kernel, for several, and
    for a Python kernel whose types nothing says."""
    one = find_kernel(kernel, args)
    given = known_sizes(one, sizes or {})
    constants = {name: value for name, value in given.items() if name in one.constants}
    rest = {name: value for name, value in given.items() if name not in constants}
    wanted = parse_target(target or one.target or DEFAULT_TARGET)
    return Subject(one, one.options(wanted, sizes=rest), tuple(sorted(constants.items())))


def find_kernel(kernel: Any, args: Sequence[Any] | Mapping[str, Any] = ()) -> Kernel:
    """`kernel` as one kernel of known types: of a file as it is, of Python specialised."""
    match kernel:
        case Kernel():
            return kernel
        case PythonKernel():
            return _specialise(kernel, args)
        case Kernels() if len(kernel) == 1:
            return next(iter(kernel.values()))
        case Kernels():
            names = list(kernel)
            raise refuse(
                "which-kernel",
                f"an assertion is about one kernel, and there are {len(names)}: {', '.join(names)}",
                f"pass one of them, such as `kernels.{names[0]}`",
            )
        case _:
            raise refuse(
                "not-a-kernel",
                f"an assertion is about a kernel, not a {type(kernel).__name__}",
                "pass what `loopfuse.load`, `loopfuse.loads` or `@loopfuse.kernel` made",
            )


def _specialise(kernel: PythonKernel, args: Sequence[Any] | Mapping[str, Any]) -> Specialised:
    try:
        if isinstance(args, Mapping):
            return kernel.specialise(**args)
        return kernel.specialise(*args)
    except UserError as error:
        if error.diagnostics[0].code != "python-types-unknown":
            raise
        fix = "say it by an example, `args=(np.zeros(8, np.float32),)`, or annotate the parameter"
        raise UserError(replace(error.diagnostics[0], fix=fix)) from None
