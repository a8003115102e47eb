#!/usr/bin/env python3
"""The compile cache under processes that are killed, files that are damaged, and a full disk.

    python bench/cache.py [--tilewright BINARY] [--kills 200] MODEL.onnx...

Each model runs for several extents of `batch`, which models without one leave out.

- crowd: eight processes at a time run them with one cache, until so many have been killed at a
  moment by chance. Meanwhile files of the cache are damaged now and then: a bit, the length, a
  whole page. Every answer must be that of a run without a cache; an entry that nobody damaged must
  never be missing, or another file than it was unless it was written anew in full; and at the end
  each entry must be found as it lies there.
- full disk: the cache lies on a file system of so few kilobytes that entries do not fit, or one
  does and the next does not. Answers must be right, the reason must be told, no part of an entry
  may be left, and the entry that was there must still be found. Artifacts of all forms that do not
  fit must leave what was there. It takes the right to mount; without it, this part is left out,
  and said to be.
"""

import collections
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

import common

EXTENTS = range(1, 6)
FORMS = ["engine", "shared", "static", "object", "c"]


def command(options, case, *more):
    model, extent = case
    dim = ["--dim", f"batch={extent}"] if extent else []
    return [str(options.tilewright), "run", str(model), "--threads", "1", *dim, *map(str, more)]


def answer(options, case, *more):
    """What a run prints of its outputs, and what it says besides."""
    ran = subprocess.run(command(options, case, *more), capture_output=True, text=True)
    return ran.returncode, ran.stdout, ran.stderr


def entries(folder):
    """The entries of a cache: number of the file and its size, by name."""
    found = {}
    for path in folder.glob("*.tw"):
        try:
            about = path.stat()
            found[path.name] = (about.st_ino, about.st_size)
        except FileNotFoundError:
            pass
    return found


def damage(path, chance):
    """Changes a file where it lies; says how."""
    size = path.stat().st_size
    kind = chance.choice(["bit", "length", "page"])
    with open(path, "r+b") as file:
        if kind == "length":
            file.truncate(chance.randrange(size))
        else:
            count = 1 if kind == "bit" else min(4096, size)
            at = chance.randrange(size - count + 1)
            file.seek(at)
            changed = bytearray(file.read(count))
            changed[0] ^= 1 << chance.randrange(8)
            changed[1:] = bytes(len(changed) - 1)
            file.seek(at)
            file.write(changed)
    return kind


def crowd(options, cases, right, folder):
    """Runs the crowd; counts what happened."""
    chance, kept = random.Random(options.seed), folder / "crowd"
    count = collections.Counter({"wrong": 0, "lost": 0})
    running, seen, damaged = [], {}, set()
    damage_at = options.damage
    while count["killed"] < options.kills or running:
        # Whoever has mapped an entry relies on nobody changing it where it lies: files are damaged
        # when nobody runs.
        is_pause = count["started"] >= damage_at
        is_over = count["killed"] >= options.kills
        while len(running) < 8 and not is_over and not is_pause:
            case = chance.choice(cases)
            output = tempfile.TemporaryFile("w+", dir=folder)
            process = subprocess.Popen(
                command(options, case, "--cache", kept), stdout=output, stderr=subprocess.DEVNULL
            )
            moment = time.monotonic() + chance.expovariate(1 / options.moment)
            is_killed = chance.random() < 0.6
            running.append((process, case, output, moment if is_killed else None))
            count["started"] += 1
        if is_pause and not running:
            damage_at = count["started"] + options.damage
            for name in chance.sample(sorted(seen), min(2, len(seen))):
                damaged.add(name)
                count[f"damaged: {damage(kept / name, chance)}"] += 1
        time.sleep(0.001)
        now = time.monotonic()
        still = []
        for process, case, output, moment in running:
            if process.poll() is None and (moment is None or now <= moment):
                still.append((process, case, output, moment))
                continue
            if process.returncode is None:
                process.kill()
                process.wait()
                count["killed"] += 1
            else:
                output.seek(0)
                count["answers"] += 1
                count["wrong"] += process.returncode != 0 or output.read() != right[case]
            output.close()
        running = still
        there = entries(kept)
        count["lost"] += sum(name not in damaged and name not in there for name in seen)
        # What was damaged is good again once it is another file.
        damaged = {name for name in damaged if there.get(name, (0,))[0] == seen[name][0]}
        seen = there
    for case in cases:
        # The first makes anew what is damaged or was never kept; then all must be found.
        answer(options, case, "--cache", kept)
    before = entries(kept)
    count["entries"] = len(before)
    for case in cases:
        status, output, _ = answer(options, case, "--cache", kept)
        count["wrong"] += status != 0 or output != right[case]
    count["not found again"] = len(set(before.items()) ^ set(entries(kept).items()))
    return count


class SmallDisk:
    """A file system of so many bytes."""

    def __init__(self, folder, count):
        self.folder = folder
        folder.mkdir()
        size = f"size={count // 1024}k,nr_inodes=1000"
        mounted = ["mount", "-t", "tmpfs", "-o", size, "none", str(folder)]
        self.is_there = subprocess.run(mounted, capture_output=True).returncode == 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.is_there:
            subprocess.run(["umount", str(self.folder)], check=True)


def full_disk(options, cases, right, folder):
    """Runs with a cache on disks of all sizes up to that of two entries, and writes artifacts."""
    count = collections.Counter()
    case = cases[0]
    answer(options, case, "--cache", folder / "whole")
    (entry,) = entries(folder / "whole").values()
    for number, part in enumerate([0.02, 0.3, 0.6, 0.9, 0.99, 1.3, 1.7]):
        with SmallDisk(folder / f"disk{number}", int(entry[1] * part)) as disk:
            if not disk.is_there:
                return None
            kept = disk.folder / "cache"
            for case in cases[:3]:
                before = entries(kept)
                status, output, said = answer(options, case, "--cache", kept)
                after = entries(kept)
                count["answers"] += 1
                count["wrong"] += status != 0 or output != right[case]
                count["lost"] += len(set(before) - set(after))
                is_kept = bool(set(after) - set(before)) or before == after and "TW0301" not in said
                count["kept"] += is_kept
                count["told that it does not fit"] += "TW0301" in said
                count["neither kept nor told"] += not is_kept and "TW0301" not in said
            count["parts left"] += sum(1 for path in kept.glob(".*") if path.is_file())
            status, output, _ = answer(options, cases[0], "--cache", kept)
            count["wrong"] += status != 0 or output != right[cases[0]]
    model, extent = cases[0]
    dim = ["--dim", f"batch={extent}"] if extent else []
    for form in FORMS:
        whole = folder / "artifact"
        made = [options.tilewright, "compile", model, "--emit", form, *dim, "-o"]
        subprocess.run(list(map(str, [*made, whole])), check=True, capture_output=True)
        files = [whole] if whole.is_file() else sorted(whole.iterdir())
        size = sum(path.stat().st_size for path in files)
        for number, part in enumerate([0.05, 0.4, 0.8, 0.97]):
            with SmallDisk(folder / f"{form}{number}", max(int(size * part), 8192)) as disk:
                place = disk.folder / ("model.tw" if form == "engine" else "model")
                if form == "engine":
                    place.write_text("old")
                else:
                    place.mkdir()
                    (place / "weights.bin").write_text("old")
                ran = subprocess.run(
                    list(map(str, [*made, place])), capture_output=True, text=True
                )
                there = [path for path in disk.folder.rglob("*") if path.is_file()]
                is_whole = len(there) == 1 and there[0].read_text() == "old"
                count["artifacts"] += 1
                count["artifacts refused with a reason"] += (
                    ran.returncode != 0 and "TW0301" in ran.stderr
                )
                count["artifacts half-written"] += not is_whole
        (shutil.rmtree if whole.is_dir() else os.remove)(whole)
    return count


def main():
    options = common.parser(__doc__)
    options.add_argument("--kills", type=int, default=200)
    options.add_argument("--moment", type=float, default=0.3, help="seconds before one is killed")
    options.add_argument("--damage", type=int, default=40, help="starts between two damages")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--folder", help="where files are made (default: the system's)")
    options = options.parse_args()
    origin = common.origin()
    cases, right = [], {}
    for model in options.models:
        for extent in EXTENTS:
            status, output, _ = answer(options, (model, extent), "--no-cache")
            if status != 0:
                extent = None
                status, output, said = answer(options, (model, extent), "--no-cache")
                if status != 0:
                    sys.exit(said)
            cases.append((model, extent))
            right[model, extent] = output
            if extent is None:
                break
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        folder = pathlib.Path(folder)
        found = {"crowd": crowd(options, cases, right, folder)}
        full = full_disk(options, cases, right, folder)
        if full is None:
            print("a full disk: SKIPPED: a file system cannot be mounted here", file=sys.stderr)
        else:
            found["full disk"] = full
    rows = [[part, what, count] for part, counts in found.items() for what, count in counts.items()]
    result = {"origin": origin, **{part: dict(counts) for part, counts in found.items()}}
    text = common.table(["part", "what", "count"], rows)
    common.keep(options.name or "cache", "The compile cache under attack", result, text)
    bad = ["wrong", "lost", "not found again", "parts left", "artifacts half-written"]
    sys.exit(3 if any(counts[what] for counts in found.values() for what in bad) else 0)


if __name__ == "__main__":
    main()
