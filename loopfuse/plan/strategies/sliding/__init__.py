"""Chains of stencils, and time steps, with windows of rows."""
