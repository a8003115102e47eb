#!/usr/bin/env python3
"""Packages whose wheels carry ONNX models, with their own engine and with this one in its place.

    pip install dist/tilewright-*.whl onnxruntime numpy pillow
    pip install rapidocr-onnxruntime silero-vad magika nudenet ddddocr swift-f0
    pip install --no-deps basic-pitch
    pip install librosa mir_eval pretty_midi resampy scikit-learn
    python bench/packages.py [NAME...]

Each package does what its own documentation begins with, on pictures, sounds and files that are made
here from a fixed seed. It runs in a process of its own, once with `onnxruntime` and once behind
`tilewright.replace_onnxruntime()`; nothing of the package is changed, but that sessions have one thread.
The processes alternate, on one core; the least time of the processor of each counts, since machines
are shared. Results must be of the same structure, texts and integers equal,
numbers within 1e-3 of the largest of their list. `ms` is a call of the package, with all that it does
in Python before and after; `of it in the engine` is what is spent in `InferenceSession.run`.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time

import common

TOLERANCE = 1e-3
RATE = 16000


def drawn(text, width, height, size):
    """A picture of a text, as an array of bytes."""
    import numpy as np
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(size)
    for number, line in enumerate(text.split("\n")):
        draw.text((size // 2, size // 2 + number * size * 3 // 2), line, "black", font)
    return np.asarray(image)


def voice(seconds):
    """Something like vowels with pauses: harmonics of a tone that glides, through two resonances."""
    import numpy as np

    at = np.arange(int(seconds * RATE)) / RATE
    pitch = 140 + 40 * np.sin(2 * np.pi * 0.7 * at)
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    tone = 0
    for harmonic in range(1, 25):
        near = [np.exp(-(((harmonic * pitch - formant) / 120) ** 2)) for formant in (600, 1300)]
        tone = tone + (0.05 + near[0] + near[1]) * np.sin(harmonic * phase)
    spoken = np.clip(np.sin(2 * np.pi * 0.4 * at) * 4, 0, 1)
    noise = np.random.default_rng(0).standard_normal(len(at)) * 0.003
    return (0.1 * tone * spoken + noise).astype(np.float32)


# Each makes what is called again and again, and gives its result.


def rapidocr():
    from rapidocr_onnxruntime import RapidOCR

    engine = RapidOCR()
    picture = drawn("Compilers turn models\ninto machine code\nin 2026.", 640, 240, 40)

    def call():
        found, _ = engine(picture)
        return [[box, text, float(score)] for box, text, score in found or []]

    return call


def silero():
    import torch
    from silero_vad import get_speech_timestamps, load_silero_vad

    torch.set_num_threads(1)
    model = load_silero_vad(onnx=True)
    sound = torch.from_numpy(voice(6))

    def call():
        spoken = get_speech_timestamps(sound, model, sampling_rate=RATE)
        model.reset_states()
        pieces = sound[: len(sound) // 512 * 512].view(-1, 512)
        return [spoken, [model(piece, RATE).item() for piece in pieces]]

    return call


def magika():
    from magika import Magika

    engine = Magika()
    here = open(__file__, "rb").read()
    files = [
        here, b"{\"a\": [1, 2, {\"b\": null}]}\n" * 40, b"<html><body><p>text</p></body></html>" * 20,
        b"fn main() {\n    println!(\"{}\", 1);\n}\n" * 20, bytes(range(256)) * 40,
        b"a,b,c\n1,2,3\n4,5,6\n" * 50,
    ]  # fmt: skip

    def call():
        found = [engine.identify_bytes(content) for content in files]
        return [[str(it.output.label), float(it.score)] for it in found]

    return call


def nudenet():
    import numpy as np
    from nudenet import NudeDetector

    detector = NudeDetector()
    draws = np.random.default_rng(1)
    y, x = np.mgrid[:480, :640]
    picture = np.full((480, 640, 3), (180, 200, 210), np.uint8)
    # A round head on an oval body, in the colours of skin.
    for middle, radii in [((110, 320), (70, 55)), ((320, 320), (170, 110))]:
        inside = ((y - middle[0]) / radii[0]) ** 2 + ((x - middle[1]) / radii[1]) ** 2 < 1
        picture[inside] = (120, 160, 220)
    picture = np.clip(picture + draws.normal(0, 6, picture.shape), 0, 255).astype(np.uint8)

    def call():
        # What is found of a drawing is little, so the model's scores are compared, too.
        session = detector.onnx_session
        raw = session.run(None, {detector.input_name: blob})[0]
        boxes, scores = raw[0, :4, ::50], raw[0, 4:, ::50]
        return [detector.detect(picture), boxes.ravel().tolist(), scores.ravel().tolist()]

    blob = (picture[:320, :320].astype(np.float32) / 255).transpose(2, 0, 1)[None].copy()
    return call


def ddddocr():
    import io

    import ddddocr as package
    from PIL import Image

    reader = package.DdddOcr(show_ad=False)
    detector = package.DdddOcr(det=True, ocr=False, show_ad=False)
    files = []
    for text in ("7K3x", "a8Fq", "2026"):
        file = io.BytesIO()
        Image.fromarray(drawn(text, 120, 50, 32)).save(file, "PNG")
        files.append(file.getvalue())

    def call():
        return [[reader.classification(it) for it in files], detector.detection(files[0])]

    return call


def swift_f0():
    import swift_f0 as package

    detector = package.SwiftF0()
    sound = voice(5)

    def call():
        found = detector.detect(sound, RATE)
        return [found.pitch_hz.tolist(), found.confidence.tolist()]

    return call


def basic_pitch():
    import wave

    import numpy as np
    from basic_pitch import ICASSP_2022_MODEL_PATH, FilenameSuffix, build_icassp_2022_model_path
    from basic_pitch.inference import Model, predict

    del ICASSP_2022_MODEL_PATH
    model = Model(build_icassp_2022_model_path(FilenameSuffix.onnx))
    at = np.arange(22050 * 4) / 22050
    chord = sum(np.sin(2 * np.pi * pitch * at) for pitch in (261.6, 329.6, 392.0)) * 0.2
    chord *= np.exp(-(at % 1))
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "chord.wav")
    with wave.open(path, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(22050)
        file.writeframes((chord * 32767).astype("<i2").tobytes())

    def call():
        output, _, notes = predict(path, model)
        notes = sorted([float(it[0]), float(it[1]), int(it[2])] for it in notes)
        return [notes, output["note"][::9].tolist()]

    return call


PACKAGES = {
    "rapidocr-onnxruntime": rapidocr,
    "silero-vad": silero,
    "magika": magika,
    "nudenet": nudenet,
    "ddddocr": ddddocr,
    "swift-f0": swift_f0,
    "basic-pitch": basic_pitch,
}


def child(name, engine, seconds):
    """Runs a package, and prints its result and least times as JSON."""
    if engine == "tilewright":
        import tilewright

        tilewright.replace_onnxruntime()
    import onnxruntime

    spent = [0.0]

    class Session(onnxruntime.InferenceSession):
        """With one thread, and a clock."""

        def __init__(self, model, sess_options=None, **named):
            sess_options = sess_options or onnxruntime.SessionOptions()
            sess_options.intra_op_num_threads = sess_options.inter_op_num_threads = 1
            super().__init__(model, sess_options, **named)

        def run(self, *arguments, **named):
            started = time.process_time()
            try:
                return super().run(*arguments, **named)
            finally:
                spent[0] += time.process_time() - started

    onnxruntime.InferenceSession = Session
    started = time.process_time()
    call = PACKAGES[name]()
    ready = time.process_time() - started
    started = time.process_time()
    result = call()
    first = time.process_time() - started
    least, inside, end = math.inf, math.inf, time.perf_counter() + seconds
    while time.perf_counter() < end:
        spent[0], started = 0.0, time.process_time()
        call()
        least = min(least, time.process_time() - started)
        inside = min(inside, spent[0])
    found = {"result": result, "ms": least * 1e3, "inside": inside * 1e3,
             "ready": ready, "first": first}  # fmt: skip
    print("FOUND " + json.dumps(found, default=float))


def difference(one, two):
    """The largest difference of numbers, over the largest of their list; infinite where the rest
    differs."""
    if isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        if one and all(isinstance(it, float) for it in one + two):
            largest = max(map(abs, two)) or 1.0
            return max(abs(a - b) for a, b in zip(one, two)) / largest
        return max((difference(a, b) for a, b in zip(one, two)), default=0.0)
    if isinstance(one, dict) and isinstance(two, dict) and one.keys() == two.keys():
        return max((difference(one[key], two[key]) for key in one), default=0.0)
    if isinstance(one, float) and isinstance(two, float):
        return abs(one - two) / (abs(two) or 1.0)
    return 0.0 if one == two else math.inf


def measured(name, engine, given):
    command = [sys.executable, __file__, "--child", engine, "--seconds", str(given.seconds), name]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    if not lines:
        said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise common.Failed(f"{engine}: {said}")
    return json.loads(lines[-1][6:])


def race(name, given):
    """A row of figures of a package."""
    runs = {"tilewright": [], "onnxruntime": []}
    for _ in range(given.rounds):
        for engine, found in runs.items():
            found.append(measured(name, engine, given))
    ours, theirs = runs["tilewright"], runs["onnxruntime"]
    least = lambda found, key: min(it[key] for it in found)  # noqa: E731
    row = {"difference": max(difference(it["result"], theirs[0]["result"]) for it in ours)}
    for key in ("ms", "inside", "ready", "first"):
        row[key], row[f"their_{key}"] = least(ours, key), least(theirs, key)
    row["speed"] = row["their_ms"] / row["ms"]
    row["engine_speed"] = row["their_inside"] / row["inside"]
    return row


def main():
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("names", nargs="*", help="packages")
    options.add_argument("--rounds", type=int, default=3, help="processes an engine")
    options.add_argument("--seconds", type=float, default=3.0, help="of calls in each process")
    options.add_argument("--core", type=int, default=0, help="which all run on")
    options.add_argument("--name", default="packages", help="of the files in bench/results/")
    options.add_argument("--child", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.child:
        return child(given.names[0], given.child, given.seconds)
    unknown = [name for name in given.names if name not in PACKAGES]
    if unknown:
        options.error(f"no package is called {', '.join(unknown)}: {', '.join(PACKAGES)}")
    os.sched_setaffinity(0, {given.core})
    origin, result = common.origin(), {}
    for name in given.names or PACKAGES:
        try:
            result[name] = race(name, given)
        except common.Failed as failed:
            result[name] = {"failed": str(failed)}
        print(name, result[name], flush=True)
    header = ["package", "difference", "ms", "ONNX Runtime's", "of it in the engine",
              "ONNX Runtime's", "speed", "of the engine"]  # fmt: skip
    keys = ["difference", "ms", "their_ms", "inside", "their_inside", "speed", "engine_speed"]
    rows = [
        [name, *(row.get(key, "failed") for key in keys)] for name, row in result.items()
    ]
    good = [row for row in result.values() if row.get("difference", math.inf) <= TOLERANCE]
    text = common.table(header, rows) + f"\n\n{len(good)} of {len(result)} give the same results. "
    text += f"Speed over ONNX Runtime's, geometric mean: {common.mean([it['speed'] for it in good]):.2f} "
    text += f"a call, {common.mean([it['engine_speed'] for it in good]):.2f} in the engine.\n"
    for name, row in result.items():
        if "failed" in row:
            text += f"\n{name}: {row['failed']}\n"
    common.keep(given.name, "Packages with models of their own, one core",
                {"origin": origin, "packages": result}, text)  # fmt: skip


if __name__ == "__main__":
    main()
