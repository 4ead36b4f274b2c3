"""Random pipelines in Python by seed: arrays that are created full and then written in parts, by loops of one to
three statements that read each other's neighbours, under conditions or not; some are summed, some returned.

What `python_programs` varies is the language; here it is what loops make of each other's arrays.
"""

from __future__ import annotations

from fuzz.campaigns import Checked
from fuzz.choices import Choices, RandomChoices
from fuzz.python_builder import Array
from fuzz.python_programs import PythonProgram
from fuzz.python_quick import HEAD, check_program
from fuzz.python_values import Value

SUFFIX = ".py"
CREATED = (
    "np.zeros_like(x)", "np.zeros_like(x)", "np.copy(x)", "np.zeros(x.shape, x.dtype)",
    "np.full(x.shape, 0.5, x.dtype)",
)  # fmt: skip
HALOS = (0, 1, 1, 1, 2)


def check(number: int) -> Checked:
    """See `campaigns`."""
    return check_program(program_of(number), number)


def text(number: int, notes: str) -> str:
    """See `campaigns`."""
    lines = [f"# {line}".rstrip() for line in notes.splitlines()]
    return "\n".join(lines) + "\n" + HEAD + program_of(number).text


def program_of(number: int) -> PythonProgram:
    """Program `number`."""
    return generate(RandomChoices(f"pipeline:{number}"))


def generate(choices: Choices) -> PythonProgram:
    """The pipeline of these decisions."""
    return _Pipeline(choices).program()


class _Pipeline:
    def __init__(self, choices: Choices) -> None:
        self.draw = choices.choice
        self.dims: tuple[str, ...] = (("n",), ("n", "m"))[self.draw(2)]
        self.iterators = ("i", "j")[: len(self.dims)]
        self.made: list[str] = []
        self.body: list[str] = []

    def program(self) -> PythonProgram:
        for number in range(2 + self.draw(3)):
            self.loop(number)
        ending: list[str] = []
        returned = [name for name in self.made if name == self.made[-1] or self.draw(2)]
        if not self.draw(3):
            ending.append("    s = 0.0")
            indent = self.loops(0, ending)
            ending.append(f"{indent}s += {self.made[-1]}[{', '.join(self.iterators)}]")
            returned.append("s")
        head = "    n = len(x)" if len(self.dims) == 1 else "    n, m = x.shape"
        created = [f"    {name} = {self.one_of(CREATED)}" for name in self.made]
        lines = ["def kernel(x):", head, *created, *self.body, *ending, f"    return {', '.join(returned)}"]
        x = Array("x", Value(("f64", "f32")[self.draw(2)]), self.dims)
        return PythonProgram("\n".join(lines) + "\n", (x,), {}, self.dims)

    def one_of(self, many: tuple[str, ...] | list[str]) -> str:
        return many[self.draw(len(many))]

    def loops(self, halo: int, lines: list[str]) -> str:
        """Loops over the elements that far from the borders; the indentation of what stands inside."""
        indent = "    "
        for iterator, dim in zip(self.iterators, self.dims):
            around = f"range({dim})" if not halo else f"range({halo}, {dim} - {halo})"
            lines.append(f"{indent}for {iterator} in {f'reversed({around})' if not self.draw(12) else around}:")
            indent += "    "
        return indent

    def read(self, halo: int) -> str:
        def subscript(iterator: str) -> str:
            offset = self.draw(2 * halo + 1) - halo if self.draw(3) else 0
            return f"{iterator} {'+' if offset > 0 else '-'} {abs(offset)}" if offset else iterator

        array = self.one_of(["x", *self.made])
        return f"{array}[{', '.join(map(subscript, self.iterators))}]"

    def loop(self, number: int) -> None:
        halo = HALOS[self.draw(len(HALOS))]
        indent = self.loops(halo, self.body)
        here = ", ".join(self.iterators)
        new: list[str] = []
        for _ in range(1 + (self.draw(3) == 0) + (self.draw(6) == 0)):
            again = self.made and not self.draw(5)
            name = self.one_of(self.made) if again else f"t{len(self.made) + len(new)}"
            reads = [self.read(halo) for _ in range(1 + self.draw(3))]
            if new and self.draw(2):
                reads.append(f"{self.one_of(new)}[{here}]")
            value = " + ".join(("", "0.5 * ", "2.0 * ")[self.draw(3)] + read for read in reads)
            match self.draw(8):
                case 0:
                    self.body += [f"{indent}v{number} = {reads[0]}", f"{indent}{name}[{here}] = v{number} * {reads[-1]}"]
                case 1:
                    self.body += [f"{indent}if {reads[0]} > 0.0:", f"{indent}    {name}[{here}] = {value}"]
                    if self.draw(2):
                        self.body += [f"{indent}else:", f"{indent}    {name}[{here}] = {reads[-1]}"]
                case 2:
                    self.body.append(f"{indent}{name}[{here}] {('+=', '-=', '*=')[self.draw(3)]} {value}")
                case _:
                    self.body.append(f"{indent}{name}[{here}] = {value}")
            if not again:
                new.append(name)
        self.made += new
