"""The ways to run a program, sharing what does not depend on the target.

Trees and code are made by the pipeline itself. Its stages are pure functions, so what one way has
made is kept for the next: the program read, analyses, the verdict on an equal tree, the code of an
equal module. Verdicts of the checker are recorded, one a tree.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from engines import our_math

from fuzz.arguments import arguments_of, copied, overlapping
from fuzz.machines import machine
from fuzz.program import Program
from loopfuse import pipeline
from loopfuse.base.diagnostics import Source, UserError
from loopfuse.base.options import Options, Target, Tuning
from loopfuse.kernels import kernel as kernels
from loopfuse.lang import nodes
from loopfuse.lang.interp import Offence
from loopfuse.lang.interp import interpret as run_program
from loopfuse.tree.interp.run import run_tree

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Ran:
    """What the arrays hold after a run, and which subscripts were found outside."""

    arrays: Arrays
    offences: frozenset[tuple[Any, ...]] = frozenset()


@dataclass(frozen=True)
class Verdict:
    """The checker's answer about one tree."""

    answer: str
    findings: tuple[str, ...]
    tree: Any
    fuel: int | None
    target: str


@dataclass
class Session:
    """One program while it is compared: what was read, planned, and said by the checker."""

    program: Program
    source: Source
    kernel: nodes.Kernel
    checked: nodes.Program
    arguments: dict[str, Any]
    verdicts: list[Verdict] = field(default_factory=list)
    plans: dict[Options, pipeline.Planned] = field(default_factory=dict)
    planning: tuple[Options, ...] = ()
    ran: Counter[str] = field(default_factory=Counter[str])
    """How often each engine ran: interpreter, LoopTree interpreter, CPU, GPU."""

    @property
    def integers(self) -> dict[str, int]:
        """Sizes and integer parameters."""
        scalars = [p.name for p in self.kernel.scalars if p.dtype.is_integer]
        return {**self.program.sizes, **{name: int(self.arguments[name]) for name in scalars}}

    @property
    def strided(self) -> tuple[str, ...]:
        """Array parameters that are passed as views."""
        call = copied(self.program, self.arguments)
        arrays = [p.name for p in self.kernel.arrays]
        return tuple(n for n in arrays if not call[n].flags.c_contiguous and call[n].size > 1)

    def arrays_of(self, held: Mapping[str, Any]) -> Arrays:
        """The arrays among arguments, packed."""
        return {p.name: np.ascontiguousarray(held[p.name]) for p in self.kernel.arrays}


def _remembered(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` with its results kept by the identity of its arguments."""
    kept: dict[tuple[int, ...], tuple[Any, Any]] = {}

    def call(*args: Any) -> Any:
        key = tuple(map(id, args))
        if key not in kept:
            kept[key] = (args, function(*args))  # the arguments live on, so identities stay theirs
        return kept[key][1]

    return call


@contextmanager
def session(program: Program, name: str = "") -> Generator[Session]:
    """Read `program` and make the arguments of kernel `name` (or the first); inside, analyses are
    remembered, verdicts recorded and warnings silent. Raises what reading raises."""
    source = Source("random.lf", program.text)
    names = (*_PURE, "verify", "plan_kernel", "read_program", "emit_object")
    real = {name: getattr(pipeline, name) for name in names}
    read, verify, plan_kernel = real["read_program"], real["verify"], real["plan_kernel"]
    judged: list[tuple[tuple[Any, ...], Any]] = []
    objects: dict[tuple[Any, ...], bytes] = {}
    with warnings.catch_warnings(), machine(program.machine):
        warnings.simplefilter("ignore")
        general = checked = read(source, program.fp)
        kernel = general.kernel(name or general.kernels[0].name)
        constants = {p.name: int(program.scalars[p.name]) for p in kernel.scalars if p.is_const}
        if constants:
            checked = read(source, program.fp, constants)
            kernel = checked.kernel(kernel.name)
        it = Session(program, source, kernel, checked, arguments_of(program, kernel))

        def read_once(text: Source, fp: str = "fast", constants: Any = None, run: Any = None) -> Any:
            if text.text != source.text or fp != program.fp:
                return read(text, fp, constants, run)
            return checked if constants else general

        def note_verdict(model: Any, deps: Any, tree: Any, *rest: Any) -> Any:
            for (about, dependences, other, *others), verdict in judged:
                if about is model and dependences is deps and others == [*rest] and other == tree:
                    return verdict
            verdict = verify(model, deps, tree, *rest)
            judged.append(((model, deps, tree, *rest), verdict))
            options = it.planning[-1] if it.planning else Options()
            it.verdicts.append(
                Verdict(verdict.answer, verdict.findings, tree, options.fuel, options.target.name)
            )
            return verdict

        def emit_once(llvm: str, target: Target) -> bytes:
            if (llvm, target) not in objects:
                objects[llvm, target] = real["emit_object"](llvm, target)
            return objects[llvm, target]

        def plan_once(
            wanted: nodes.Program, name: str, options: Options, run: Any = None, begin: Any = None
        ) -> Any:
            # Index width and checks are not the planner's business.
            key = Options(
                target=options.target, fp=options.fp, reassociate=options.reassociate,
                sizes=options.sizes, fuel=options.fuel, strided=options.strided,
                tuning=options.tuning,
            )  # fmt: skip
            if key not in it.plans:
                it.planning = (options,)
                it.plans[key] = plan_kernel(it.checked, name, key, run)
            return it.plans[key]

        try:
            for name in _PURE:
                setattr(pipeline, name, _remembered(real[name]))
            pipeline.verify, pipeline.plan_kernel = note_verdict, plan_once
            pipeline.read_program, pipeline.emit_object = read_once, emit_once
            yield it
        finally:
            for name, function in real.items():
                setattr(pipeline, name, function)


_PURE = ("_model", "find_dependences", "_simplify")


# ------------------------------------------------------------------------------------- engines

SMALL = Tuning(columns=1, rows=6, warps=2)
"""Windows get short chunks and narrow strips, so that small arrays have seams and tiles inside."""


def _places(found: list[Offence]) -> frozenset[tuple[Any, ...]]:
    return frozenset((o.array, o.dimension, o.index, o.writes, str(o.span)) for o in found)


def interpret(it: Session) -> Ran:
    """The slow interpreter: the meaning of the program."""
    found: list[Offence] = []
    it.ran["interpreter"] += 1
    written = run_program(
        it.kernel, it.arguments, it.program.sizes, math=our_math(), offences=found
    )
    return Ran(it.arrays_of({**it.arguments, **written}), _places(found))


def plan(
    it: Session, target: str, fuel: int | None, reassociate: bool = False, strided: bool = False
) -> pipeline.Planned:
    """The plan for a target; `strided`: for the views of the call."""
    options = Options(
        target=Target(target), fp=it.program.fp, fuel=fuel, reassociate=reassociate,
        strided=it.strided if strided else (), tuning=SMALL,
    )  # fmt: skip
    return pipeline.plan_kernel(it.checked, it.kernel.name, options)


def run_planned(it: Session, tree: Any, order: str = "forward", aligned: bool = True) -> Ran:
    """The LoopTree interpreter."""
    held = copied(it.program, it.arguments)
    held = {k: np.array(v) if isinstance(v, np.ndarray) else v for k, v in held.items()}
    found: list[Offence] = []
    it.ran["LoopTree interpreter"] += 1
    run_tree(tree, held, it.integers, our_math(), order=order, aligned=aligned, offences=found)
    return Ran(it.arrays_of(held), _places(found))


def compile_call(it: Session, fuel: int | None, reassociate: bool = False) -> kernels.Kernel:
    """The kernel as a user has it."""
    options = {
        "fuel": fuel, "reassociate": reassociate, "fp": it.program.fp, "tuning": SMALL,
    }  # fmt: skip
    return kernels.load_all(it.source, **options)[it.kernel.name]


def run_compiled(it: Session, fuel: int | None, reassociate: bool = False) -> Ran:
    """Compiled code on the CPU, called as a user would call it."""
    return call_kernel(it, compile_call(it, fuel, reassociate), copied(it.program, it.arguments))


def call_kernel(it: Session, kernel: Any, held: dict[str, Any]) -> Ran:
    """One call on NumPy arrays; an offender that it raises is part of what is given back."""
    raised: frozenset[tuple[Any, ...]] = frozenset()
    it.ran["CPU"] += 1
    try:
        kernel(**held, **sizes_to_pass(it))
    except UserError as error:
        first = error.diagnostics[0]
        if first.code != "subscript-out-of-range":
            raise
        raised = frozenset({(str(first.span),)})
    return Ran(it.arrays_of(held), raised)


def misses_overlap(it: Session) -> str:
    """In words, what is wrong where arrays of one call that is not allowed share elements: it must
    be refused, before and after a call that is allowed, and change nothing; "" where nothing is."""
    modes = {p.name: p.mode for p in it.kernel.arrays}
    kernel = compile_call(it, None)
    for turn in ("first", "second"):
        for pair, _ in it.program.together:
            one, other = pair.split("+")
            held = copied(it.program, it.arguments)
            if {modes[one], modes[other]} == {"in"} or not (held[one].size and held[other].size):
                continue
            held[one], held[other] = overlapping(held[one], held[other])
            before = it.arrays_of({name: np.array(value) for name, value in held.items()})
            try:
                kernel(**held, **sizes_to_pass(it))
                return f"{one} and {other} overlap, and the {turn} call takes them"
            except UserError as error:
                code = error.diagnostics[0].code
                if code != "overlap":
                    return f"{one} and {other} overlap, and the {turn} call is refused for `{code}`"
            after = it.arrays_of(held)
            if any(after[name].tobytes() != value.tobytes() for name, value in before.items()):
                return f"{one} and {other} overlap; the {turn} call is refused, but changes elements"
        if turn == "first":
            call_kernel(it, kernel, copied(it.program, it.arguments))
    return ""


def sizes_to_pass(it: Session) -> dict[str, int]:
    """Sizes that stand alone in no extent: the caller must name them."""
    extents = [extent for param in it.kernel.arrays for extent in param.extents]
    alone = {extent.name for extent in extents if isinstance(extent, nodes.Symbol)}
    given = {param.name for param in it.kernel.scalars}
    return {n: v for n, v in it.program.sizes.items() if n not in alone and n not in given}
