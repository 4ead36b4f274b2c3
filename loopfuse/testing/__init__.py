"""Assertions for users' own test suites: that loops fuse, that a loop is parallel, that a kernel
moves no more than so many bytes, that every form of it computes the same.

    import loopfuse
    from loopfuse.testing import assert_equivalent, assert_fuses, assert_traffic

    blur = loopfuse.load("examples/blur.lf")

    def test_blur() -> None:
        assert_fuses(blur, "L1", "L2")
        assert_traffic(blur, at_most="8*H*W")
        assert_equivalent(blur)

They need no GPU and no test framework. A failure is an AssertionError that prints the part of the
report that explains it; a question about something that is not there (a loop, an array, a size) is
a `UserError` that lists what there is, so that a misspelt assertion never passes.

All take `kernel` (of `@loopfuse.kernel`, `loopfuse.load` or `loads`) and these keywords:

- `target`: what the plan is for. Unless the kernel was made for one, it is `sm_80`, on every
  machine: a laptop and a GPU box give the same answer.
- `sizes`: sizes and integer parameters, `{"H": 4096}`. Without them answers hold for all sizes.
- `args`: for a Python kernel without annotations, example arguments; they say types only.

`fp` and `reassociate` are the kernel's own (`kernel.with_options(reassociate=False)`).
"""

from loopfuse.testing.assertions import (
    ANY,
    assert_dependence,
    assert_equivalent,
    assert_fuses,
    assert_home,
    assert_launches,
    assert_no_dependence,
    assert_not_fused,
    assert_parallel,
    assert_traffic,
)

__all__ = [
    "ANY",
    "assert_dependence",
    "assert_equivalent",
    "assert_fuses",
    "assert_home",
    "assert_launches",
    "assert_no_dependence",
    "assert_not_fused",
    "assert_parallel",
    "assert_traffic",
]
