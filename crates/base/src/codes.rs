//! The table of diagnostic codes: `TW` and four digits, the first two naming the area.
//!
//! To add a code, add a row to its area below, with the next free number; codes are never reused.
//! Invariants (tested): rows are sorted by code and codes are distinct.

/// One row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CodeRow {
    /// The code, `TW0102`.
    pub code: &'static str,
    /// A few words.
    pub title: &'static str,
    /// What it means and what to do, as `tilewright explain-error TW0102` prints it.
    pub explanation: &'static str,
}

/// The row of `code`, for a code of this table.
pub fn explain(code: &str) -> Option<&'static CodeRow> {
    CODES.iter().find(|row| row.code == code)
}

macro_rules! codes {
    ($($name:ident = $code:literal, $title:literal, $explanation:literal;)*) => {
        $(
            #[doc = concat!($code, ": ", $title, ". ", $explanation)]
            pub const $name: &str = $code;
        )*

        /// Every code there is, sorted.
        pub const CODES: &[CodeRow] =
            &[$(CodeRow { code: $code, title: $title, explanation: $explanation }),*];
    };
}

codes! {
    // TW01xx: the model as written.
    NOT_ONNX = "TW0101", "not an ONNX file",
        "The file does not decode as an ONNX protobuf model. Check that it is the model itself.";
    TRUNCATED_FILE = "TW0102", "truncated file",
        "The file ends in the middle of a field or a tensor. Copy or download it again.";
    UNSUPPORTED_OPERATOR = "TW0103", "unsupported operator",
        "The model uses operators the compiler does not know. All of them are listed at once.";
    UNSUPPORTED_TYPE = "TW0104", "unsupported type",
        "A value has an element type or a kind of value the compiler does not handle there.";
    INCONSISTENT_SHAPES = "TW0105", "inconsistent shapes",
        "The shapes of a node's inputs do not fit together.";
    EXTERNAL_DATA_ESCAPES = "TW0106", "external data escapes the folder",
        "External data must lie in the model's folder; absolute paths and `..` are refused.";
    EXTERNAL_DATA_MISSING = "TW0107", "external data missing",
        "A file holding the model's weights is missing or too short. Keep it beside the model.";
    UNKNOWN_OPSET = "TW0108", "unknown operator set",
        "The model imports an operator set or a version of one that the compiler does not know.";
    UNDEFINED_NAME = "TW0109", "undefined name",
        "A node or output names a value that no input, constant or earlier node defines.";
    GRAPH_CYCLE = "TW0110", "cycle in the graph",
        "Nodes depend on each other in a circle, so no order computes them.";
    DUPLICATE_NAME = "TW0111", "duplicate name",
        "Two definitions have the same name where names must be distinct.";
    LIMIT_EXCEEDED = "TW0112", "limit exceeded",
        "A count, size or nesting depth in the file is beyond what the compiler accepts.";
    BAD_ATTRIBUTE = "TW0113", "bad attribute",
        "An operator's attribute is missing, of the wrong kind, or has a value it cannot take.";
    WRONG_ARITY = "TW0114", "wrong number of inputs or outputs",
        "A node has fewer or more inputs or outputs than its operator.";
    UNKNOWN_CONTENTS = "TW0115", "value not known to compile",
        "Shapes depend on a value that is computed from data. Export it as a constant.";
    NO_DERIVATIVE = "TW0116", "no derivative",
        "A gradient is asked for through an operation that the compiler cannot differentiate.";
    ENDLESS_LOOP = "TW0117", "loop without end",
        "A loop's condition always holds, and the loop has no largest number of turns.";
    NOT_EXPORTED = "TW0118", "not an exported program",
        "The archive is not what `torch.export.save` writes, is damaged, or lacks tensors.";
    NOT_TFLITE = "TW0119", "not a TensorFlow Lite file",
        "The file begins as one, but is damaged, cut off, or of another version. Convert it anew.";
    NOT_LANGUAGE_MODEL = "TW0120", "not a language model",
        "A GGUF file or safetensors folder is damaged, or the model is none of these.";
    NOT_BYTECODE = "TW0121", "not StableHLO bytecode",
        "The file begins as it, but is damaged, cut off, or of a version that is not read.";

    // TW02xx: the inputs of a run.
    MISSING_INPUT = "TW0201", "missing input",
        "The model has an input that was not given. Give it, or fill it with `--random`.";
    UNKNOWN_INPUT = "TW0202", "unknown input name",
        "An input was given under a name that the model does not have.";
    WRONG_DTYPE = "TW0203", "wrong element type",
        "An input's elements are of another type than the model declares.";
    WRONG_SHAPE = "TW0204", "wrong shape",
        "An input's shape does not fit the one the model declares.";
    UNBOUND_DIMENSION = "TW0205", "unbound dimension",
        "A named dimension has no value yet. Give it one; `--dim` does.";
    BAD_NPY_FILE = "TW0206", "bad npy file",
        "The file is not a well-formed `.npy` or `.npz` file of a supported type.";
    UNKNOWN_DIMENSION = "TW0207", "unknown dimension name",
        "A value was given for a named dimension that the model does not have.";
    UNKNOWN_KERNEL = "TW0208", "unknown kernel",
        "No kernel of the compiled model has this name. The known names are listed.";
    UNKNOWN_PASS = "TW0209", "unknown pass",
        "No pass and no rule has the name that was to be left out. The known names are listed.";
    BAD_IMAGE = "TW0210", "image cannot be decoded",
        "An encoded image is damaged, too large, or in a format that the compiler does not read.";
    UNKNOWN_CODE = "TW0211", "unknown code",
        "No diagnostic has this code. `tilewright explain-error` lists all there are.";
    BAD_INPUT_FILE = "TW0212", "malformed table, text or JSON",
        "A file's rows, numbers or brackets do not make a tensor of the kind that is wanted.";
    UNNAMED_INPUT = "TW0213", "input without a name",
        "A file is given without an input's name, and several could be meant. Give NAME=FILE.";
    UNSUITABLE_OUTPUT = "TW0214", "no suitable output",
        "No output has the name, or the form, that was asked for.";
    BAD_CALIBRATION = "TW0215", "data that cannot calibrate",
        "Data to calibrate with are missing, or make values that are no finite numbers.";
    UNKNOWN_LAYER = "TW0216", "unknown layer",
        "No node that multiplies has the name that was to stay float. The report lists the names.";
    NOTHING_QUANTISED = "TW0217", "nothing to quantise",
        "The model has no product or table of constant floats that could be stored in fewer bits.";

    // TW03xx: files read and written.
    CANNOT_WRITE_FILE = "TW0301", "cannot write file",
        "The system refused to write the file; its reason is shown.";
    CANNOT_READ_FILE = "TW0302", "cannot read file",
        "The system refused to read the file; its reason is shown.";
    DAMAGED_ENGINE = "TW0303", "damaged engine file",
        "The engine file is not as it was written. Compile the model again.";
    FOREIGN_ENGINE = "TW0304", "engine file of another version or machine",
        "Another version made the engine file, or for another machine. Compile the model again.";
    NOT_IN_ENGINE = "TW0305", "not in the engine file",
        "An engine file holds what runs of a model need. Do all else with the model file.";
    CANNOT_REFIT = "TW0306", "other weights cannot be taken",
        "Refit takes a file of the same model with other weights. Compile the file instead.";

    // TW04xx: targets.
    UNKNOWN_TARGET = "TW0401", "unknown target",
        "No target has this name. The known names are listed.";
    TARGET_NOT_ON_THIS_MACHINE = "TW0402", "target not supported by this machine",
        "The machine lacks instructions that the target needs. Choose a lower target.";
    NO_JIT_ON_THIS_PLATFORM = "TW0403", "no JIT on this platform",
        "Models cannot be run in process here. They can be written as C: `tilewright compile`.";
    NO_C_COMPILER = "TW0404", "no C compiler",
        "Values of the target `c99` need a C compiler, `cc` or what the variable CC names.";
    C_PROGRAM_FAILED = "TW0405", "C program failed",
        "The C sources of a model do not compile, or the program made of them stops. It says why.";
    PEER_NOT_THERE = "TW0406", "no other engine to compare with",
        "Python or its package is missing: `python3 -m pip install onnxruntime`.";
    PEER_FAILED = "TW0407", "the other engine failed",
        "It refuses the model or its inputs, stops, or takes too long. Its reason is shown.";
    CONFLICTING_OPTIONS = "TW0408", "options that contradict each other",
        "What is written cannot have a property that was asked for. Leave one of the two out.";
    DOES_NOT_FIT = "TW0409", "memory that is too small",
        "Sources would take more memory than `--memory` gives. It names the kernel in the way.";

    // TW05xx: faults while running.
    INDEX_OUT_OF_RANGE = "TW0501", "index out of range",
        "A gather, scatter or slice was given an index outside of its axis.";
    DIVISION_BY_ZERO = "TW0502", "division by zero",
        "An integer was divided by zero.";

    SYMBOL_OUT_OF_RANGE = "TW0503", "size out of range",
        "A size that is computed while running is outside of the range it was compiled for.";
    OUT_OF_MEMORY = "TW0504", "out of memory",
        "The system did not give the memory that a run needs.";

    // TW06xx: checks.
    VERIFY_MISMATCH = "TW0601", "result differs from the reference",
        "A kernel's output differs from the evaluator's by more than the tolerance.";
    NOTHING_COMPARED = "TW0602", "nothing compared",
        "Two configurations have no element of an output in common, so nothing was checked.";

    // TW07xx: text forms.
    TEXT_SYNTAX = "TW0701", "malformed text",
        "The text form of an IR or an expression does not parse.";

    // TW09xx: the compiler itself.
    INTERNAL_ERROR = "TW0901", "internal error",
        "The compiler broke one of its own invariants. Please report it with the model.";
    VERIFIER_FAILED = "TW0902", "verifier failure",
        "A pass produced an ill-formed program. Please report it with the model.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_and_well_formed() {
        for pair in CODES.windows(2) {
            assert!(pair[0].code < pair[1].code, "{} before {}", pair[0].code, pair[1].code);
        }
        for row in CODES {
            let digits = row.code.strip_prefix("TW").expect("codes start with TW");
            assert!(digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_digit()));
            assert!(!row.title.ends_with('.') && row.explanation.ends_with('.'), "{}", row.code);
        }
    }

    #[test]
    fn explains() {
        assert_eq!(explain(TRUNCATED_FILE).map(|row| row.title), Some("truncated file"));
        assert_eq!(explain("TW9999"), None);
    }
}
