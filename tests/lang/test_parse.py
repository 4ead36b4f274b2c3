"""Reading `.lf`: every construct, exact spans, layout, and a grammar without conflicts."""

from __future__ import annotations

import dataclasses
import json
import logging
import math
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lark
import pytest
from hypothesis import HealthCheck, given, settings
from strategies import modules

from loopfuse.base.diagnostics import Source, Span, UserError
from loopfuse.base.dtypes import DType
from loopfuse.frontend.lf import door
from loopfuse.frontend.lf.door import build_parser, keywords, lark_options, parse, parser
from loopfuse.frontend.lf.grammar_file import find_grammar
from loopfuse.frontend.lf.tables import _decoded, print_tables, read_tables, tables_file
from loopfuse.lang.surface import syntax
from loopfuse.lang.surface.format import format_module

EVERYTHING = (Path(__file__).parent / "everything.lf").read_text(encoding="utf-8")
EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.lf"))


def read(text: str) -> syntax.Module:
    return parse(Source("test.lf", text))


def expr(text: str) -> syntax.Expr:
    const = read(f"const K = {text}\n").items[0]
    assert isinstance(const, syntax.Const) and not isinstance(const.values, tuple)
    return const.values


def body(text: str) -> tuple[syntax.Stmt, ...]:
    indented = "".join(f"    {line}\n" for line in text.split("\n"))
    (kernel,) = read("kernel k(inout a: f32[N]):\n" + indented).kernels
    return kernel.body


a, b, c, d, N, one = (*map(syntax.Name, "abcdN"), syntax.Number(1))


# ------------------------------------------------------------------------------- the grammar


def test_grammar_has_no_conflicts(caplog: pytest.LogCaptureFixture) -> None:
    """Lark resolves a shift/reduce conflict silently, but says so at debug level."""
    level = lark.logger.level
    lark.logger.setLevel(logging.DEBUG)
    lark.logger.addHandler(caplog.handler)
    try:
        lark.Lark(find_grammar().read_text(encoding="utf-8"), debug=True, **lark_options())
        assert not [record for record in caplog.records if "onflict" in record.message]
        caplog.clear()
        ambiguous = 'start: expr\nexpr: expr "+" expr | "1"\n'
        lark.Lark(ambiguous, debug=True, parser="lalr")
        assert [record for record in caplog.records if "onflict" in record.message]
    finally:
        lark.logger.removeHandler(caplog.handler)
        lark.logger.setLevel(level)


def test_grammar_uses_every_terminal(caplog: pytest.LogCaptureFixture) -> None:
    level = lark.logger.level
    lark.logger.setLevel(logging.DEBUG)
    lark.logger.addHandler(caplog.handler)
    try:
        lark.Lark(find_grammar().read_text(encoding="utf-8"), **lark_options())
    finally:
        lark.logger.removeHandler(caplog.handler)
        lark.logger.setLevel(level)
    assert not [record for record in caplog.records if "Unused" in record.message]


def test_keywords_are_reserved() -> None:
    assert keywords() >= {"kernel", "for", "in", "out", "step", "pi", "true", "nofuse"}
    assert len(keywords()) == 28
    for word in keywords():
        with pytest.raises(UserError) as caught:
            body(f"let {word} = 3")
        assert caught.value.diagnostics[0].code == "keyword-as-name", word
        assert expr(f"{word}s") == syntax.Name(f"{word}s")
        assert expr(f"_{word}") == syntax.Name(f"_{word}")


def test_the_parser_is_built_once() -> None:
    assert parser() is parser()


def numbered(tables: tuple[Any, Any]) -> list[dict[str, Any]]:
    """The states of a parser in the order in which they are met from the start, tokens in alphabetical order: lark
    numbers them as sets happen to lie."""
    data, memo = tables
    table = data["parser"]["parser"]
    tokens: dict[int, str] = table["tokens"]
    (start,) = table["start_states"].values()
    order, found = [start], list[dict[str, Any]]()
    for state in order:
        row: dict[str, Any] = {}
        for token, (action, to) in sorted(table["states"][state].items(), key=lambda each: tokens[each[0]]):
            if action:  # a rule to be reduced
                rule = memo[to["@"]]
                row[tokens[token]] = (rule["origin"]["name"], [each["name"] for each in rule["expansion"]])
                continue
            if to not in order:
                order.append(to)
            row[tokens[token]] = order.index(to)
        found.append(row)
    return found


def test_tables_are_those_of_the_grammar() -> None:
    """`python tests/tools/make_grammar_tables.py` writes them, for the lark that is installed."""
    place = find_grammar()
    text = place.read_text(encoding="utf-8")
    kept = read_tables(place, text)
    assert kept is not None, "make the tables again"
    built = json.loads(print_tables(build_parser(text), text), object_hook=_decoded)
    made = numbered((built["parser"], built["memo"]))
    assert numbered(kept) == made and len(made) == len(kept[0]["parser"]["parser"]["states"]) > 200


@pytest.mark.parametrize("damage", ["", "rubbish", "{}", '{"made_for": 3}', "half", "missing", "older"])
def test_with_other_tables_the_parser_is_built(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tables_file(find_grammar()).read_text("utf-8")
    place = tmp_path / "loopfuse.lark"
    place.write_text(find_grammar().read_text("utf-8") + ("// another" if damage == "older" else ""), "utf-8")
    if damage != "missing":
        wrong = {"half": whole[: len(whole) // 2], "older": whole}.get(damage, damage)
        tables_file(place).write_text(wrong, "utf-8")
    expected = read(EVERYTHING)
    monkeypatch.setattr(door, "find_grammar", lambda: place)
    assert read_tables(place, place.read_text("utf-8")) is None
    parser.cache_clear()
    try:
        assert parse(Source("test.lf", EVERYTHING)) == expected
        with pytest.raises(UserError):
            read("kernel in():\n    a = 1\n")
    finally:
        parser.cache_clear()


# ---------------------------------------------------------------------------- expressions


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("1_000", 1000),
        ("0xff", 255),
        ("0XF_f", 255),
        ("1.5", 1.5),
        ("1_0.0_1", 10.01),
        ("1e-5", 1e-5),
        ("2.5E+3", 2500.0),
        ("inf", math.inf),
        ("pi", math.pi),
        ("true", True),
        ("false", False),
    ],
)
def test_numbers(text: str, value: float) -> None:
    number = expr(text)
    assert isinstance(number, syntax.Number)
    assert (number.value, type(number.value), number.text) == (value, type(value), text)


def test_nan() -> None:
    number = expr("nan")
    assert isinstance(number, syntax.Number) and math.isnan(number.value)
    assert number == expr("nan")


def B(op: str, left: syntax.Expr, right: syntax.Expr) -> syntax.Binary:
    return syntax.Binary(op, left, right)


def U(op: str, operand: syntax.Expr) -> syntax.Unary:
    return syntax.Unary(op, operand)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a + b * c", B("+", a, B("*", b, c))),
        ("a - b - c", B("-", B("-", a, b), c)),
        ("a ** b ** c", B("**", a, B("**", b, c))),
        ("-a ** b", U("-", B("**", a, b))),
        ("a ** -b", B("**", a, U("-", b))),
        ("a // b % c / d", B("/", B("%", B("//", a, b), c), d)),
        ("a | b ^ c & d << 1", B("|", a, B("^", b, B("&", c, B("<<", d, one))))),
        ("a >> b + c", B(">>", a, B("+", b, c))),
        ("not a == b", U("not", syntax.Comparison((a, b), ("==",)))),
        ("not a and b or c", B("or", B("and", U("not", a), b), c)),
        ("a < b <= c != d", syntax.Comparison((a, b, c, d), ("<", "<=", "!="))),
        (
            "(a < b) < c",
            syntax.Comparison((syntax.Comparison((a, b), ("<",)), c), ("<",)),
        ),
        ("a if b else c if d else 1",
         syntax.Conditional(b, a, syntax.Conditional(d, c, one))),
        ("(a if b else c) if d else 1",
         syntax.Conditional(d, syntax.Conditional(b, a, c), one)),
        ("a < b | c", syntax.Comparison((a, B("|", b, c)), ("<",))),
        ("- + ~a", U("-", U("+", U("~", a)))),
        ("a--b", B("-", a, U("-", b))),
        ("f()", syntax.Call("f", ())),
        ("f32(a, b,)", syntax.Call("f32", (a, b))),
        ("a.clamp[b, c-1]", syntax.Subscript("a", (b, B("-", c, one)), "clamp")),
        ("min(a, b)", syntax.Call("min", (a, b))),
        ("min(a in b..c: d)", syntax.Reduction("min", (syntax.Range("a", b, c),), d)),
        (
            "sum(a in 1..N step 1, b in a..N-1: c + d)",
            syntax.Reduction(
                "sum",
                (syntax.Range("a", one, N, one), syntax.Range("b", a, B("-", N, one))),
                B("+", c, d),
            ),
        ),
    ],
)  # fmt: skip
def test_expressions(text: str, tree: syntax.Expr) -> None:
    assert expr(text) == tree


# ------------------------------------------------------------------------------ statements


def test_statements() -> None:
    assert body("a[1] min= b") == (syntax.Assign(syntax.Subscript("a", (one,)), "min", b),)
    assert body("a.wrap[1] |= b") == (syntax.Assign(syntax.Subscript("a", (one,), "wrap"), "|", b),)
    assert body("let x = a") == (syntax.Let("x", None, a),)
    assert body("var x: bf16 = a") == (syntax.Let("x", DType.BF16, a, True),)
    assert body("temp t: u8[N, 1]") == (syntax.Temp("t", DType.U8, (N, one)),)
    assert body("swap a, b") == (syntax.Swap("a", "b"),)
    assert body("assume a") == (syntax.Assume(a),)
    swap = syntax.Swap("a", "b")
    ab = (syntax.Range("a", one, N), syntax.Range("b", a, N, U("-", one)))
    assert body("for a in 1..N, b in a..N step -1:\n    swap a, b") == (syntax.For(ab, (swap,)),)
    assert body("parallel for a in 1..N: swap a, b") == (syntax.For(ab[:1], (swap,), True),)
    assert body("fuse:\n    nofuse: swap a, b") == (
        syntax.Block("fuse", (syntax.Block("nofuse", (swap,)),)),
    )
    assert body("if a:\n    swap a, b\nelif b:\n    swap a, b\nelse:\n    swap a, b") == (
        syntax.If(a, (swap,), (syntax.If(b, (swap,), (swap,)),)),
    )


def test_every_augmented_assignment() -> None:
    for op in ("", "+", "-", "*", "/", "&", "|", "^", "min", "max"):
        for space in ("", " "):
            (stmt,) = body(f"a[1]{space or ' '}{op}={space}b")
            assert stmt == syntax.Assign(syntax.Subscript("a", (one,)), op, b)


def test_soft_words() -> None:
    """`min` and `max` are names too; `min=` is one sign only behind a target."""
    assert body("let min=a") == (syntax.Let("min", None, a),)
    assert body("max=a") == (syntax.Assign(syntax.Name("max"), "", a),)
    assert body("max max=a") == (syntax.Assign(syntax.Name("max"), "max", a),)


def test_items() -> None:
    module = read(EVERYTHING)
    assert [item.name for item in module.items] == ["K", "cx", "w", "clip", "k"]
    const = module.items[2]
    assert isinstance(const, syntax.Const) and const.dtype is None
    assert const.values == (
        (syntax.Number(0.1), syntax.Number(0.2)),
        (syntax.Number(1e-5), syntax.Number(2500.0)),
    )
    func, kernel = module.items[3:]
    assert isinstance(func, syntax.Func) and isinstance(kernel, syntax.Kernel)
    assert func.result is DType.F64 and len(func.lets) == 1
    assert kernel.params[1] == syntax.Param("b", DType.U8, (N, syntax.Name("M")), "inout")
    assert kernel.params[2] == syntax.Param("S", DType.I64, is_const=True)
    assert len(module.comments) == 11


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples(path: Path) -> None:
    assert read(path.read_text(encoding="utf-8")).kernels


# ----------------------------------------------------------------------------------- layout


def test_layout_variants_are_one_tree() -> None:
    tree = read(EVERYTHING)
    assert read(EVERYTHING.rstrip("\n")) == tree
    assert read(EVERYTHING.replace("\n", "\r\n")) == tree
    assert read("\ufeff" + EVERYTHING) == tree
    assert read("\n  \n   # odd\n\t# tab\n" + EVERYTHING + "\n   \n      # odd") == tree
    assert read(EVERYTHING.replace("    ", " ")) == tree
    assert read(EVERYTHING.replace("\n", "   \n\n")) == tree
    header = "kernel k(\n  a: f32[\nN\n],\n# c\n\n\tS: const i64\n):\n  swap a, b\n"
    assert read(header) == read("kernel k(a: f32[N], S: const i64):\n    swap a, b")


def test_empty() -> None:
    for text in ("", "\n", "   ", "# only\n", "\r\n\r\n", "\ufeff"):
        assert read(text).items == ()


def test_comments_are_kept() -> None:
    module = read("# one\nconst K = 3  # two \n   # three\n")
    assert module.comments == ((1, "# one"), (2, "# two"), (3, "# three"))


def test_source_is_the_text_that_spans_count_in() -> None:
    module = read("\ufeffconst K = 3\n")
    assert module.source == Source("test.lf", "const K = 3\n")
    assert module.items[0].span == Span(1, 1, 1, 12)


def test_two_hundred_levels() -> None:
    assert expr("(" * 200 + "a" + ")" * 200) == a
    blocks = "".join("    " * depth + f"for t{depth} in 0..N:\n" for depth in range(199))
    (stmt,) = body(blocks + "    " * 199 + "swap a, b")
    for _ in range(199):
        assert isinstance(stmt, syntax.For)
        (stmt,) = stmt.body
    assert stmt == syntax.Swap("a", "b")
    chain = expr(" + ".join(["a"] * 1000))
    assert isinstance(chain, syntax.Binary)


def test_many_threads() -> None:
    """One parser object serves all threads."""
    wrong: list[object] = []

    def work() -> None:
        for _ in range(5):
            if read(EVERYTHING) != tree:
                wrong.append("differs")

    tree = read(EVERYTHING)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_lines_are_counted_as_the_renderer_counts_them() -> None:
    """A form feed or a Unicode separator in a comment ends no line."""
    with pytest.raises(UserError) as caught:
        read("# a\u2028b\x0cc\x85d\r\nkernel k(a):\r\n    b = 1\r\n")
    assert "2 | kernel k(a):\n  |          ^\n" in str(caught.value)


# ------------------------------------------------------------------------------------ spans


def nodes(value: object) -> Iterator[syntax.Node]:
    """Every node below `value`."""
    if isinstance(value, tuple):
        for part in value:
            yield from nodes(part)
    elif isinstance(value, syntax.Node):
        yield value
        for field in dataclasses.fields(value):
            yield from nodes(getattr(value, field.name))


def cut(text: str, span: Span) -> str:
    """The text that `span` covers."""
    lines = text.split("\n")[span.line - 1 : span.end_line]
    lines[-1] = lines[-1][: span.end_column - 1]
    lines[0] = lines[0][span.column - 1 :]
    return "\n".join(lines)


def check_spans(text: str, module: syntax.Module) -> int:
    """Each node's span covers exactly the text of that node; the number of nodes looked at."""
    count = 0
    for node in nodes(module.items):
        part = cut(text, node.span)
        assert part == part.strip() and part
        count += 1
        match node:
            case syntax.Name():
                assert part.strip("() \n") == node.name
            case syntax.Func() | syntax.Const() | syntax.Kernel():
                assert read(part).items == (node,)
            case syntax.Param():
                assert read(f"kernel k({part}):\n    swap a, b").kernels[0].params == (node,)
            case syntax.Range():
                assert expr(f"sum({part}: 1)") == syntax.Reduction("sum", (node,), one)
            case syntax.If() if part.startswith("elif"):
                assert body(textwrap_block(part[2:], node.span)) == (node,)
            case (
                syntax.For() | syntax.If() | syntax.Block() | syntax.Assign() | syntax.Let()
                | syntax.Temp() | syntax.Swap() | syntax.Assume()
            ):  # fmt: skip
                assert body(textwrap_block(part, node.span)) == (node,)
            case _:
                assert expr(f"({part})") == node
        match node:
            case syntax.Kernel() | syntax.Let():
                assert cut(text, node.name_span) == node.name
            case syntax.Subscript():
                assert cut(text, node.array_span) == node.array
            case _:
                pass
    return count


def textwrap_block(part: str, span: Span) -> str:
    """`part` with the margin of its first line taken off the others."""
    margin = " " * (span.column - 1)
    return part.replace("\n" + margin, "\n")


def test_spans_of_everything() -> None:
    assert check_spans(EVERYTHING, read(EVERYTHING)) > 170


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(modules)
def test_spans_of_random_modules(module: syntax.Module) -> None:
    text = format_module(module)
    check_spans(text, read(text))


def test_spans_by_number() -> None:
    text = "kernel k(out y: f32[N]):\n    for i in 0..N:\n        y[i] = (a + b) * f(2)\n"
    (kernel,) = read(text).kernels
    (loop,) = kernel.body
    assert isinstance(loop, syntax.For)
    (assign,) = loop.body
    assert isinstance(assign, syntax.Assign) and isinstance(assign.value, syntax.Binary)
    assert kernel.span == Span(1, 1, 3, 30)
    assert kernel.params[0].span == Span(1, 10, 1, 23)
    assert loop.ranges[0].span == Span(2, 9, 2, 18)
    assert assign.target.span == Span(3, 9, 3, 13)
    assert assign.value.span == Span(3, 16, 3, 30)
    assert assign.value.left.span == Span(3, 16, 3, 23)  # parentheses included
    assert assign.value.right.span == Span(3, 26, 3, 30)
