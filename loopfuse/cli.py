"""The command line: arguments in, one call of a command's body out, errors as exit codes.

Exit codes: 0 all is well; 1 the program, an argument or a file was refused; 2 bad usage; 70 a bug
of ours.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import click

from loopfuse import __version__
from loopfuse.base.bug_report import ISSUES
from loopfuse.base.diagnostics import Diagnostic, InternalError, LoopfuseError
from loopfuse.base.options import FP
from loopfuse.base.printable import printable
from loopfuse.commands.common import Common

F = TypeVar("F", bound=Callable[..., Any])
FILE = click.argument("file", type=click.Path())


class _Sizes(click.ParamType):
    """`H=4096,W=4096` as pairs."""

    name = "N=V,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[tuple[str, int], ...]:
        if isinstance(value, tuple):
            return value
        pairs: dict[str, int] = {}
        for item in str(value).split(","):
            name, equals, text = item.partition("=")
            name = name.strip()
            try:
                number = int(text.replace("_", ""))
            except ValueError:
                number = None
            if not equals or not name.isidentifier() or number is None:
                self.fail(f"{item!r} is not NAME=NUMBER, as in --size H=4096,W=4096", param, ctx)
            if pairs.setdefault(name, number) != number:
                self.fail(f"{name} is given twice: {pairs[name]} and {number}", param, ctx)
        return tuple(pairs.items())


class _Emit(click.ParamType):
    """`ptx,mlir` as a tuple of known names."""

    name = "KIND,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        from loopfuse.commands.compile import EMITS

        if isinstance(value, tuple):
            return value
        names = tuple(dict.fromkeys(str(value).split(",")))
        for name in names:
            if name not in EMITS:
                self.fail(f"{name!r} is none of {', '.join(EMITS)}", param, ctx)
        return names


def _merge(groups: tuple[tuple[tuple[str, int], ...], ...]) -> tuple[tuple[str, int], ...]:
    """The pairs of several `--size`."""
    text = ",".join(f"{name}={value}" for group in groups for name, value in group)
    context = click.get_current_context()
    option = next(one for one in context.command.params if one.name == "sizes")
    return _Sizes().convert(text, option, context) if text else ()


def _common(function: F) -> F:
    """The flags that commands on programs share."""
    options = [
        click.option("--kernel", metavar="K", help="Only this kernel of the file."),
        click.option("--target", metavar="T",
                     help="cpu, sm_80, sm_90, ..., or a machine: a100, h100, h200  [default: the local GPU; without one sm_80 for "
                     "compile, else cpu]"),
        click.option("--size", "sizes", type=_Sizes(), multiple=True, metavar="H=4096,W=4096",
                     help="Sizes and integer parameters."),
        click.option("--fp", type=click.Choice(FP), default="fast",
                     help="strict: form no fused multiply-adds. native: on a GPU, divide and call math functions of f32 by "
                     "the hardware's approximations."),
        click.option("--no-reassociate", is_flag=True,
                     help="Keep the order of every reduction."),
        click.option("--dump", multiple=True, metavar="STAGE",
                     help="Print the program after this stage (`all`: after each)."),
        click.option("--stop-after", metavar="STAGE", help="Compile up to this stage only."),
        click.option("--time", is_flag=True, help="Print how long each stage took."),
    ]  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


_CHECK = click.option(
    "--check", type=click.Choice(["lazy", "sync", "off"]), default="lazy",
    help="When a subscript from data that leaves its array is an error: on the GPU at the next "
    "call, at once, or never (not tested).",
)  # fmt: skip


def _gather(flags: dict[str, Any]) -> Common:
    """The shared flags as a record, and the pipeline's switches set."""
    common = Common(
        kernel=flags["kernel"],
        target=flags["target"],
        sizes=_merge(flags["sizes"]),
        fp=flags["fp"],
        reassociate=not flags["no_reassociate"],
        dump=flags["dump"],
        stop_after=flags["stop_after"],
        time=flags["time"],
        check=flags.get("check", "lazy"),
    )
    if os.environ.get("LOOPFUSE_CACHE_LIMIT"):
        from loopfuse.base.options import limit_from_environment

        limit_from_environment()
    if common.target is not None:
        from loopfuse.base.options import parse_target
        from loopfuse.commands.values import usage

        with usage():
            parse_target(common.target)
    if common.dump or common.stop_after or common.time:
        from loopfuse.commands.values import usage
        from loopfuse.watch import times_text, watch

        with usage():
            run = watch(common.dump, common.stop_after)
        if common.time:
            click.get_current_context().call_on_close(
                lambda: print(times_text(run), file=sys.stderr)
            )
    return common


class _ClosedPipe(Exception):
    """The reader of standard output went away, as `head` does."""


class _Group(click.Group):
    """click ends with 1 when the reader of a pipe goes away; for us that is no error."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            if sys.stdout is not None:  # pyright: ignore[reportUnnecessaryComparison] (closed: >&-)
                sys.stdout.flush()
            return result
        except BrokenPipeError:
            raise _ClosedPipe from None


@click.group(
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    epilog="Start with: loopfuse run example:unsharp img=sample:camera amount=1.5",
)
@click.version_option(__version__, message="loopfuse %(version)s")
def cli() -> None:
    """Plain loops in, one fused and proven kernel out."""


@cli.command("compile", epilog="Example: loopfuse compile example:unsharp --target sm_90")
@FILE
@click.option("--emit", type=_Emit(), default=(), metavar="ptx,cubin,llvm,mlir,object,c,report",
              help="What to write.  [default: ptx; object for cpu]")
@click.option("-o", "output", metavar="DIR", help="Where to write.  [default: here]")
@_CHECK
@_common
def compile_(file: str, emit: tuple[str, ...], output: str | None, **flags: Any) -> None:
    """Compile FILE to code and a manifest that says how to launch it."""
    from loopfuse.commands.compile import compile_file

    compile_file(file, _gather(flags), emit, output)


@cli.command(
    epilog="Example: loopfuse run example:unsharp img=sample:camera amount=1.5 "
    "--save sharp=sharp.png"
)
@FILE
@click.argument("values", nargs=-1, metavar="NAME=VALUE...")
@click.option("--save", "saves", multiple=True, metavar="NAME=PATH",
              help="Save an array as .npy, .npz or an image.")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="For random: values.")
@_CHECK
@_common
def run(
    file: str, values: tuple[str, ...], saves: tuple[str, ...], seed: int, **flags: Any
) -> None:
    """Run the kernel in FILE.

    A VALUE is a number, a.npy, a.npz:key, an image, sample:camera, example:chart,
    random:480,640 or zeros:480,640. NAME may be a size. `out` arrays are made. Images
    become 0..1 floats, grey for a matrix.
    """
    from loopfuse.commands.run import run_file

    run_file(file, _gather(flags), values, saves, seed)


@cli.command(epilog="Example: loopfuse explain example:unsharp --size H=4096,W=4096")
@FILE
@click.option("--format", "form", type=click.Choice(["text", "json", "html"]), default="text")
@_common
def explain(file: str, form: str, **flags: Any) -> None:
    """Say what was fused, what was not, and why."""
    from loopfuse.commands.report import explain_file

    explain_file(file, _gather(flags), form)


@cli.command(epilog="Example: loopfuse deps example:jacobi --size N=4,steps=2 --instances")
@FILE
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@click.option("--instances", is_flag=True, help="List the iteration pairs (needs every size).")
@_common
def deps(file: str, form: str, instances: bool, **flags: Any) -> None:
    """List every dependence: what must stay in order."""
    from loopfuse.commands.report import show_dependences

    show_dependences(file, _gather(flags), form, instances)


@cli.command(epilog="Example: loopfuse verify example:softmax")
@FILE
@click.option("--seed", type=click.IntRange(min=0), default=0, help="For the random data.")
@click.option("--bisect", is_flag=True, help="Where they differ, name the fusion that does it.")
@_common
def verify(file: str, seed: int, bisect: bool, **flags: Any) -> None:
    """Check the schedule, then compare fused, unfused and interpreted runs."""
    if bisect:
        from loopfuse.commands.bisect import bisect_file as work
    else:
        from loopfuse.commands.verify import verify_file as work

    if not work(file, _gather(flags), seed):
        raise InternalError(
            Diagnostic("forms-differ", f"`{file}` does not compute the same in every form")
        )


@cli.command(epilog="Example: loopfuse bench example:unsharp --size H=4096,W=4096 --tune")
@FILE
@click.argument("values", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="For random data.")
@click.option("--tune", is_flag=True, help="Search for the fastest strips, chunks and steps first.")
@click.option("--budget", type=float, metavar="SECONDS",
              help="How long --tune may search.  [default: 30]")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@_common
def bench(
    file: str, values: tuple[str, ...], seed: int, tune: bool, budget: float | None, form: str,
    **flags: Any,
) -> None:
    """Time fused against unfused, beside a plain copy of the same bytes."""
    from loopfuse.commands.bench import bench_file

    if not bench_file(file, _gather(flags), values, seed, form, tune, budget):
        raise InternalError(
            Diagnostic("tuning-differs", f"`{file}` computes something else under another tuning")
        )


@cli.command(epilog="Example: loopfuse fmt --check example:unsharp")
@click.argument("files", nargs=-1, required=True, type=click.Path())
@click.option("--check", is_flag=True, help="Change nothing; exit 1 if a file would change.")
@click.option("--stdout", is_flag=True, help="Print instead of rewriting.")
def fmt(files: tuple[str, ...], check: bool, stdout: bool) -> None:
    """Rewrite programs in the one canonical style."""
    from loopfuse.commands.report import format_file

    results = [format_file(file, check, stdout) for file in files]
    if check and not all(results):
        raise click.exceptions.Exit(1)


@cli.command(epilog="Example: loopfuse check example:unsharp")
@FILE
@_common
def check(file: str, **flags: Any) -> None:
    """Read FILE and report everything that is wrong with it."""
    from loopfuse.commands.report import check_file

    check_file(file, _gather(flags))


@cli.command(epilog="Example: loopfuse examples --format json")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
def examples(form: str) -> None:
    """List the programs that come with loopfuse: `example:NAME`."""
    from loopfuse.commands.examples import show_examples

    show_examples(form)


@cli.command(epilog="Example: loopfuse cache --clear")
@click.option("--clear", is_flag=True, help="Remove every entry.")
def cache(clear: bool) -> None:
    """Show (or empty) the disk cache of compiled kernels."""
    from loopfuse.base.options import limit_from_environment
    from loopfuse.commands.doctor import clear_cache, show_cache

    limit_from_environment()

    clear_cache() if clear else show_cache()


@cli.command(epilog="Example: loopfuse doctor")
def doctor() -> None:
    """Say what is installed, which GPU there is, and what is missing."""
    from loopfuse.commands.doctor import doctor as examine

    if not examine():
        raise click.exceptions.Exit(1)


# --------------------------------------------------------------------------------------- errors


def _paint(text: str) -> None:
    """Print a message to standard error, coloured on a terminal."""
    text = printable(text)
    if sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
        from rich.console import Console
        from rich.text import Text

        shown = Text(text)
        shown.highlight_regex(r"(?m)^(error|bug)\[[^\]]*\]", "bold red")
        shown.highlight_regex(r"(?m)^warning\[[^\]]*\]", "bold yellow")
        shown.highlight_regex(r"(?m)^ *= fix:.*$", "green")
        shown.highlight_regex(r"\^+", "bold red")
        Console(stderr=True, soft_wrap=True).print(shown)
    else:
        print(text, file=sys.stderr)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    _paint(str(message))


def _run(arguments: list[str] | None) -> int:
    try:
        result = cli.main(args=arguments, prog_name="loopfuse", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (click.Abort, KeyboardInterrupt):
        _paint("interrupted")
        return 130
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        print(printable(shown.getvalue()), end="", file=sys.stderr)
        return error.exit_code
    except _ClosedPipe:
        _close_output()
        return 0
    except Exception as error:
        from loopfuse.watch import is_stop

        return 0 if is_stop(error) else _fail(error)
    finally:
        from loopfuse.watch import unwatch

        unwatch()


def _close_output() -> None:
    """Send what is left in the buffer nowhere, so that nothing more fails at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(error: Exception) -> int:
    """Say what went wrong; the exit code."""
    report = f"  = this is a bug in loopfuse: please report it, with this text, at {ISSUES}"
    match error:
        case InternalError():
            text = str(error).replace("error[", "bug[", 1)
            _paint(text if "please report it" in text else f"{text}\n{report}")
            return error.exit_code
        case LoopfuseError():
            _paint(str(error))
            return error.exit_code
        case OSError():  # standard output that cannot be written, above all
            _close_output()
            what = f"`{error.filename}`" if error.filename else "the output"
            _paint(
                f"error[cannot-write]: cannot write {what}: {error.strerror or error}\n"
                "  = fix: send it where there is room, or to a program that reads it"
            )
            return 1
        case MemoryError():
            _paint("error[out-of-memory]: not enough memory")
            return 1
        case _:
            _paint("".join(traceback.format_exception(error)) + f"bug[unexpected]\n{report}")
            return InternalError.exit_code


def main(arguments: list[str] | None = None) -> None:
    """The `loopfuse` command."""
    warnings.showwarning = _show_warning
    if isinstance(sys.stdout, io.TextIOWrapper):  # a file's name need not be text, a terminal UTF-8
        sys.stdout.reconfigure(errors="backslashreplace")
    raise SystemExit(_run(arguments))
