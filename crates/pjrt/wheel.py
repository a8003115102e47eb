"""Packs JAX's plugin as a wheel: the library and the package by which JAX finds it.

usage: wheel.py LIBRARY FOLDER        the version is that of the workspace

The wheel is the same, byte by byte, for the same library.
"""

import base64
import hashlib
import re
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE = "jax_plugins/tilewright"
METADATA = """Metadata-Version: 2.1
Name: jax-tilewright
Version: {version}
Summary: JAX on Tilewright: a plugin for PJRT.
License: Apache-2.0 OR MIT
Requires-Python: >=3.11
Requires-Dist: jax>=0.10.2,<0.11
"""
WHEEL = """Wheel-Version: 1.0
Generator: tilewright
Root-Is-Purelib: false
Tag: py3-none-linux_x86_64
"""
ENTRY_POINTS = """[jax_plugins]
tilewright = jax_plugins.tilewright
"""


def contents(library: Path, version: str) -> dict[str, bytes]:
    """The files of the wheel by their names, without its record."""
    files = {f"{PACKAGE}/libtilewright_pjrt.so": library.read_bytes()}
    for source in sorted((HERE / "python" / PACKAGE).glob("*.py")):
        files[f"{PACKAGE}/{source.name}"] = source.read_bytes()
    folder = f"jax_tilewright-{version}.dist-info"
    texts = {"METADATA": METADATA.format(version=version), "WHEEL": WHEEL}
    texts["entry_points.txt"] = ENTRY_POINTS
    files |= {f"{folder}/{name}": text.encode() for name, text in texts.items()}
    return files


def pack(library: Path, folder: Path) -> Path:
    """Writes the wheel, whole or not at all; where it lies."""
    manifest = (HERE.parent.parent / "Cargo.toml").read_text()
    version = re.search(r'^version = "(.+)"', manifest, re.M)[1]
    files = contents(library, version)
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    name = f"jax_tilewright-{version}.dist-info/RECORD"
    files[name] = (record + f"{name},,\n").encode()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"jax_tilewright-{version}-py3-none-linux_x86_64.whl"
    partial = path.with_suffix(".partial")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data, compresslevel=9)
    partial.replace(path)
    return path


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    made = pack(Path(sys.argv[1]), Path(sys.argv[2]))
    print(f"{made}: {made.stat().st_size} bytes")
