"""Factorisations that JAX leaves to a library on its platforms: as on CPUs they are calls of
LAPACK's routines by name, which the plugin computes itself."""

import functools


def register(platform: str) -> None:
    """Has JAX lower these primitives so on a platform."""
    from jax._src.interpreters import mlir
    from jax._src.lax import linalg

    for primitive, lowering in [
        (linalg.eigh_p, linalg._eigh_cpu_gpu_lowering),
        (linalg.geqrf_p, linalg._geqrf_cpu_gpu_lowering),
        (linalg.householder_product_p, linalg._householder_product_cpu_gpu_lowering),
        (linalg.svd_p, linalg._svd_cpu_gpu_lowering),
    ]:
        rule = functools.partial(lowering, target_name_prefix="cpu")
        mlir.register_lowering(primitive, rule, platform=platform)
