"""JAX's plugin of Tilewright: what JAX finds and initialises when it starts.

`JAX_PLATFORMS=tilewright` chooses it; `TILEWRIGHT_DEVICES=N` shows the processor as N devices.
"""

import os
from pathlib import Path

PLATFORM = "tilewright"


def library_path() -> Path:
    """The plugin's library: beside this file, or what TILEWRIGHT_PLUGIN names."""
    beside = Path(__file__).with_name("libtilewright_pjrt.so")
    return Path(os.environ.get("TILEWRIGHT_PLUGIN", beside))


def initialize() -> None:
    """Registers the platform with JAX. Nothing is loaded until it is asked for."""
    from jax._src import xla_bridge
    from jax._src.interpreters import mlir

    path = library_path()
    if not path.exists():
        return
    # Behind JAX's own platforms: who wants it names it.
    xla_bridge.register_plugin(PLATFORM, priority=-100, library_path=str(path))
    from . import _linear_algebra

    _linear_algebra.register(PLATFORM)
    donating = getattr(mlir, "_platforms_with_donation", None)
    if donating is not None and PLATFORM not in donating:
        donating.append(PLATFORM)
