#!/usr/bin/env python3
"""What `tilewright quantise` loses, model by model, judged in ONNX Runtime.

    DIR/venv/bin/python bench/quantiser_quality.py CASES [ROW]...    DIR as made by race.py --setup

CASES holds a folder a model: `model.onnx` and `test_data_set_<i>/input_<j>.pb`; those of `ROWS`
that it has are measured, and what lies in `models/`; rows can be named. `minilm` there is
all-MiniLM-L6-v2 as ONNX, of which `models/sentences` has the tokenizer.

Calibration takes variations of the recorded inputs (shifted, noisy, scaled), the figures 200 others;
of digits and sentences some of them, and others. A row is good if the share of rows with the same
largest element (or of boxes of faces that both find) is at least 0.99, and so is the cosine of the
worst input's worst output; of MiniLM the cosine of the worst sentence. Every file is run by
Tilewright as well, on some of the inputs: "ours" is the least cosine between both answers, which
must be as near to each other as both to those of floats. Fails (status 3) if a row misses its bar.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

import common
from common import Failed, REPOSITORY

CALIBRATION, TESTS, HERE = 32, 200, 6
SAMPLES, TOKENS, BATCH = 16, 48, 8
MODELS = REPOSITORY / "models"
BAR = 0.99
INT4 = "--weights int4 --max-loss cosine=0.0048"

# name, folder of cases, options of `quantise`, bars: least cosine, same, size.
STATIC = {"cosine": BAR, "same": BAR}
ROWS = [
    ("keywords", "mlperf_kws_ref_model_float32", "", STATIC),
    ("wake words", "mlperf_vww_96_float", "--max-loss cosine=0.003", STATIC),
    ("wake words, all layers", "mlperf_vww_96_float", "", {}),
    ("anomalies", "mlperf_ad01_fp32", "", {"cosine": BAR}),
    ("mnist rten", "mnist_rten", "", STATIC),
    ("mnist burn", "mnist_burn", "", STATIC),
    ("mnist cntk", "mnist_cntk", "", STATIC),
    ("faces", "ultraface_version-slim-320", "", STATIC),
    ("digits", "digits", "", STATIC),
    ("minilm static", "minilm", "--no-correct-bias", {"cosine": BAR}),
    ("minilm dynamic", "minilm", "--dynamic", {"cosine": BAR}),
    ("minilm dynamic, no samples", "minilm", "--dynamic", {}),
    ("minilm int8 weights", "minilm", "--weights int8", {"cosine": BAR}),
    ("minilm int4 weights", "minilm", INT4, {"cosine": 0.98, "size": 0.2}),
    ("minilm int4, all layers", "minilm", "--weights int4 --block 16", {}),
    ("minilm int4, to nearest", "minilm", "--weights int4 --block 16 --no-compensate", {}),
]


def main():
    options = common.parser(__doc__)
    given = options.parse_args()
    if not given.models:
        options.error("name the folder of cases")
    cases, *named = [str(word) for word in given.models]
    result = {"origin": common.origin(), "calibration": CALIBRATION, "tests": TESTS, "rows": []}
    for name, folder, options, bars in ROWS:
        path = pathlib.Path(cases) / folder
        if (named and name not in named) or not (folder == "digits" or path.exists()):
            continue
        begin = time.process_time()
        row = {"row": name, "options": options, "bars": bars}
        try:
            with tempfile.TemporaryDirectory() as work:
                has_samples = "no samples" not in name
                row |= measure(folder, path, (options.split(), has_samples), pathlib.Path(work), given)
        except Failed as error:
            row["error"] = str(error)
        row["good"] = is_good(row)
        result["rows"].append(row)
        took = time.process_time() - begin
        print(f"{name}: {'good' if row['good'] else 'BAD'} {row}, {took:.0f} s", file=sys.stderr)
    common.keep(given.name or "quantiser-quality", "What quantising loses", result, report(result))
    sys.exit(0 if all(row["good"] for row in result["rows"]) else 3)


def is_good(row):
    if "error" in row or row["ours"] < BAR:
        return False
    bars = row["bars"]
    least = all(row[key] >= bars[key] for key in ("cosine", "same") if key in bars)
    return least and row["size"] <= bars.get("size", 2.0)


def report(result):
    header = ["row", "options", "least cosine", "same", "size", "ours", "good"]
    rows = []
    for row in result["rows"]:
        start = [row["row"], f"`{row['options']}`" if row["options"] else ""]
        if "error" in row:
            rows.append(start + [row["error"], "", "", "", "no"])
            continue
        same = f"{row['same']:.4f}" if "same" in row else ""
        figures = [f"{row['cosine']:.5f}", same, f"{row['size']:.3f}", f"{row['ours']:.7f}"]
        bars = ", ".join(f"{key} {'≤' if key == 'size' else '≥'} {bar}" for key, bar in row["bars"].items())
        rows.append(start + figures + [f"{'yes' if row['good'] else 'no'} ({bars})" if bars else "no bar"])
    return common.table(header, rows)


# Inputs


def recorded(folder):
    """The recorded inputs, each a list of arrays."""
    import onnx
    from onnx import numpy_helper

    for path in sorted(folder.glob("test_data_set_*")):
        arrays = []
        while (file := path / f"input_{len(arrays)}.pb").exists():
            arrays.append(numpy_helper.to_array(onnx.TensorProto.FromString(file.read_bytes())))
        yield arrays


def variation(arrays, seed):
    """Arrays shifted along their last axis, scaled, and with noise."""
    import numpy as np

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


def sentences():
    """Sentences of the book and of the examples, in an order of their own."""
    import re

    import numpy as np

    texts = []
    for page in sorted([*(REPOSITORY / "docs").glob("*.md"), *REPOSITORY.glob("*.md")]):
        prose = re.sub(r"(?s:```.*?```)|`|(?m:^[-|#][^\n]*$)", "", page.read_text())
        for paragraph in prose.split("\n\n"):
            texts += re.split(r"(?<=[.!?:;]) ", " ".join(paragraph.split()))
    lines = (MODELS / "topics" / "sentences.tsv").read_text().splitlines()[1:]
    texts += [line.split("\t")[1] for line in lines]
    texts = sorted({text for text in texts if 20 < len(text) < 160})
    np.random.default_rng(20).shuffle(texts)
    return texts


def encoded(texts, tokens):
    """Identifiers and masks: at most so many tokens, of several texts as many of each."""
    import numpy as np
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(MODELS / "sentences" / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(tokens)
    rows = [row.ids for row in tokenizer.encode_batch(texts)]
    ids = np.array([row for row in rows if len(row) == len(rows[0])], np.int64)
    return [ids, np.ones_like(ids)]


def inputs_of(folder, path):
    """The model, samples to calibrate with, and others to judge by."""
    import numpy as np

    if folder == "digits":
        images = np.load(MODELS / "digits" / "test_images.npy")
        calibration = [[images[at : at + 1]] for at in range(0, 3 * CALIBRATION, 3)]
        rest = [at for at in range(len(images)) if at >= 3 * CALIBRATION or at % 3]
        return MODELS / "digits" / "digits.onnx", calibration, [[images[at : at + 1]] for at in rest]
    if folder == "minilm":
        texts = sentences()
        tests, texts = texts[:TESTS], texts[TESTS:]
        # Paragraphs that are longer than what is read of them: nothing is filled up.
        text = lambda at: " ".join(texts[(at * 3 + k) % len(texts)] for k in range(8))
        batch = lambda number: [text(number * BATCH + k) for k in range(BATCH)]
        calibration = [encoded(batch(number), TOKENS) for number in range(SAMPLES)]
        return path / "model.onnx", calibration, [encoded([text], 512) for text in tests]
    cases = list(recorded(path))
    of = lambda seed: variation(cases[seed % len(cases)], seed)
    tests = [of(seed) for seed in range(10_000, 10_000 + TESTS)]
    return path / "model.onnx", [of(seed) for seed in range(CALIBRATION)], tests


# Judging


def cosine(a, b):
    import numpy as np

    a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    length = np.linalg.norm(a) * np.linalg.norm(b)
    return 1.0 if np.array_equal(a, b) else float(a @ b / max(length, 1e-30))


def faces(outputs):
    """Boxes with a score of at least 0.7, best first, none that overlaps a better one by half."""
    scores, boxes = sorted(outputs, key=lambda it: it.shape[-1])
    scores, boxes = scores[0, :, 1], boxes[0]
    kept = []
    for at in scores.argsort()[::-1]:
        if scores[at] < 0.7:
            break
        if all(overlap(boxes[at], boxes[other]) < 0.5 for other in kept):
            kept.append(at)
    return [boxes[at] for at in kept]


def overlap(a, b):
    """The area of two boxes' intersection over that of their union."""
    sides = [max(0.0, min(a[2 + k], b[2 + k]) - max(a[k], b[k])) for k in (0, 1)]
    area = lambda box: (box[2] - box[0]) * (box[3] - box[1])
    both = sides[0] * sides[1]
    return both / max(area(a) + area(b) - both, 1e-12)


def same(folder, right, found):
    """How many rows have the same largest element, of how many; or boxes that both find."""
    if folder.startswith("ultraface"):
        a, b = faces(right), faces(found)
        near = sum(any(overlap(box, other) >= 0.5 for other in b) for box in a)
        near += sum(any(overlap(box, other) >= 0.5 for other in a) for box in b)
        return near, len(a) + len(b)
    a, b = right[0].argmax(-1), found[0].argmax(-1)
    return int((a == b).sum()), a.size


def measure(folder, path, how, work, given):
    import numpy as np
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)
    model, calibration, tests = inputs_of(folder, path)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    # Without this, products with weights of 4 bits round their operands to bytes there.
    settings.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    session = lambda path: onnxruntime.InferenceSession(path, settings)
    float_session = session(model)
    names = [it.name for it in float_session.get_inputs()]
    (work / "samples").mkdir()
    for number, arrays in enumerate(calibration):
        np.savez(work / "samples" / f"{number:03}.npz", **dict(zip(names, arrays)))
    made = work / "quantised.onnx"
    options, has_samples = how
    command = [given.tilewright, "quantise", model, "-o", made, *options]
    if has_samples:
        command += ["--calibrate", work / "samples"]
    common.run_pinned(command, 1, timeout=3000)
    quantised = session(made)
    least, hits, rows, ours = 1.0, 0, 0, 1.0
    for number, arrays in enumerate(tests):
        feed = dict(zip(names, arrays))
        right, found = float_session.run(None, feed), quantised.run(None, feed)
        least = min([least] + [cosine(a, b) for a, b in zip(right, found)])
        if folder != "minilm" and folder != "mlperf_ad01_fp32":
            hit, count = same(folder, right, found)
            hits, rows = hits + hit, rows + count
        if number < HERE:
            ours = min(ours, run_ours(given, made, feed, quantised, found, work))
    row = {"cosine": least, "ours": ours, "size": os.path.getsize(made) / os.path.getsize(model)}
    if rows:
        row["same"] = hits / rows
    return row


def run_ours(given, made, feed, session, found, work):
    """The least cosine between what Tilewright and ONNX Runtime give."""
    import numpy as np

    np.savez(work / "input.npz", **feed)
    command = [given.tilewright, "run", made, "--input", work / "input.npz"]
    common.run_pinned(command + ["--output", work / "output.npz"], 1)
    ours = np.load(work / "output.npz")
    names = [it.name for it in session.get_outputs()]
    return min(cosine(ours[name], value) for name, value in zip(names, found))


if __name__ == "__main__":
    main()
