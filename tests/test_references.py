"""The references themselves, against published values and laws that they must obey.

A kernel and its reference may share a misunderstanding; these facts come from elsewhere.
"""

from __future__ import annotations

import numpy as np
import pytest
from references import REFERENCES
from references_networks import philox


@pytest.mark.parametrize(
    "counter, key, words",
    [
        ((0,) * 4, (0,) * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((2**32 - 1,) * 4, (2**32 - 1,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_philox_has_the_published_values(
    counter: tuple[int, ...], key: tuple[int, ...], words: str
) -> None:
    """The known answers that Random123 ships (`kat_vectors`)."""
    assert " ".join(f"{word:08x}" for word in philox(counter, key)) == words


def test_smith_waterman_finds_the_textbook_alignment() -> None:
    """TGTTACGG against GGTTGACTA scores 13 with 3, -3 and 2: GTT-AC with GTTGAC."""
    a, b = (np.frombuffer(text, np.uint8) for text in (b"TGTTACGG", b"GGTTGACTA"))
    found = REFERENCES["smith_waterman"]({"a": a, "b": b, "match": 3, "mismatch": -3, "gap": 2})
    assert found["best"][0] == 13


def test_layernorm_backward_is_the_derivative() -> None:
    """dx, dgamma and dbeta against central differences of sum(dy * layernorm(x))."""
    rng = np.random.default_rng(1)
    x, dy = rng.standard_normal((2, 3, 7))
    gamma, beta = rng.standard_normal((2, 7))

    def loss(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> float:
        normal = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
        return float((dy * (normal * gamma + beta)).sum())

    values = {"x": x, "gamma": gamma, "beta": beta}
    statistics = {"mean": x.mean(1), "scale": 1 / x.std(1)}
    like = {"dx": x, "dgamma": gamma, "dbeta": beta}
    found = REFERENCES["layernorm_backward"]({"dy": dy, **values, **statistics, **like})
    for name, value in values.items():
        for index in np.ndindex(value.shape):
            step = np.zeros_like(value)
            step[index] = 1e-5
            up, down = (loss(**{**values, name: value + s}) for s in (step, -step))
            assert abs((up - down) / 2e-5 - found[f"d{name}"][index]) < 1e-6


def test_demosaic_gives_back_an_even_colour() -> None:
    raw = np.empty((6, 9), np.uint8)
    raw[0::2, 0::2], raw[1::2, 1::2] = 200, 31
    raw[0::2, 1::2] = raw[1::2, 0::2] = 90
    rgb = REFERENCES["demosaic"]({"raw": raw})["rgb"]
    assert (rgb == np.array([200, 90, 31], np.uint8)).all()


def test_lattice_boltzmann_keeps_mass_and_momentum() -> None:
    f = 1 + np.random.default_rng(2).random((9, 6, 5))
    cx = np.array([0, 1, 0, -1, 0, 1, -1, -1, 1])
    cy = np.array([0, 0, 1, 0, -1, 1, 1, -1, -1])
    after = REFERENCES["lattice_boltzmann"]({"f": f, "next": f * 0, "omega": 1.3, "steps": 4})["f"]
    for weight in (np.ones(9), cx, cy):
        assert np.isclose((weight @ f.reshape(9, -1)).sum(), (weight @ after.reshape(9, -1)).sum())


def test_prolongation_is_exact_on_linear_functions_and_adjoint_to_restriction() -> None:
    coarse = np.add.outer(3.0 * np.arange(5), 2.0 * np.arange(4))
    fine = REFERENCES["multigrid_prolong"]({"coarse": coarse, "u": np.zeros((9, 7))})["u"]
    assert np.allclose(fine, np.add.outer(1.5 * np.arange(9), 1.0 * np.arange(7)))
    # Full weighting is a quarter of interpolation transposed: <R r, c> = <r, P c> / 4 inside.
    rng = np.random.default_rng(3)
    r, c = np.zeros((9, 7)), np.zeros((5, 4))
    r[1:-1, 1:-1], c[1:-1, 1:-1] = rng.standard_normal((7, 5)), rng.standard_normal((3, 2))
    down = {"u": np.zeros((9, 7)), "f": r, "coarse": c, "spacing": 1.0}
    restricted = REFERENCES["multigrid_restrict"](down)["coarse"]
    prolonged = REFERENCES["multigrid_prolong"]({"coarse": c, "u": np.zeros((9, 7))})["u"]
    assert np.isclose((restricted * c).sum(), (r * prolonged).sum() / 4)


def test_rope_keeps_lengths_and_relative_angles() -> None:
    """A rotation: the product of a query and a key depends on their distance in time alone."""
    angle = np.outer(np.arange(6), [1.0, 0.1])
    q, k = (np.broadcast_to(v, (1, 6, 1, 4)) for v in np.random.default_rng(4).random((2, 4)))
    arguments = {"q": q, "k": k, "cosine": np.cos(angle), "sine": np.sin(angle)}
    turned = REFERENCES["rope"](arguments)
    q, k = turned["q_turned"][0, :, 0], turned["k_turned"][0, :, 0]
    products = q @ k.T
    assert np.allclose(products[1:, 1:], products[:-1, :-1])
