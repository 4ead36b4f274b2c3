"""Horizontal diffusion of the COSMO weather model: Laplacian, limited fluxes, update."""

from __future__ import annotations

import numpy as np

import loopfuse
from loopfuse import f32


@loopfuse.kernel
def horizontal_diffusion(field: f32["K", "J", "I"], coefficient: f32["K", "J", "I"]):
    K, J, I = field.shape  # noqa: E741
    result = np.zeros_like(field)
    laplacian = np.empty_like(field)
    flux_i = np.empty_like(field)
    flux_j = np.empty_like(field)
    for k in range(K):
        for j in range(1, J - 1):
            for i in range(1, I - 1):
                laplacian[k, j, i] = 4.0 * field[k, j, i] - (
                    field[k, j, i + 1] + field[k, j, i - 1] + field[k, j + 1, i] + field[k, j - 1, i]
                )
    for k in range(K):
        for j in range(2, J - 2):
            for i in range(1, I - 2):
                flux = laplacian[k, j, i + 1] - laplacian[k, j, i]
                flux_i[k, j, i] = (
                    0.0 if flux * (field[k, j, i + 1] - field[k, j, i]) > 0.0 else flux
                )
    for k in range(K):
        for j in range(1, J - 2):
            for i in range(2, I - 2):
                flux = laplacian[k, j + 1, i] - laplacian[k, j, i]
                flux_j[k, j, i] = (
                    0.0 if flux * (field[k, j + 1, i] - field[k, j, i]) > 0.0 else flux
                )
    for k in range(K):
        for j in range(2, J - 2):
            for i in range(2, I - 2):
                result[k, j, i] = field[k, j, i] - coefficient[k, j, i] * (
                    flux_i[k, j, i] - flux_i[k, j, i - 1] + flux_j[k, j, i] - flux_j[k, j - 1, i]
                )
    return result
