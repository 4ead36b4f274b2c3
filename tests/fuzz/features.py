"""What a program may use. Each program switches a few features on ("swarm testing", Groce et al.,
ISSTA 2012): deep combinations of few features find more than a little of everything does.
"""

from __future__ import annotations

from fuzz.choices import Choices

FEATURES = (
    "offsets", "edges", "flips", "halves_of_indices", "transposes", "offset_writes",
    "steps", "backwards", "triangles", "narrow_ranges", "imperfect_nests", "extra_loops", "four_dimensions",
    "extents", "third_size",
    "iterator_guards", "data_guards", "conditionals", "elif",
    "reductions", "nested_reductions", "arg_reductions", "whole_reductions", "products",
    "updates", "reducing_updates", "accumulators", "recurrences",
    "time", "parity", "swaps", "sweeps",
    "gathers", "gathers_of_computed", "scatters", "ragged", "faults",
    "lets", "local_temps", "many_temps", "funcs", "consts", "tables", "unrolled_offsets",
    "fuse_blocks", "nofuse_blocks", "parallel_for", "integer_parameters", "float_parameters", "assume",
    "mixed_dtypes", "narrow_integers", "unsigned", "storage_floats", "bools", "casts",
    "divisions", "bit_operations", "math", "min_max", "chains",
    "special_data", "wide_data", "small_data", "views", "shared_inputs", "strict",
    "empty_sizes", "tile_edges", "usual_machine", "small_machine",
    "const_parameters", "several_kernels", "aliasing", "volumes", "single_edges", "mixed_conditions", "branches",
    "overwritten_vars", "single_ranges", "halves_of_rows", "no_loads", "size_products",
    "own_operands", "rewritten_temps",
)  # fmt: skip
"""Every feature, by what the generator asks for."""

ALWAYS = ("offsets", "narrow_ranges", "reductions", "lets", "edges", "conditionals", "min_max")
"""What most programs have, switched off one at a time."""

NEEDS = {
    "nested_reductions": "reductions", "arg_reductions": "reductions", "parity": "time",
    "swaps": "time", "gathers_of_computed": "gathers", "faults": "gathers", "elif": "data_guards",
    "unrolled_offsets": "tables", "single_edges": "edges", "volumes": "third_size",
    "mixed_conditions": "data_guards", "branches": "single_edges",
}  # fmt: skip


def draw_features(choices: Choices, profile: str = "") -> frozenset[str]:
    """The features of one program. `profile` names some to have, and with `-` some not to have:
    `gathers,-views`."""
    found: set[str] = set()
    for name in ALWAYS:
        if choices.choice(4):
            found.add(name)
    for _ in range(choices.choice(9)):
        found.add(FEATURES[choices.choice(len(FEATURES))])
    for wish in filter(None, profile.split(",")):
        name = wish.removeprefix("-")
        if name not in FEATURES:
            raise ValueError(f"no feature {name}; there are {', '.join(FEATURES)}")
        if wish.startswith("-"):
            found.discard(name)
        else:
            found.add(name)
    for name, needed in NEEDS.items():
        if name in found:
            found.add(needed)
    return frozenset(found)
