"""What quantised models lose on real inputs, here and in ONNX Runtime.

Usage: quantised.py TILEWRIGHT CASES MODEL... -- options of `tilewright quantise`

CASES holds a folder a model: `model.onnx` and `test_data_set_<i>/input_<j>.pb`. Calibration takes 32
variations of the recorded inputs (shifted, noisy, scaled), the figures 200 others. A row a model: the
least cosine over the outputs, the share of inputs with the same largest element in each row, both of
the quantised file in ONNX Runtime against the float one there; and the least cosine between what
the quantised file gives here and there, over 10 inputs. Exits with 1 if a row misses 0.99.
"""
import os, subprocess, sys, tempfile
import numpy as np, onnx, onnxruntime
from onnx import numpy_helper

CALIBRATION, TESTS, HERE = 32, 200, 10


def recorded(folder):
    """The recorded inputs, each a list of arrays."""
    sets = sorted(it for it in os.listdir(folder) if it.startswith("test_data_set_"))
    for name in sets:
        arrays, number = [], 0
        while os.path.exists(path := f"{folder}/{name}/input_{number}.pb"):
            with open(path, "rb") as file:
                arrays.append(numpy_helper.to_array(onnx.TensorProto.FromString(file.read())))
            number += 1
        yield arrays


def variation(arrays, seed):
    """Arrays shifted along their last axis, scaled, and with noise."""
    random, made = np.random.default_rng(seed), []
    for array in arrays:
        if array.dtype != np.float32:
            made.append(array)
            continue
        width = array.shape[-1] if array.ndim else 1
        most = max(1, width // 14)
        moved = np.roll(array, random.integers(-most, most + 1), axis=-1) if array.ndim else array
        noise = random.standard_normal(array.shape) * 0.02 * (array.std() + 1e-6)
        made.append((moved * random.uniform(0.85, 1.1) + noise).astype(np.float32))
    return made


def cosine(a, b):
    a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    length = np.linalg.norm(a) * np.linalg.norm(b)
    return 1.0 if length == 0 and np.array_equal(a, b) else float(a @ b / max(length, 1e-30))


def measure(tilewright, folder, options, work):
    model, made = f"{folder}/model.onnx", f"{work}/quantised.onnx"
    float_session = onnxruntime.InferenceSession(model)
    names = [it.name for it in float_session.get_inputs()]
    cases = list(recorded(folder))
    inputs = lambda seed: dict(zip(names, variation(cases[seed % len(cases)], seed)))
    os.makedirs(f"{work}/samples", exist_ok=True)
    for seed in range(CALIBRATION):
        np.savez(f"{work}/samples/{seed:03}.npz", **inputs(seed))
    command = [tilewright, "quantise", model, "--calibrate", f"{work}/samples", "-o", made]
    done = subprocess.run(command + options, capture_output=True, text=True)
    if done.returncode:
        return done.stderr.strip().splitlines()[:2]
    session = onnxruntime.InferenceSession(made)
    least, same, rows, here = 1.0, 0, 0, 1.0
    for seed in range(10_000, 10_000 + TESTS):
        given = inputs(seed)
        right, found = float_session.run(None, given), session.run(None, given)
        least = min([least] + [cosine(a, b) for a, b in zip(right, found)])
        a, b = right[0].argmax(-1), found[0].argmax(-1)
        same, rows = same + int((a == b).sum()), rows + a.size
        if seed < 10_000 + HERE:
            np.savez(f"{work}/input.npz", **given)
            run = [tilewright, "run", made, "--input", f"{work}/input.npz"]
            subprocess.run(run + ["--output", f"{work}/output.npz"], check=True, capture_output=True)
            ours = np.load(f"{work}/output.npz")
            pairs = zip(session.get_outputs(), found)
            here = min([here] + [cosine(ours[it.name], b) for it, b in pairs])
    return least, same / rows, here, os.path.getsize(made) / os.path.getsize(model)


def main():
    place = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    tilewright, cases, *models = sys.argv[1:place]
    missed = 0
    print("| model | least cosine | same largest | ours to ONNX Runtime | size |\n|---|---|---|---|---|")
    for model in models:
        with tempfile.TemporaryDirectory() as work:
            row = measure(tilewright, f"{cases}/{model}", sys.argv[place + 1 :], work)
        if isinstance(row, list):
            print(f"| {model} | refused: {' '.join(row)} |", flush=True)
            missed += 1
            continue
        least, same, here, size = row
        missed += least < 0.99 or same < 0.99
        print(f"| {model} | {least:.5f} | {same:.4f} | {here:.6f} | {size:.2f} |", flush=True)
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
