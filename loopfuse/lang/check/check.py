"""From the surface tree to the core: names, types, and everything a user can get wrong.

After `check` no user error is possible but those of a call's arguments. The work is done by
`heads` (parameters), `statements`, `elaborate` with `expressions`, `operators`, `calls` and `reductions`,
and `indices`; this file says in which order.
"""

from __future__ import annotations

from collections.abc import Mapping

from loopfuse.base.diagnostics import Diagnostic, LimitError, LoopfuseError
from loopfuse.lang import nodes
from loopfuse.lang.check.context import Context, Poisoned, Report
from loopfuse.lang.check.elaborate import elaborate
from loopfuse.lang.check.heads import check_function, declare_parameters, new_globals
from loopfuse.lang.check.narrow import widen_statements
from loopfuse.lang.check.scope import Globals, Scope
from loopfuse.lang.check.statements import elaborate_block
from loopfuse.lang.labels import label_statements
from loopfuse.lang.nodes import ArrayParam
from loopfuse.lang.surface import syntax
from loopfuse.lang.surface.depth import deep_recursion


def check(
    module: syntax.Module, *, fp: str = "fast", constants: Mapping[str, int] | None = None
) -> nodes.Program:
    """The typed core of a module.

    `fp` is `fast` (FMAs are formed) or `strict`; `constants` gives values to `const` parameters.
    Raises UserError (or LimitError, where the program is right but beyond this version) with up
    to 20 diagnostics.
    """
    return check_with_warnings(module, fp=fp, constants=constants)[0]


def check_with_warnings(
    module: syntax.Module, *, fp: str = "fast", constants: Mapping[str, int] | None = None
) -> tuple[nodes.Program, tuple[Diagnostic, ...]]:
    """As `check`, and the warnings: promotions to f64, names never used, outputs never written."""
    report = Report(module.source)
    with deep_recursion():
        shared = new_globals(module, report)
        for function in shared.functions.values():
            _try_function(report, shared, function, fp)
        kernels = [
            _kernel(report, shared, kernel, fp, constants or {}) for kernel in module.kernels
        ]
    report.raise_errors()
    return nodes.Program(tuple(kernels), module.source), tuple(report.warnings)


def _try_function(report: Report, shared: Globals, function: syntax.Func, fp: str) -> None:
    context = Context(report, shared, elaborate, fp, scope=Scope(shared.scope), alone=True)
    try:
        check_function(context, function)
    except LoopfuseError as error:
        report.add(error)
        shared.broken.add(function.name)
    except Poisoned:
        shared.broken.add(function.name)


def heads(module: syntax.Module) -> tuple[nodes.Kernel, ...]:
    """The kernels of a module with their parameters and sizes, and empty bodies: what a caller
    needs to know before the values of `const` parameters are. Raises as `check` does."""
    report = Report(module.source)
    with deep_recursion():
        shared = new_globals(module, report)
        kernels: list[nodes.Kernel] = []
        for kernel in module.kernels:
            context = Context(report, shared, elaborate, scope=Scope(shared.scope))
            params, sizes = declare_parameters(context, kernel, {})
            kernels.append(nodes.Kernel(kernel.name, params, sizes, (), span=kernel.name_span))
    report.raise_errors()
    return tuple(kernels)


def _kernel(
    report: Report,
    shared: Globals,
    kernel: syntax.Kernel,
    fp: str,
    constants: Mapping[str, int],
) -> nodes.Kernel:
    before = len(report.errors)
    context, core = _elaborate(report, shared, kernel, fp, constants)
    missing = [p for p in kernel.params if p.is_const and p.name not in constants]
    if missing and len(report.errors) > before:
        # Perhaps all that is wrong is that a step or factor is not known yet: try with some value.
        trial = Report(report.source)
        tried = {**constants, **{param.name: 1 for param in missing}}
        _elaborate(trial, shared, kernel, fp, tried)
        if not trial.errors:
            del report.errors[before:]
            report.add(_needs_value(report, kernel, missing[0]))
    if not report.errors:
        quiet = kernel.quiet | {p.name for p in kernel.params if p.quiet}
        _warn_unused(context, core.params, quiet)
    return core


def _elaborate(
    report: Report,
    shared: Globals,
    kernel: syntax.Kernel,
    fp: str,
    constants: Mapping[str, int],
) -> tuple[Context, nodes.Kernel]:
    context = Context(report, shared, elaborate, fp, scope=Scope(shared.scope))
    params, sizes = declare_parameters(context, kernel, constants)
    body = tuple(elaborate_block(context, kernel.body))
    body = label_statements(widen_statements(body, fp, context.accumulators))
    arrays = {param.name for param in params if isinstance(param, nodes.ArrayParam)}
    exchanges = tuple(one for one in context.swaps.exchanges() if {one.left, one.right} <= arrays)
    return context, nodes.Kernel(kernel.name, params, sizes, body, exchanges, span=kernel.name_span)


def _needs_value(report: Report, kernel: syntax.Kernel, param: syntax.Param) -> LimitError:
    return LimitError(
        Diagnostic(
            "const-needs-value",
            f"`{kernel.name}` can be compiled only for a given `{param.name}`",
            param.span,
            fix=f"give it a value: `{param.name}=1`, on the command line `--size {param.name}=1`",
            source=report.source,
        )
    )


def _warn_unused(
    context: Context,
    params: tuple[nodes.ArrayParam | nodes.ScalarParam, ...],
    quiet: frozenset[str],
) -> None:
    outputs = {p.name for p in params if isinstance(p, ArrayParam) and p.mode != "in"}
    for core, name, span in context.declared:
        if core in quiet:
            continue
        if core in outputs:
            if core not in context.written:
                context.report.warn(
                    "never-written",
                    f"`{name}` is never written",
                    span,
                    fix="declare it without `out` or `inout`",
                )
        elif core not in context.used:
            context.report.warn(
                "never-used", f"`{name}` is never used", span, fix="remove it"
            )
