#!/usr/bin/env python3
"""Makes cases for `tilewright conformance` out of models of scikit-learn, LightGBM and XGBoost.

    pip install -r conformance/learned_models.txt
    LC_ALL=en_US.UTF-8 python conformance/learned_models.py OUT [NAME...]

Each model is small, trained from a fixed seed, converted with the default options of its converter
and run by ONNX Runtime, which needs the locale en_US.UTF-8 for texts. A case is a folder OUT/NAME
with `model.onnx`, `tol.json` (1e-5) and `test_data_set_0`. What a converter or ONNX Runtime refuses
is listed with its reason, and is no case. NAMEs choose models by a part of their name.
"""

import argparse
import pathlib
import sys
import warnings

import numpy as np
import onnx
import onnxruntime
import pandas as pd
from lightgbm import LGBMClassifier, LGBMRegressor
from onnx import numpy_helper
from onnxmltools import convert_lightgbm, convert_xgboost
from onnxmltools.convert.common.data_types import FloatTensorType as ToolsFloats
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType
from sklearn import (
    calibration,
    cluster,
    decomposition,
    discriminant_analysis,
    ensemble,
    feature_extraction,
    feature_selection,
    gaussian_process,
    linear_model,
    mixture,
    multiclass,
    multioutput,
    naive_bayes,
    neighbors,
    neural_network,
    preprocessing,
    svm,
    tree,
)
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, make_pipeline
from xgboost import XGBClassifier, XGBRegressor

ROWS, COLUMNS, TESTED = 160, 5, 24
OPSET = {"": 18, "ai.onnx.ml": 3}

TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "Never jump over the lazy dog quickly!",
    "A brown bear, a grey wolf; both asleep?",
    "Dogs and foxes: 2 foxes, 3 dogs, 44 bears",
    "the bear ate 12 salmon_steaks at 10:45",
    "Über den Wolken muß die Freiheit wohl grenzenlos sein",
    "naïve café, crème brûlée — déjà vu",
    "кошка и собака спят",
    "犬 と 猫",
    "wolf wolf wolf fox",
    "",
    "x",
    "e-mail me@example.org, don't wait",
    "   spaces   and\ttabs\nand lines  ",
    "FOX Fox fox fOX",
    "lazy lazy dog",
]


def numbers():
    return np.random.default_rng(7).standard_normal((ROWS, COLUMNS)).astype(np.float32)


def classes(count):
    """Numbers and classes that follow from them, with some noise."""
    x = numbers()
    noise = np.random.default_rng(8).standard_normal(ROWS) / 4
    score = x[:, 0] - 0.7 * x[:, 1] * x[:, 2] + 0.4 * x[:, 3] + noise
    limits = np.quantile(score, np.arange(1, count) / count)
    return x, np.searchsorted(limits, score)


def labelled(count):
    x, y = classes(count)
    return x, np.array(["no", "yes", "Übung", "maybe"])[y]


def targets(count=1):
    x = numbers()
    noise = np.random.default_rng(9).standard_normal((ROWS, count)) / 8
    y = x @ np.random.default_rng(10).standard_normal((COLUMNS, count)) + np.sin(x[:, :1]) + noise
    return x, y[:, 0] if count == 1 else y


def positive():
    x, y = classes(3)
    return np.floor(np.abs(x) * 4).astype(np.float32), y


def holes():
    x, y = classes(2)
    x = x.copy()
    x[np.random.default_rng(11).random(x.shape) < 0.1] = np.nan
    return x, y


def table():
    """A table as `pandas` holds it, with strings and numbers among its columns."""
    random = np.random.default_rng(12)
    frame = pd.DataFrame(
        {
            "age": random.integers(18, 80, ROWS).astype(np.float32),
            "fare": (random.random(ROWS) * 90).astype(np.float32),
            "city": random.choice(["Bern", "Zürich", "Genève", ""], ROWS).astype(object),
            "grade": random.choice(["low", "middle", "high"], ROWS).astype(object),
            "visits": random.integers(0, 5, ROWS),
        }
    )
    y = (frame["age"] + 20 * (frame["city"] == "Bern") > 55).astype(int).to_numpy()
    return frame, np.array(["stays", "goes"])[y]


def texts():
    return np.array(TEXTS, dtype=object), np.arange(len(TEXTS)) % 3


def words():
    random = np.random.default_rng(13)
    x = random.choice(["red", "green", "blue", "Weiß"], (ROWS, 2)).astype(object)
    return x, (x[:, 0] == "red").astype(int)


def over_columns(**options):
    """What tables go through: numbers scaled, words as one-hot columns."""
    return ColumnTransformer(
        [
            ("numbers", preprocessing.StandardScaler(), ["age", "fare"]),
            ("words", preprocessing.OneHotEncoder(handle_unknown="ignore"), ["city", "grade"]),
        ],
        **options,
    )


def logistic(**options):
    return linear_model.LogisticRegression(max_iter=400, **options)


def voting(how):
    members = [("a", logistic()), ("b", tree.DecisionTreeClassifier(max_depth=3, random_state=0))]
    return ensemble.VotingClassifier(members, voting=how, flatten_transform=False)


def before(step):
    """A step in front of a classifier."""
    return make_pipeline(step, logistic())


FOREST = {"n_estimators": 8, "max_depth": 4, "random_state": 0}
BOOST = {"n_estimators": 9, "max_depth": 3, "random_state": 0}
LIGHT = {"n_estimators": 9, "num_leaves": 7, "random_state": 0, "verbose": -1, "n_jobs": 1}
TEXT = {"max_features": 60}

# Name, model, data.
MODELS = {
    "logistic_binary": (logistic(), classes(2)),
    "logistic_multi": (logistic(), classes(4)),
    "logistic_strings": (logistic(), labelled(3)),
    "logistic_strings_binary": (logistic(), labelled(2)),
    "logistic_cv": (linear_model.LogisticRegressionCV(Cs=3, max_iter=400), classes(3)),
    "sgd_log": (linear_model.SGDClassifier(loss="log_loss", random_state=0), classes(3)),
    "sgd_hinge": (linear_model.SGDClassifier(random_state=0), classes(2)),
    "perceptron": (linear_model.Perceptron(random_state=0), classes(3)),
    "ridge_classifier": (linear_model.RidgeClassifier(), classes(3)),
    "linear_svc": (svm.LinearSVC(random_state=0), classes(3)),
    "linear_svc_binary": (svm.LinearSVC(random_state=0), classes(2)),
    "svc_rbf": (svm.SVC(random_state=0), classes(3)),
    "svc_rbf_binary": (svm.SVC(random_state=0), labelled(2)),
    "svc_rbf_probability": (svm.SVC(probability=True, random_state=0), classes(3)),
    "svc_poly_probability": (svm.SVC(kernel="poly", probability=True, random_state=0), labelled(2)),
    "svc_sigmoid_ovo": (
        svm.SVC(kernel="sigmoid", decision_function_shape="ovo", random_state=0), classes(3)),
    "svr_rbf": (svm.SVR(), targets()),
    "svr_poly": (svm.SVR(kernel="poly", degree=2), targets()),
    "linear_svr": (svm.LinearSVR(random_state=0), targets()),
    "nu_svc": (svm.NuSVC(random_state=0, nu=0.3), classes(3)),
    "nu_svc_probability": (svm.NuSVC(random_state=0, nu=0.3, probability=True), classes(3)),
    "nu_svr": (svm.NuSVR(), targets()),
    "one_class_svm": (svm.OneClassSVM(nu=0.2), targets()),
    "knn_classifier": (neighbors.KNeighborsClassifier(3), classes(3)),
    "knn_classifier_strings": (neighbors.KNeighborsClassifier(weights="distance"), labelled(3)),
    "knn_manhattan": (neighbors.KNeighborsClassifier(3, metric="manhattan"), classes(2)),
    "knn_regressor": (neighbors.KNeighborsRegressor(4), targets()),
    "knn_regressor_multi": (neighbors.KNeighborsRegressor(4, weights="distance"), targets(2)),
    "radius_classifier": (neighbors.RadiusNeighborsClassifier(3.0), classes(2)),
    "nearest_centroid": (neighbors.NearestCentroid(), classes(3)),
    "decision_tree": (tree.DecisionTreeClassifier(max_depth=4, random_state=0), labelled(3)),
    "decision_tree_regressor": (tree.DecisionTreeRegressor(max_depth=5, random_state=0), targets()),
    "decision_tree_multi_output": (
        tree.DecisionTreeRegressor(max_depth=5, random_state=0), targets(3)),
    "random_forest": (ensemble.RandomForestClassifier(**FOREST), classes(3)),
    "random_forest_binary": (ensemble.RandomForestClassifier(**FOREST), labelled(2)),
    "random_forest_regressor": (ensemble.RandomForestRegressor(**FOREST), targets()),
    "extra_trees": (ensemble.ExtraTreesClassifier(**FOREST), classes(4)),
    "extra_trees_regressor": (ensemble.ExtraTreesRegressor(**FOREST), targets(2)),
    "gradient_boosting": (ensemble.GradientBoostingClassifier(**BOOST), classes(3)),
    "gradient_boosting_binary": (ensemble.GradientBoostingClassifier(**BOOST), classes(2)),
    "gradient_boosting_regressor": (ensemble.GradientBoostingRegressor(**BOOST), targets()),
    "hist_gradient_boosting": (
        ensemble.HistGradientBoostingClassifier(max_iter=6, random_state=0), holes()),
    "hist_gradient_boosting_multi": (
        ensemble.HistGradientBoostingClassifier(max_iter=6, random_state=0), classes(3)),
    "hist_gradient_boosting_regressor": (
        ensemble.HistGradientBoostingRegressor(max_iter=6, random_state=0), targets()),
    "ada_boost": (ensemble.AdaBoostClassifier(n_estimators=6, random_state=0), classes(3)),
    "ada_boost_regressor": (ensemble.AdaBoostRegressor(n_estimators=6, random_state=0), targets()),
    "bagging": (ensemble.BaggingClassifier(n_estimators=5, random_state=0), classes(3)),
    "bagging_regressor": (ensemble.BaggingRegressor(n_estimators=5, random_state=0), targets()),
    "voting_soft": (voting("soft"), classes(3)),
    "voting_hard": (voting("hard"), classes(3)),
    "stacking": (
        ensemble.StackingClassifier(
            [("a", logistic()), ("b", naive_bayes.GaussianNB())], logistic()), classes(3)),
    "stacking_regressor": (
        ensemble.StackingRegressor([("a", linear_model.Ridge()), ("b", svm.SVR())]), targets()),
    "mlp": (neural_network.MLPClassifier((8,), max_iter=60, random_state=0), classes(3)),
    "mlp_binary": (
        neural_network.MLPClassifier((8, 4), "tanh", max_iter=60, random_state=0), labelled(2)),
    "mlp_regressor": (
        neural_network.MLPRegressor(
            hidden_layer_sizes=(8,), max_iter=60, random_state=0), targets(2)),
    "gaussian_nb": (naive_bayes.GaussianNB(), classes(3)),
    "multinomial_nb": (naive_bayes.MultinomialNB(), positive()),
    "bernoulli_nb": (naive_bayes.BernoulliNB(), classes(3)),
    "complement_nb": (naive_bayes.ComplementNB(), positive()),
    "categorical_nb": (naive_bayes.CategoricalNB(min_categories=20), positive()),
    "lda": (discriminant_analysis.LinearDiscriminantAnalysis(), labelled(3)),
    "qda": (discriminant_analysis.QuadraticDiscriminantAnalysis(), classes(3)),
    "linear_regression": (linear_model.LinearRegression(), targets(2)),
    "ridge": (linear_model.Ridge(), targets()),
    "lasso": (linear_model.Lasso(alpha=0.1), targets()),
    "elastic_net": (linear_model.ElasticNet(alpha=0.1), targets()),
    "bayesian_ridge": (linear_model.BayesianRidge(), targets()),
    "huber": (linear_model.HuberRegressor(), targets()),
    "poisson": (linear_model.PoissonRegressor(), (positive()[0], positive()[1])),
    "gaussian_process": (
        gaussian_process.GaussianProcessRegressor(alpha=0.1, random_state=0), targets()),
    "gaussian_process_classifier": (
        gaussian_process.GaussianProcessClassifier(random_state=0), classes(2)),
    "k_means": (cluster.KMeans(4, n_init=2, random_state=0), targets()),
    "mini_batch_k_means": (cluster.MiniBatchKMeans(4, n_init=2, random_state=0), targets()),
    "gaussian_mixture": (mixture.GaussianMixture(3, random_state=0), targets()),
    "isolation_forest": (ensemble.IsolationForest(n_estimators=6, random_state=0), targets()),
    "local_outlier_factor": (neighbors.LocalOutlierFactor(5, novelty=True), targets()),
    "calibrated_sigmoid": (calibration.CalibratedClassifierCV(svm.LinearSVC(), cv=2), classes(3)),
    "calibrated_isotonic": (
        calibration.CalibratedClassifierCV(naive_bayes.GaussianNB(), method="isotonic", cv=2),
        classes(2)),
    "one_vs_rest": (multiclass.OneVsRestClassifier(logistic()), classes(3)),
    "one_vs_one": (multiclass.OneVsOneClassifier(logistic()), classes(3)),
    "multi_output_regressor": (multioutput.MultiOutputRegressor(linear_model.Ridge()), targets(3)),
    "multi_output_classifier": (
        multioutput.MultiOutputClassifier(logistic()),
        (classes(2)[0], np.stack([classes(2)[1], classes(3)[1]], 1))),
    "pca": (before(decomposition.PCA(3)), classes(3)),
    "truncated_svd": (before(decomposition.TruncatedSVD(3, random_state=0)), classes(2)),
    "incremental_pca": (decomposition.IncrementalPCA(2), targets()),
    "kernel_pca": (decomposition.KernelPCA(2, kernel="rbf", random_state=0), targets()),
    "standard_scaler": (before(preprocessing.StandardScaler()), labelled(3)),
    "min_max_scaler": (before(preprocessing.MinMaxScaler()), classes(2)),
    "max_abs_scaler": (before(preprocessing.MaxAbsScaler()), classes(2)),
    "robust_scaler": (before(preprocessing.RobustScaler()), classes(2)),
    "power_transformer": (before(preprocessing.PowerTransformer()), classes(2)),
    "quantile_transformer": (before(preprocessing.QuantileTransformer(n_quantiles=20)), classes(2)),
    "polynomial_features": (before(preprocessing.PolynomialFeatures(2)), classes(3)),
    "k_bins": (
        before(preprocessing.KBinsDiscretizer(
            4, encode="ordinal", quantile_method="averaged_inverted_cdf")),
        classes(3)),
    "normalizer": (before(preprocessing.Normalizer("l1")), classes(3)),
    "binarizer": (before(preprocessing.Binarizer(threshold=0.2)), classes(3)),
    "select_best": (before(feature_selection.SelectKBest(k=2)), classes(3)),
    "feature_union": (
        before(FeatureUnion([("a", decomposition.PCA(2)), ("b", preprocessing.MinMaxScaler())])),
        classes(3)),
    "imputer": (before(SimpleImputer(strategy="median")), holes()),
    "random_trees_embedding": (
        ensemble.RandomTreesEmbedding(
            4, max_depth=3, sparse_output=False, random_state=0), targets()),
    "table_logistic": (make_pipeline(over_columns(), logistic()), table()),
    "table_remainder": (
        make_pipeline(
            ColumnTransformer(
                [
                    ("words", preprocessing.OrdinalEncoder(), ["city", "grade"]),
                    ("numbers", SimpleImputer(), ["age", "fare"]),
                ],
            ),
            ensemble.RandomForestClassifier(**FOREST)), table()),
    "table_tree": (
        make_pipeline(over_columns(), tree.DecisionTreeClassifier(max_depth=4, random_state=0)),
        table()),
    "one_hot_words": (before(preprocessing.OneHotEncoder(handle_unknown="ignore")), words()),
    "ordinal_words": (
        before(preprocessing.OrdinalEncoder(
            handle_unknown="use_encoded_value", unknown_value=-1)), words()),
    "target_words": (before(preprocessing.TargetEncoder(random_state=0)), words()),
    "imputed_words": (
        make_pipeline(
            SimpleImputer(strategy="most_frequent", missing_values=""),
            preprocessing.OneHotEncoder(handle_unknown="ignore"), logistic()), words()),
    "label_encoder": (preprocessing.LabelEncoder(), (words()[0][:, 0], None)),
    "label_binarizer": (preprocessing.LabelBinarizer(), (classes(3)[1], None)),
    "feature_hasher": (
        before(feature_extraction.FeatureHasher(8, input_type="string", dtype=np.float32)),
        words()),
    "count_words": (before(CountVectorizer(**TEXT)), texts()),
    "count_binary": (before(CountVectorizer(binary=True, **TEXT)), texts()),
    "count_stop_words": (before(CountVectorizer(stop_words="english", **TEXT)), texts()),
    "count_pairs": (before(CountVectorizer(ngram_range=(1, 2), **TEXT)), texts()),
    "count_cased": (before(CountVectorizer(lowercase=False, **TEXT)), texts()),
    "count_characters": (before(CountVectorizer(analyzer="char", **TEXT)), texts()),
    "count_character_pairs": (
        before(CountVectorizer(analyzer="char", ngram_range=(2, 3), **TEXT)), texts()),
    "count_in_words": (before(CountVectorizer(analyzer="char_wb", **TEXT)), texts()),
    "count_blanks": (before(CountVectorizer(token_pattern=r"[^\s]+", **TEXT)), texts()),
    "count_letters": (before(CountVectorizer(token_pattern=r"[a-z]{2,}", **TEXT)), texts()),
    "count_unicode_letters": (before(CountVectorizer(token_pattern=r"\b\w\w+\b", **TEXT)), texts()),
    "tfidf_words": (before(TfidfVectorizer(**TEXT)), texts()),
    "tfidf_pairs": (before(TfidfVectorizer(ngram_range=(1, 2), **TEXT)), texts()),
    "tfidf_sublinear": (
        before(TfidfVectorizer(sublinear_tf=True, norm="l1", use_idf=False, **TEXT)), texts()),
    "tfidf_characters": (
        before(TfidfVectorizer(analyzer="char", ngram_range=(1, 2), **TEXT)), texts()),
    "tfidf_stages": (
        make_pipeline(CountVectorizer(**TEXT), TfidfTransformer(), naive_bayes.MultinomialNB()),
        texts()),
    "tfidf_svd": (
        make_pipeline(TfidfVectorizer(**TEXT), decomposition.TruncatedSVD(3, random_state=0),
                      preprocessing.Normalizer()), texts()),
    "tfidf_forest": (
        make_pipeline(TfidfVectorizer(**TEXT), ensemble.RandomForestClassifier(**FOREST)), texts()),
    "light_binary": (LGBMClassifier(**LIGHT), classes(2)),
    "light_multi": (LGBMClassifier(**LIGHT), classes(3)),
    "light_holes": (LGBMClassifier(**LIGHT), holes()),
    "light_regressor": (LGBMRegressor(**LIGHT), targets()),
    "light_random_forest": (
        LGBMClassifier(boosting_type="rf", bagging_freq=1, bagging_fraction=0.6, **LIGHT),
        classes(2)),
    "light_poisson": (LGBMRegressor(objective="poisson", **LIGHT), (numbers(), positive()[1])),
    "boost_binary": (XGBClassifier(**BOOST), classes(2)),
    "boost_multi": (XGBClassifier(**BOOST), classes(3)),
    "boost_holes": (XGBClassifier(**BOOST), holes()),
    "boost_regressor": (XGBRegressor(**BOOST), targets()),
    "boost_count": (
        XGBRegressor(objective="count:poisson", **BOOST), (numbers(), positive()[1])),
}


def column_type(values):
    if values.dtype == object or values.dtype.kind in "US" or str(values.dtype) == "str":
        return StringTensorType
    return Int64TensorType if values.dtype.kind == "i" else FloatTensorType


def converted(model, x):
    """The model as ONNX, and what it is fed: an input a column of a table."""
    if isinstance(x, pd.DataFrame):
        used = [name for name in x.columns if name != "visits"]
        types = [(name, column_type(x[name])([None, 1])) for name in used]
        feed = {name: fed(x[name].to_numpy()[:TESTED].reshape(-1, 1)) for name in used}
        return convert_sklearn(model, initial_types=types, target_opset=OPSET), feed
    shape = [None, *x.shape[1:]]
    feed = {"x": fed(x[:TESTED])}
    if type(model).__module__.startswith("lightgbm"):
        return convert_lightgbm(model, initial_types=[("x", ToolsFloats(shape))]), feed
    if type(model).__module__.startswith("xgboost"):
        return convert_xgboost(model, initial_types=[("x", ToolsFloats(shape))]), feed
    types = [("x", column_type(x)(shape))]
    return convert_sklearn(model, initial_types=types, target_opset=OPSET), feed


def fed(values):
    if column_type(values) is StringTensorType:
        return values.astype(object)
    return values.astype(np.int64 if values.dtype.kind == "i" else np.float32)


def record(name, folder):
    model, (x, y) = MODELS[name]
    model.fit(x, y) if y is not None else model.fit(x)
    proto, feed = converted(model, x)
    session = session_of(proto)
    outputs = session.run(None, feed)
    data = folder / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    onnx.save(proto, folder / "model.onnx")
    (folder / "tol.json").write_text('{"rtol": 1e-5, "atol": 1e-5}\n')
    for number, port in enumerate(session.get_inputs()):
        save(numpy_helper.from_array(feed[port.name], port.name), data / f"input_{number}.pb")
    for number, (port, value) in enumerate(zip(session.get_outputs(), outputs)):
        save(recorded(value, port.name), data / f"output_{number}.pb")


def session_of(proto):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    providers = ["CPUExecutionProvider"]
    return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=providers)


def recorded(value, name):
    """A tensor, or a sequence of tensors or maps, as files of test data hold it."""
    if isinstance(value, np.ndarray):
        return numpy_helper.from_array(value, name)
    sequence = onnx.SequenceProto(name=name)
    for element in value:
        if isinstance(element, dict):
            sequence.elem_type = onnx.SequenceProto.MAP
            sequence.map_values.append(recorded_map(element))
        else:
            sequence.elem_type = onnx.SequenceProto.TENSOR
            sequence.tensor_values.append(numpy_helper.from_array(np.asarray(element)))
    return sequence


def recorded_map(values):
    proto = onnx.MapProto()
    if all(isinstance(key, str) for key in values):
        proto.key_type = onnx.TensorProto.STRING
        proto.string_keys.extend(key.encode() for key in values)
    else:
        proto.key_type = onnx.TensorProto.INT64
        proto.keys.extend(values)
    numbers = [np.float32(number) for number in values.values()]
    proto.values.CopyFrom(numpy_helper.from_list(numbers, dtype=onnx.SequenceProto.TENSOR))
    return proto


def save(value, path):
    path.write_bytes(value.SerializeToString())


def main():
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("out", type=pathlib.Path)
    options.add_argument("names", nargs="*", help="parts of the names of models")
    given = options.parse_args()
    warnings.simplefilter("ignore")
    chosen = [name for name in MODELS if not given.names or any(it in name for it in given.names)]
    refused = 0
    for name in chosen:
        try:
            record(name, given.out / name)
        except Exception as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            print(f"refused {name}: {lines[0][:160]}")
            refused += 1
    print(f"{len(chosen) - refused} cases, {refused} models refused", file=sys.stderr)


if __name__ == "__main__":
    main()
