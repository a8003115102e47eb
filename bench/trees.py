#!/usr/bin/env python3
"""Races ensembles of decision trees against ONNX Runtime, treelite and what trained them.

    pip install -r conformance/learned_models.txt treelite tl2cgen
    python bench/trees.py [NAME...]        names of models by a part; all without

`--others` races nearest neighbours, support vectors and naive Bayes in their place, which treelite
does not know. Each model is trained from a fixed seed on rows of 20 features and converted as in
conformance/learned_models.py. All contenders predict the same rows with one thread, each in a
process of its own, in turn; ours and ONNX Runtime's have their inputs bound. treelite is its
interpreter, and, where `--compiled` is given, also the library that tl2cgen makes of C sources.
What the library itself calls a prediction are probabilities of a classifier, numbers of a
regressor. Of calls under 1 ms those of Python are part, but for ONNX Runtime, as in race.py.
Printed are medians over rounds; the ratio is that of the fastest peer to ours within a round.
`--least` takes the shortest call of a process in place of its median, for a machine that others
use, too.
"""

import json
import pathlib
import pickle
import statistics
import sys
import time

import common
import race
from common import Failed

BATCHES = (1, 100, 10_000)
FEATURES, TRAINED = 20, 4000
OPSET = {"": 18, "ai.onnx.ml": 3}
PEERS = ("onnxruntime", "library", "treelite")


def models(trees):
    """Name to a maker of an untrained model of so many trees."""
    from lightgbm import LGBMClassifier, LGBMRegressor
    from sklearn import ensemble
    from xgboost import XGBClassifier, XGBRegressor

    forest = {"n_estimators": trees, "max_depth": 8, "random_state": 0, "n_jobs": 1}
    boost = {"n_estimators": trees, "random_state": 0}
    light = {"n_estimators": trees, "verbose": -1, "n_jobs": 1, "random_state": 0}
    extreme = {"n_estimators": trees, "n_jobs": 1, "random_state": 0}
    return {
        "forest-classifier": lambda: ensemble.RandomForestClassifier(**forest),
        "forest-regressor": lambda: ensemble.RandomForestRegressor(**forest),
        "boosting-classifier": lambda: ensemble.GradientBoostingClassifier(**boost),
        "boosting-regressor": lambda: ensemble.GradientBoostingRegressor(**boost),
        "lightgbm-classifier": lambda: LGBMClassifier(**light),
        "lightgbm-regressor": lambda: LGBMRegressor(**light),
        "xgboost-classifier": lambda: XGBClassifier(**extreme),
        "xgboost-regressor": lambda: XGBRegressor(**extreme),
        "xgboost-depth-8": lambda: XGBRegressor(max_depth=8, **extreme),
    }


def others():
    """Name to a maker of an untrained model that is no ensemble of trees."""
    from sklearn import naive_bayes, neighbors, svm

    return {
        "neighbours-classifier": neighbors.KNeighborsClassifier,
        "neighbours-regressor": neighbors.KNeighborsRegressor,
        "svm-classifier": svm.SVC,
        "svm-regressor": svm.SVR,
        "linear-svm-regressor": svm.LinearSVR,
        "gaussian-bayes-classifier": naive_bayes.GaussianNB,
        "bernoulli-bayes-classifier": naive_bayes.BernoulliNB,
    }


def rows(count, seed):
    import numpy as np

    return np.random.default_rng(seed).standard_normal((count, FEATURES)).astype(np.float32)


def trained(make, is_classifier):
    """The model, fit to what follows from the features with noise."""
    import numpy as np

    x = rows(TRAINED, 1)
    noise = np.random.default_rng(2).standard_normal(TRAINED) / 2
    y = x[:, 0] + x[:, 1] * x[:, 2] + np.sin(2 * x[:, 3]) + x[:, 4:].sum(1) / 4 + noise
    return make().fit(x, (y > 0).astype(int) if is_classifier else y)


def converted(model, is_classifier):
    from onnxmltools import convert_lightgbm, convert_xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType as ToolsFloats
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import FloatTensorType

    family, shape = type(model).__module__.split(".")[0], [None, FEATURES]
    if family == "lightgbm":
        types = [("x", ToolsFloats(shape))]
        return convert_lightgbm(model, initial_types=types, zipmap=False)
    if family == "xgboost":
        return convert_xgboost(model, initial_types=[("x", ToolsFloats(shape))])
    given = {"options": {id(model): {"zipmap": False}}} if is_classifier else {}
    types = [("x", FloatTensorType(shape))]
    return convert_sklearn(model, initial_types=types, target_opset=OPSET, **given)


def prepare(folder, name, make):
    """Files of a model in `folder`, which are kept."""
    import numpy as np
    import onnx

    stem = folder / name
    for batch in BATCHES:
        path = folder / f"rows-{batch}.npy"
        if not path.exists():
            np.save(path, rows(batch, 3))
    if not stem.with_suffix(".onnx").exists():
        start = time.perf_counter()
        is_classifier = "classifier" in name
        model = trained(make, is_classifier)
        stem.with_suffix(".pickle").write_bytes(pickle.dumps(model))
        proto = converted(model, is_classifier)
        for output in proto.graph.output:
            # Not all converters declare what comes out.
            output.type.tensor_type.ClearField("shape")
        onnx.save(proto, stem.with_suffix(".onnx"))
        print(f"{stem.name}: made in {time.perf_counter() - start:.1f} s", file=sys.stderr)
    return stem.with_suffix(".onnx")


# One run of a contender


def once(who, model, batch, given):
    """The figures of one process."""
    data = model.parent / f"rows-{batch}.npy"
    if who == "tilewright":
        command = [given.tilewright.resolve(), "bench", model, "--json", "--threads", 1]
        command += ["--seconds", given.seconds, "--input", data]
    else:
        command = [sys.executable, __file__, "--seconds", given.seconds]
        command += ["--worker", who, model, data]
    figures = json.loads(common.run_pinned(command, 1, timeout=900))
    time_ms = figures["min_ms" if given.least else "median_ms"]
    return {"ms": time_ms, "compile_ms": figures["compile_ms"]}


def worker(who, model, data, seconds):
    import numpy as np

    x = np.load(data)
    start = time.perf_counter()
    if who == "onnxruntime":
        call = race.OnnxRuntime(str(model), {"x": x}, 1, "f32")
    else:
        call = PEER[who](model, x)
    compiled = time.perf_counter()
    call()
    figures = of_times(race.measure(call, seconds))
    if who == "onnxruntime" and figures["median_ms"] < 1:
        empty = of_times(race.measure(race.identity(who, 1, "f32"), 0.2))
        figures = {name: figures[name] - empty[name] for name in figures}
    print(json.dumps({"compile_ms": (compiled - start) * 1e3} | figures))


def of_times(times):
    return {"median_ms": statistics.median(times), "min_ms": min(times)}


def library(model, x):
    """A call of what the model was trained with, past what only checks its input."""
    fitted = pickle.loads(model.with_suffix(".pickle").read_bytes())
    family = type(fitted).__module__.split(".")[0]
    if family == "lightgbm":
        booster = fitted.booster_
        return lambda: booster.predict(x, num_threads=1)
    if family == "xgboost":
        booster = fitted.get_booster()
        booster.set_param({"nthread": 1})
        return lambda: booster.inplace_predict(x)
    return lambda: (getattr(fitted, "predict_proba", None) or fitted.predict)(x)


def ensemble_of(model):
    import treelite

    fitted = pickle.loads(model.with_suffix(".pickle").read_bytes())
    family = type(fitted).__module__.split(".")[0]
    if family == "lightgbm":
        return treelite.frontend.from_lightgbm(fitted.booster_)
    if family == "xgboost":
        return treelite.frontend.from_xgboost(fitted.get_booster())
    return treelite.sklearn.import_model(fitted)


def interpreted(model, x):
    import treelite

    trees = ensemble_of(model)
    return lambda: treelite.gtil.predict(trees, x, nthread=1)


def compiled(model, x):
    """What tl2cgen and a C compiler make of the trees, kept beside the model."""
    import tl2cgen

    shared = model.with_suffix(".so")
    if not shared.exists():
        tl2cgen.export_lib(ensemble_of(model), "gcc", shared, params={"parallel_comp": 16})
    predictor, batch = tl2cgen.Predictor(shared, nthread=1), tl2cgen.DMatrix(x)
    return lambda: predictor.predict(batch)


PEER = {"library": library, "treelite": interpreted, "tl2cgen": compiled}


# The race


def raced(model, batch, given):
    contenders = ["tilewright", *PEERS, *(["tl2cgen"] if given.compiled else [])]
    rounds, errors = [], {}
    for index in range(given.rounds):
        turn = index % len(contenders)
        times = {}
        for who in contenders[turn:] + contenders[:turn]:
            if who not in errors:
                try:
                    times[who] = once(who, model, batch, given)
                except (Failed, ValueError, KeyError) as error:
                    errors[who] = str(error)
        rounds.append(times)
    known = [who for who in contenders if any(who in times for times in rounds)]
    shown = {
        who: statistics.median(times[who]["ms"] for times in rounds if who in times)
        for who in known
    }
    row = {"model": model.stem, "batch": batch, "ms": shown, "errors": errors}
    row["load"] = common.load_average()
    if "tilewright" in known and len(known) > 1:
        best = [min(v["ms"] for w, v in t.items() if w != "tilewright") for t in rounds]
        ours = [times["tilewright"]["ms"] for times in rounds]
        ratios = [peer / own for peer, own in zip(best, ours) if peer > 0]
        if ratios:
            # Else the call of an identity took longer than the peer's.
            row["ratio"] = statistics.median(ratios)
        row["compile_ms"] = statistics.median(t["tilewright"]["compile_ms"] for t in rounds)
    print(f"{row}", file=sys.stderr)
    return row


def report(result):
    peers = [*PEERS, *(["tl2cgen"] if any("tl2cgen" in r["ms"] for r in result["rows"]) else [])]
    table, ratios = [], []
    for row in result["rows"]:
        times = [row["ms"].get(who, "-") for who in ["tilewright", *peers]]
        ratio = row.get("ratio")
        ratios += [ratio] if ratio else []
        shown = f"{ratio:.2f}" if ratio else "-"
        compile_ms = row.get("compile_ms", "-")
        table.append([row["model"], row["batch"], *times, shown, compile_ms, row["load"]])
    header = ["model", "batch", "Tilewright ms", *(f"{peer} ms" for peer in peers)]
    header += ["best peer over ours", "our compile ms", "load"]
    mean = f"Geometric mean {statistics.geometric_mean(ratios):.3f}, least {min(ratios):.3f}."
    return "\n\n".join([common.table(header, table), mean if ratios else ""])


def main():
    options = common.parser(__doc__)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--seconds", type=float, default=0.5, help="of measuring in each process")
    options.add_argument("--trees", type=int, action="append", help="default: 100 and 1000")
    options.add_argument("--batch", type=int, action="append", help="default: 1, 100, 10000")
    options.add_argument("--folder", type=pathlib.Path, help="where models are kept",
                         default=common.target_folder() / "trees")
    options.add_argument("--others", action="store_true", help="models that are no trees")
    options.add_argument("--least", action="store_true", help="of calls, not their median")
    options.add_argument("--compiled", action="store_true", help="race tl2cgen, too")
    options.add_argument("--worker", nargs=3, help="used internally")
    given = options.parse_args()
    if given.worker:
        who, model, data = given.worker
        return worker(who, pathlib.Path(model), data, given.seconds)
    given.folder.mkdir(parents=True, exist_ok=True)
    result = {"origin": common.origin(), "rows": []}
    wanted = [str(text) for text in given.models]
    named = others() if given.others else {}
    for trees in [] if given.others else given.trees or [100, 1000]:
        named |= {f"{name}-{trees}": make for name, make in models(trees).items()}
    for name, make in named.items():
        if wanted and not any(part in name for part in wanted):
            continue
        model = prepare(given.folder, name, make)
        for batch in given.batch or BATCHES:
            result["rows"].append(raced(model, batch, given))
    name, title = "trees", "Ensembles of trees"
    if given.others:
        name, title = "learned", "Neighbours, support vectors, naive Bayes"
    common.keep(given.name or name, f"{title}, 1 thread, f32", result, report(result))


if __name__ == "__main__":
    try:
        main()
    except Failed as error:
        sys.exit(str(error))
