"""Kernels as Python objects: load a file, call a kernel on arrays, ask what was done.

A call binds its arguments, picks the target from where they live, compiles once per target and
index width (in memory, and on disk through `runtime.cache`), and runs. The compiler itself is
imported only when something has to be compiled.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from loopfuse.base import forks
from loopfuse.base.artifact import Artifact
from loopfuse.base.choices import Choices
from loopfuse.base.diagnostics import Diagnostic, LimitError, Source, UserError
from loopfuse.base.dtypes import DType
from loopfuse.base.options import (
    Check,
    Fp,
    Options,
    Target,
    Tuning,
    bad_option,
    fuel_from_environment,
    operations_from_environment,
    parse_check,
    parse_flag,
    parse_fp,
    parse_target,
)
from loopfuse.base.printable import printable
from loopfuse.base.warn import warn
from loopfuse.kernels.sources import (
    Programs,
    comment_above,
    describe_source,
    read_program,
    read_source,
)
from loopfuse.kernels.stored import artifact_key, find_artifact, store_artifact
from loopfuse.kernels.targets import default_target, target_of_gpu
from loopfuse.runtime import cache
from loopfuse.runtime.arrays import arrays
from loopfuse.runtime.arrays.arguments import (
    Signature,
    check_scalar,
    negative_size,
    python_signature,
    read_signature,
)
from loopfuse.runtime.arrays.arrays import Match
from loopfuse.runtime.arrays.index_bits import INDEX_LIMIT, index_bits_for
from loopfuse.runtime.arrays.packing import Packed, copied_text, write_back
from loopfuse.runtime.call.call_paths import CallPaths, Loaded
from loopfuse.runtime.call.fast import MISS
from loopfuse.runtime.checks import at_source
from loopfuse.runtime.devices.steps import buffer_bytes
from loopfuse.tuning.remember import Tuned, recall, size_class
from loopfuse.tuning.session import BUDGET, Job, check_budget, check_tune, out_of_memory
from loopfuse.tuning.session import tune as tune_call
from loopfuse.watch import is_watched, noticed_run

if TYPE_CHECKING:
    from loopfuse.explain.dependences import DependencesDict
    from loopfuse.explain.explanation import Explanation
    from loopfuse.kernels.python import Specialised
    from loopfuse.kernels.verify import Verification
    from loopfuse.lang.nodes import Program
    from loopfuse.pipeline import Planned
    from loopfuse.plan.units.records import Report

# ------------------------------------------------------------------------------------ kernels


class Kernel:
    """One kernel of a source. Call it on arrays: NumPy runs on the CPU, CuPy and PyTorch arrays
    on their GPU, on the caller's current stream. Omitted `out` arrays are allocated and returned.

    Every instance may be used from several threads at once. `programs` holds what was read of the
    source already, and is shared by the kernels of one file: it is read once for all of them.
    """

    _door = ""
    """The language of declarations where it is not that of the source."""

    def __init__(
        self,
        source: Source,
        description: Mapping[str, Any],
        *,
        fp: str = "fast",
        reassociate: bool = True,
        target: str | None = None,
        fuel: int | None = None,
        check: str = "lazy",
        tuning: Tuning | None = None,
        tune: bool = False,
        tune_budget: float = BUDGET,
        programs: Programs | None = None,
    ) -> None:
        self.source = source
        self._description = description
        self.signature: Signature = replace(
            read_signature(description), door=self._door or source.language
        )
        self.__doc__ = comment_above(source, self.signature.kernel)
        self.constants: tuple[str, ...] = tuple(
            one["name"] for one in description["parameters"] if one.get("const")
        )
        self._fp = parse_fp(fp)
        self._reassociate = parse_flag("reassociate", reassociate)
        self._check = parse_check(check)
        self._target = parse_target(target) if target else None
        self._tuning = tuning or Tuning()
        self._tune = check_tune(tune)
        self._budget = check_budget(tune_budget)
        self._tuned: dict[object, Tuned] = {}
        self._told_packed: set[str] = set()
        self._fuel = fuel if fuel is not None else fuel_from_environment()
        self._lock = forks.Lock()
        self._programs: Programs = {} if programs is None else programs
        self._explained: tuple[Program, Options, Planned] | None = None
        self._loaded: dict[tuple[object, ...], Loaded] = {}
        self.call_paths = CallPaths(self.signature)

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.signature.kernel

    @property
    def __signature__(self) -> inspect.Signature:
        """What `inspect.signature` and an editor's help show: `out` arrays may be left out."""
        return python_signature(self.signature)

    @property
    def target(self) -> str | None:
        """The target it was made for, such as `sm_90`; None: where its arrays are."""
        return self._target.words if self._target else None

    @property
    def identity(self) -> str:
        """What compiled code depends on besides options: the text (the Python door knows more)."""
        return self.source.text

    def __repr__(self) -> str:
        parameters = ", ".join(
            f"{'' if p.mode == 'in' else p.mode + ' '}{p.name}: {p}"
            for p in self.signature.parameters
        )
        return printable(f"<loopfuse kernel {self.name}({parameters}) from {self.source.name}>")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled with its text, and so at home wherever loopfuse is installed. What arrives
        somewhere twice is one kernel there."""
        options: dict[str, Any] = {
            "fp": self._fp, "reassociate": self._reassociate, "target": self.target,
            "fuel": self._fuel, "check": self._check, "tuning": self._tuning, "tune": self._tune,
            "tune_budget": self._budget,
        }  # fmt: skip
        return receive_kernel, (self.source, dict(self._description), options)

    def __copy__(self) -> Kernel:
        return self  # nothing of it changes but what it remembers

    def __deepcopy__(self, memo: dict[int, Any]) -> Kernel:
        return self

    def with_options(
        self,
        *,
        fp: Fp | None = None,
        reassociate: bool | None = None,
        target: str | None = None,
        fuel: int | None = None,
        check: Check | None = None,
        tuning: Tuning | None = None,
        tune: bool | None = None,
        tune_budget: float | None = None,
    ) -> Kernel:
        """The same kernel under other options; None keeps this one's. `fuel=0` fuses nothing."""
        wanted = self._fp if fp is None else parse_fp(fp)
        described = describe_source(self.source, wanted)
        description = next(one for one in described if one["kernel"] == self.name)
        return Kernel(
            self.source,
            description,
            fp=wanted,
            reassociate=self._reassociate if reassociate is None else reassociate,
            target=target or self.target,
            fuel=self._fuel if fuel is None else fuel,
            check=check or self._check,
            tuning=tuning or self._tuning,
            tune=self._tune if tune is None else tune,
            tune_budget=self._budget if tune_budget is None else tune_budget,
            programs=self._programs if wanted == self._fp else None,
        )

    # ---- compiling

    def program(self, constants: Mapping[str, int] | None = None) -> Program:
        """The checked program this kernel stands in (with the constants it is specialised to)."""
        key = tuple(sorted((constants or {}).items()))
        with self._lock:
            if key not in self._programs:
                self._programs[key] = read_program(self.source, self._fp, constants)
            return self._programs[key]

    def options(
        self,
        target: Target,
        index_bits: int = 64,
        sizes: Mapping[str, int] | None = None,
        matched: Match | None = None,
        tuning: Tuning | None = None,
    ) -> Options:
        """The options of a compile for `target`; `matched`: for calls with such views; `tuning`: another one
        than the kernel's own."""
        return Options(
            target=target,
            fp=self._fp,
            reassociate=self._reassociate,
            sizes=tuple(sorted((sizes or {}).items())),
            index_bits=index_bits,
            fuel=self._fuel,
            check=self._check,
            strided=() if matched is None else matched.strided,
            rows=() if matched is None else matched.rows,
            operations=operations_from_environment(),
            tuning=tuning or self._tuning,
        )

    def _compile(
        self, options: Options, emit: frozenset[str], constants: Mapping[str, int] | None = None
    ) -> Artifact:
        """Compile, or take the artifact from the disk cache."""
        key = self._artifact_key(options, emit, constants)
        hit = None if is_watched() else find_artifact(key)
        if hit is not None:
            for text in hit.warnings:
                warn(text)
            return hit
        from loopfuse import pipeline

        program = self.program(constants)
        known = self._take_explained(program, options)
        planned = {} if known is None else {"planned": known}
        with noticed_run(f"compiling {self.name}") as run:
            artifact = pipeline.compile_kernel(
                program, self.name, options, emit=emit, run=run, **planned
            )
        store_artifact(key, artifact)
        return artifact

    def _artifact_key(
        self, options: Options, emit: frozenset[str], constants: Mapping[str, int] | None
    ) -> str:
        host = "" if options.target.is_gpu else _host_cpu()
        return artifact_key(
            self.identity, self.source.name, self.name, options, emit, constants, host
        )

    def _take_explained(self, program: Program, options: Options) -> Planned | None:
        """The plan that `explain` made last, where it is for these options: planning does not ask
        how wide indices are. It is given away once, as a plan serves one thread at a time."""
        with self._lock:
            found, self._explained = self._explained, None
        if found is None or is_watched():
            return None
        known, wanted = replace(found[1], index_bits=64), replace(options, index_bits=64)
        return found[2] if found[0] is program and known == wanted else None

    def compile(
        self,
        target: str | None = None,
        *,
        emit: frozenset[str] | set[str] | tuple[str, ...] | None = None,
        index_bits: int = 64,
        **given: Any,
    ) -> Artifact:
        """Compile for `target` (the local GPU's, else `sm_80`) without running.

        `emit` names what is wanted (`ptx object mlir llvm affine report cubin`; all but cubin
        if not given). Keywords may give sizes to plan for and values of `const` parameters.
        """
        wanted = parse_target(target) if target else default_target(for_running=False)
        texts = frozenset(emit) if emit else _everything(wanted)
        constants, sizes = self._split(given)
        return self._compile(self.options(wanted, index_bits, sizes), texts, constants)

    def _split(self, given: Mapping[str, Any]) -> tuple[dict[str, int], dict[str, int]]:
        """Keywords as (constants, sizes and integer parameters); UserError for anything else."""
        integers = {
            p.name: p.dtype for p in self.signature.parameters if not p.is_array and p.dtype.is_integer
        }
        constants: dict[str, int] = {}
        sizes: dict[str, int] = {}
        for name, value in given.items():
            if name in self.constants:
                constants[name] = int(check_scalar(self.name, name, integers[name], value))
            elif name in self.signature.sizes or name in integers:
                dtype = integers.get(name, DType.I64)
                sizes[name] = int(check_scalar(self.name, name, dtype, value))
                if sizes[name] < 0 and name in self.signature.sizes:
                    raise negative_size(self.name, name, sizes[name])
            else:
                known = ", ".join([*self.signature.sizes, *integers])
                raise UserError(
                    Diagnostic(
                        "unknown-argument",
                        f"`{self.name}` has no size or integer parameter `{name}`",
                        fix=f"it has {known}" if known else "",
                    )
                )
        return constants, sizes

    # ---- running

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on `args`, in parameter order or by name; a size no array fixes is passed by name.

        Omitted `out` arrays are allocated and returned (one: itself; several: a tuple). One
        UserError for whatever is wrong, before anything runs. GPU kernels are enqueued, not
        waited for.
        """
        result = self.again(args, kwargs)
        if result is not MISS:
            return result
        matched = arrays.match(self.signature, args, kwargs)
        result, loaded = self._run_matched(matched)
        if not matched.packed:  # such calls copy each time
            self.call_paths.learn(args, kwargs, matched, loaded)
        return result

    def again(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Run a call that is like an earlier one; MISS where it is like none."""
        try:
            for call in self.call_paths.calls:
                result = call(args, kwargs)
                if result is not MISS:
                    return result
        except UserError as error:  # an offender, which knows its place but not the text
            raise at_source(error, self.source) from None
        return MISS

    def _run_matched(self, matched: Match) -> tuple[Any, Loaded]:
        """Compile for a matched call, check its preconditions, allocate, run."""
        target = self._target_for(matched)
        constants = {name: int(matched.values[name]) for name in self.constants}
        tuning = self._tuning_for(target, matched, constants) if self._tune else self._tuning
        loaded = self._ready(target, matched, constants, tuning)
        arrays.check_preconditions(loaded.manifest, matched.values, self.source)
        binding = arrays.allocate_outputs(matched, loaded.manifest)
        try:
            loaded.run(binding)
        except UserError as error:  # an offender, which knows its place but not the text
            raise at_source(error, self.source) from None
        finally:
            if matched.packed:
                self._end_packed(matched.packed)
        return binding.result, loaded

    def _end_packed(self, packed: tuple[Packed, ...]) -> None:
        """Write back what copies stood for, and say once of each that there was one."""
        write_back(packed)
        for one in packed:
            if one.name not in self._told_packed:
                self._told_packed.add(one.name)
                warn(copied_text(self.name, one))

    def _target_for(self, matched: Match) -> Target:
        """Where the call runs: where its arrays are."""
        if matched.device.kind == "cpu":
            if self._target is not None and self._target.is_gpu:
                raise UserError(
                    Diagnostic(
                        "mixed-devices",
                        f"`{self.name}` is compiled for {self._target.name}, but its arrays are "
                        "in main memory",
                        fix="pass CuPy or PyTorch CUDA arrays",
                    )
                )
            return self._target or Target("cpu")
        from loopfuse.runtime.devices import cuda

        info = cuda.need_gpu(matched.device.index)
        if self._target is not None and self._target.code == "llvm":
            raise UserError(
                Diagnostic(
                    "unknown-target",
                    f"`{self.name}` is compiled for {self._target.name}, which nothing here runs",
                    fix="its LLVM IR is `kernel.compile(\"gfx942\").llvm`",
                )
            )
        if self._target is None:
            return target_of_gpu(info)
        if not self._target.is_gpu:
            raise UserError(
                Diagnostic(
                    "mixed-devices",
                    f"`{self.name}` is compiled for the CPU, but its arrays are on "
                    f"{matched.device}",
                    fix="pass NumPy arrays",
                )
            )
        return self._target

    def _ready(
        self,
        target: Target,
        matched: Match,
        constants: dict[str, int],
        tuning: Tuning,
        keep: bool = True,
    ) -> Loaded:
        """The code for a target, compiled and loaded on first use; with indices as wide as the
        arrays and the workspaces need."""
        bits = index_bits_for(self.signature, matched)
        loaded = self._ready_with(bits, target, matched, constants, tuning, keep)
        if loaded.bits == 32 and any(
            buffer_bytes(buffer, matched.values) >= INDEX_LIMIT
            for buffer in loaded.manifest["buffers"]
        ):
            loaded = self._ready_with(64, target, matched, constants, tuning, keep)
        return loaded

    def _ready_with(
        self,
        bits: int,
        target: Target,
        matched: Match,
        constants: dict[str, int],
        tuning: Tuning,
        keep: bool,
    ) -> Loaded:
        views = (matched.strided, matched.rows)
        key = (target, matched.device, bits, tuple(sorted(constants.items())), views, tuning)
        loaded = self._loaded.get(key)
        if loaded is None:
            with self._lock:
                loaded = self._loaded.get(key)
                if loaded is None:
                    self._check_names(matched)
                    options = self.options(target, bits, matched=matched, tuning=tuning)
                    loaded = self._load(options, matched.device.index, constants)
                if keep:
                    self._loaded[key] = loaded
        return loaded

    # ---- tuning

    def tune(self, *args: Any, **kwargs: Any) -> Tuned:
        """Search for the fastest choices for calls like this one, on copies of its arrays, and
        remember them; later calls of a kernel with `tune=True` use them. Takes about as long as the
        kernel's `tune_budget` says (`with_options(tune_budget=...)`), or no time where the cache
        remembers. UserError as the call's."""
        matched = arrays.match(self.signature, args, kwargs)
        constants = {name: int(matched.values[name]) for name in self.constants}
        return self._find_tuning(self._target_for(matched), matched, constants)

    def _tuning_for(self, target: Target, matched: Match, constants: dict[str, int]) -> Tuning:
        """The tuning for a call of a kernel with `tune=True`."""
        if matched.device.kind != "cpu":
            from loopfuse.runtime.devices import cuda

            if cuda.is_capturing(matched.library, matched.device.index):
                # Nothing can be measured while work is recorded, nor much else be done.
                known = self._tuned.get(_tuning_key(target, matched, constants))
                return self._tuning if known is None else known.tuning
        return self._find_tuning(target, matched, constants).tuning

    def _find_tuning(self, target: Target, matched: Match, constants: dict[str, int]) -> Tuned:
        key = _tuning_key(target, matched, constants)
        with self._lock:
            if key not in self._tuned:
                self._tuned[key] = self._search(self._job(target, matched, constants))
            return self._tuned[key]

    def _search(self, job: Job) -> Tuned:
        from loopfuse.base.progress import progress_bar

        try:
            return tune_call(job, self._budget, progress_bar)
        except UserError as error:
            raise at_source(error, self.source) from None
        except MemoryError:
            warn(out_of_memory(self.name))
            return Tuned(self._tuning, None, None, 0, False, self._budget)

    def _job(self, target: Target, matched: Match, constants: dict[str, int]) -> Job:
        bits = index_bits_for(self.signature, matched)
        options = self.options(target, bits, matched=matched)

        def load(tuning: Tuning) -> Loaded:
            loaded = self._ready(target, matched, constants, tuning, keep=False)
            arrays.check_preconditions(loaded.manifest, matched.values, self.source)
            return loaded

        def plan() -> Choices:
            from loopfuse import pipeline

            return pipeline.find_choices(self.program(constants), self.name, options)

        def reorders(tuning: Tuning) -> bool:
            from loopfuse import pipeline

            wanted = replace(options, tuning=tuning)
            report = pipeline.plan_kernel(self.program(constants), self.name, wanted).report
            return bool(report.reassociated)

        def request(tuning: Tuning) -> object:
            from loopfuse.kernels.compile_helper import Wanted

            wanted = replace(options, tuning=tuning)
            emit = _emitted(wanted.target, matched.device.index)
            key = self._artifact_key(wanted, emit, constants)
            return Wanted(key, self.program(constants), self.name, wanted, emit)

        helped = cache.is_enabled() and not is_watched()
        return Job(
            self.name, self.identity, options, tuple(sorted(constants.items())), matched, load,
            plan, reorders, request if helped else None,
        )  # fmt: skip

    def _check_names(self, matched: Match) -> None:
        """The strides of views are arguments, whose names must be free."""
        for name in matched.strides:
            if name in matched.values or name in matched.views:
                raise LimitError(
                    Diagnostic(
                        "name-of-a-stride",
                        f"`{self.name}` has a parameter or size `{name}`, which is also what the "
                        "stride of a view is called",
                        fix=f"rename it, or pass a packed copy of `{name.partition('__')[0]}`",
                    )
                )

    def _load(self, options: Options, index: int, constants: dict[str, int]) -> Loaded:
        bits = options.index_bits
        if options.target.is_gpu:
            from loopfuse.kernels.clearing import ClearingVariants
            from loopfuse.runtime.call import fast_gpu
            from loopfuse.runtime.devices import cuda

            info = cuda.need_gpu(index)
            artifact = self._compile(options, _emitted(options.target, index), constants)
            module = cuda.load(artifact.manifest, artifact.cubin or artifact.ptx, index)
            variants = ClearingVariants(artifact, options.target, index)
            return Loaded(
                artifact.manifest, bits, constants, partial(cuda.run, module),
                partial(fast_gpu.machine, module, index, variants=variants), lambda: None, info.count == 1,
                _code_of(artifact.manifest, artifact.cubin or artifact.ptx),
            )  # fmt: skip
        from loopfuse.runtime.call import fast_cpu
        from loopfuse.runtime.devices import cpu

        artifact = self._compile(options, _emitted(options.target, index), constants)
        module = cpu.load(artifact.manifest, artifact.object)
        return Loaded(
            artifact.manifest, bits, constants, partial(cpu.run, module), partial(fast_cpu.machine, module),
            fast_cpu.thread_setting, False, _code_of(artifact.manifest, artifact.object),
        )  # fmt: skip

    def as_torch_op(self, name: str) -> Any:
        """This kernel as the PyTorch operator `name` (`"namespace::name"`): opaque to
        torch.compile, with shapes known to it. `out` arrays are returned, `inout` arrays written
        in place. Needs PyTorch."""
        from loopfuse.distribution.torch_op import register

        return register(self, self.signature, name)

    # ---- asking

    def explain(self, *args: Any, target: str | None = None, **kwargs: Any) -> Explanation:
        """What was fused and what was not, and why. With arrays: for that call; with sizes by
        name (`explain(H=4096, W=4096)`): for those; with nothing: as formulas."""
        from loopfuse.explain.explanation import Explanation

        return Explanation(self.report(*args, target=target, **kwargs))

    def report(self, *args: Any, target: str | None = None, **kwargs: Any) -> Report:
        """What `explain` is made of, in the program's own words: conditions on sizes can be evaluated."""
        from loopfuse import pipeline

        wanted = parse_target(target) if target else self._target
        constants: dict[str, int] = {}
        matched: Match | None = None
        tuning = self._tuning
        if args or any(p.is_array and p.name in kwargs for p in self.signature.parameters):
            matched = arrays.match(self.signature, args, kwargs)
            wanted = wanted or self._target_for(matched)
            integers = {n: v for n, v in matched.values.items() if type(v) is int}
            constants = {name: integers.pop(name) for name in self.constants}
            sizes = integers
            if self._tune:
                known = recall(self._job(wanted, matched, constants).key, 0.0)
                tuning = known.tuning if known is not None else tuning
        else:
            constants, sizes = self._split(kwargs)
        target_of = wanted or default_target(for_running=True)
        options = self.options(target_of, sizes=sizes, matched=matched, tuning=tuning)
        program = self.program(constants)
        with noticed_run(f"planning {self.name}") as run:
            planned = pipeline.plan_kernel(program, self.name, options, run)
        with self._lock:
            self._explained = (program, options, planned)
        return planned.report

    def dependences(
        self, sizes: Mapping[str, int] | None = None, *, instances: bool = False
    ) -> DependencesDict:
        """Every dependence, as the `deps` JSON, which prints as a table; `instances` (needs
        `sizes`) lists the pairs."""
        from loopfuse import pipeline
        from loopfuse.explain.dependences import DependencesDict

        known = dict(sizes) if sizes else None
        return DependencesDict(
            pipeline.describe_dependences(self.program(), self.name, known, instances)
        )

    def verify(self, **sizes: int) -> Verification:
        """Check the schedule and compare fused, unfused and interpreted on random data of many
        sizes, those given by name as they are (sizes and integer parameters); a `Verification`, true
        when all agree."""
        from loopfuse.kernels.verify import verify_kernel

        return verify_kernel(self, sizes)

    @property
    def from_python(self) -> Specialised | None:
        """This kernel as one of a Python function; None where it was written as a program."""
        return None

    @property
    def reference(self) -> Callable[..., Any]:
        """The plain function: the same program, interpreted slowly on NumPy arrays."""
        from loopfuse.kernels.reference import reference_of

        return reference_of(self)


def _host_cpu() -> str:
    """What code for this machine's CPU depends on beside the kernel: its words, and what stays in its caches."""
    from loopfuse.base.machine import machine_of
    from loopfuse.runtime.devices.cpu import host_cpu

    return f"{host_cpu()} {machine_of('cpu').resident}"


def _tuning_key(target: Target, matched: Match, constants: Mapping[str, int]) -> object:
    """Calls of one kernel with equal keys share a tuning."""
    ordered = tuple(sorted(constants.items()))
    return (target, matched.device, ordered, matched.strided, matched.rows, size_class(matched))


def _code_of(manifest: Mapping[str, Any], code: str | bytes) -> int:
    """Equal for equal code that is launched alike, in one process."""
    return hash((code, repr(manifest["steps"]), repr(manifest["buffers"])))


def _emitted(target: Target, index: int) -> frozenset[str]:
    """What a call on device `index` needs. Machine code (made once, and cached) runs on its own
    capability only; PTX on later ones too, but the driver translates it again in every process."""
    if not target.is_gpu:
        return frozenset({"object"})
    from loopfuse.runtime.devices import cuda

    own = target.name == cuda.need_gpu(index).target
    return frozenset({"ptx", "cubin"}) if own else frozenset({"ptx"})


def _everything(target: Target) -> frozenset[str]:
    return frozenset({target.code, "mlir", "affine", "llvm", "report"})


RECEIVED = 256
"""How many kernels that arrived pickled are known again when they arrive again."""
_received: dict[tuple[object, ...], Kernel] = {}


def receive_kernel(source: Source, description: Mapping[str, Any], options: dict[str, Any]) -> Kernel:
    """The kernel that `Kernel.__reduce__` describes."""
    key = (source, description["kernel"], *options.values())
    found = _received.get(key)
    if found is None:
        while len(_received) >= RECEIVED:
            _received.pop(next(iter(_received)), None)
        found = _received.setdefault(key, Kernel(source, description, **options))
    return found


class Kernels(Mapping[str, Kernel]):
    """The kernels of a file, as attributes and as a mapping in text order."""

    def __init__(self, kernels: Mapping[str, Kernel]) -> None:
        self._kernels = dict(kernels)

    def __getitem__(self, name: str) -> Kernel:
        return self._kernels[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)

    def __getattr__(self, name: str) -> Kernel:
        try:
            return self.__dict__["_kernels"][name]
        except KeyError:
            known = ", ".join(self.__dict__.get("_kernels", ()))
            raise AttributeError(f"no kernel `{name}`; there are {known}") from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._kernels]

    def __reduce__(self) -> tuple[Any, ...]:
        return Kernels, (self._kernels,)

    def __repr__(self) -> str:
        return printable(f"<loopfuse kernels {', '.join(self._kernels)}>")


if TYPE_CHECKING:

    class LoadedKernel(Kernel, Kernels):
        """What `load` gives, to a type checker: a file's kernel, or its kernels, which only the file
        tells."""

else:
    LoadedKernel = Kernel | Kernels

# ---------------------------------------------------------------------------------- the doors


def load_all(source: Source, **options: Any) -> Kernels:
    """Every kernel of `source`, in text order, also where there is only one."""
    programs: Programs = {}
    described = describe_source(source, parse_fp(options.get("fp", "fast")), programs)
    return Kernels(
        {one["kernel"]: Kernel(source, one, programs=programs, **options) for one in described}
    )


def _one_or_all(kernels: Kernels) -> LoadedKernel:
    return cast("LoadedKernel", next(iter(kernels.values())) if len(kernels) == 1 else kernels)


def load(
    path: str | os.PathLike[str],
    *,
    fp: Fp = "fast",
    reassociate: bool = True,
    target: str | None = None,
    check: Check = "lazy",
    tune: bool = False,
    tune_budget: float = BUDGET,
) -> LoadedKernel:
    """The kernel in the file at `path`; a file of several gives an object with one attribute
    each, which is also a mapping. `tune`: the first call with arrays of new sizes searches for
    what is fastest on them, for about `tune_budget` seconds. UserError for whatever is wrong with
    the file."""
    options = {"fp": fp, "reassociate": reassociate, "target": target, "check": check}
    kernels = load_all(read_source(path), **options, tune=tune, tune_budget=tune_budget)
    return _one_or_all(kernels)


def loads(
    text: str,
    *,
    name: str = "<string>",
    fp: Fp = "fast",
    reassociate: bool = True,
    target: str | None = None,
    check: Check = "lazy",
    tune: bool = False,
    tune_budget: float = BUDGET,
) -> LoadedKernel:
    """As `load`, from a string; `name` is what messages call it."""
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] (a user may not know)
        raise bad_option("text", text, "it is the text of a program; `loopfuse.load` takes a path")
    options = {"fp": fp, "reassociate": reassociate, "target": target, "check": check}
    kernels = load_all(Source(name, text), **options, tune=tune, tune_budget=tune_budget)
    return _one_or_all(kernels)


def synchronize() -> None:
    """Wait for every kernel launched so far; raises what went wrong in them."""
    cuda = sys.modules.get("loopfuse.runtime.devices.cuda")
    if cuda is not None:
        cuda.synchronize()
