//! What the keys of a file say of a model's shape.

use base::{Diagnostic, codes};
use front::Accepted;

use crate::file::{ModelFile, damaged};

/// The largest extent or count that a key may say.
const MOST: i64 = 1 << 24;

/// The most experts of a layer, each of which is a part of the graph.
const MOST_EXPERTS: i64 = 512;

/// The shape of a model that decodes tokens.
#[derive(Clone, Debug)]
pub(crate) struct Configuration {
    /// The name of the architecture in the file, which keys begin with.
    pub(crate) architecture: String,
    /// How many layers.
    pub(crate) layers: i64,
    /// The elements that stand for a token between layers.
    pub(crate) width: i64,
    /// Heads of queries.
    pub(crate) heads: i64,
    /// Heads of keys and values.
    pub(crate) key_heads: i64,
    /// The elements of a head.
    pub(crate) head: i64,
    /// How many of them are rotated by a token's place.
    pub(crate) rotated: i64,
    /// The inner width of the layers' products.
    pub(crate) inner: i64,
    /// How many tokens there are.
    pub(crate) vocabulary: i64,
    /// How many places the model was made for.
    pub(crate) context: i64,
    /// What is added to mean squares.
    pub(crate) epsilon: f64,
    /// The base of the angles.
    pub(crate) base: f64,
    /// What places are divided by.
    pub(crate) stretch: f64,
    /// How far back a token sees in layers with a window, its own place included.
    pub(crate) window: Option<i64>,
    /// How many experts a layer has, and how many of them a token goes through; none where the
    /// layers have one product for all.
    pub(crate) experts: Option<(i64, i64)>,
}

impl Configuration {
    /// Reads the keys.
    ///
    /// # Errors
    /// Keys that are missing, of a wrong type, or say what cannot be; what is not supported.
    pub(crate) fn read(file: &ModelFile) -> Accepted<Configuration> {
        let Some(architecture) = file.text("general.architecture")? else {
            return Err(damaged("the key \"general.architecture\" is missing"));
        };
        let architecture = architecture.to_owned();
        let keys = Keys { file, architecture: &architecture };
        let (width, heads) =
            (keys.extent("embedding_length")?, keys.extent("attention.head_count")?);
        let key_heads = keys.optional_extent("attention.head_count_kv")?.unwrap_or(heads);
        let head = keys.optional_extent("attention.key_length")?.unwrap_or(width / heads);
        if keys.optional_extent("attention.value_length")?.is_some_and(|own| own != head) {
            return Err(
                keys.unsupported("attention.value_length", "heads of values of another size")
            );
        }
        if heads % key_heads != 0 {
            return Err(damaged(format!("{heads} heads of queries over {key_heads} of keys")));
        }
        let rotated = keys.optional_extent("rope.dimension_count")?.unwrap_or(head);
        if rotated > head || rotated % 2 != 0 {
            return Err(damaged(format!("{rotated} rotated elements of {head}")));
        }
        let vocabulary = match file.tensors.get("token_embd.weight").map(|it| &it.shape[..]) {
            Some(&[rows, own]) if own as i64 == width => rows as i64,
            Some(shape) => {
                let reason = format!("the embedding is {shape:?}, where the width is {width}");
                return Err(damaged(reason));
            }
            None => return Err(damaged("the tensor \"token_embd.weight\" is missing")),
        };
        let epsilon = match keys.float("attention.layer_norm_rms_epsilon")? {
            Some(epsilon) => epsilon,
            None => keys.float("attention.layer_norm_epsilon")?.unwrap_or(1e-5),
        };
        let stretch = match file.text(&keys.name("rope.scaling.type"))? {
            None | Some("none") => 1.0,
            Some("linear") => keys.float("rope.scaling.factor")?.unwrap_or(1.0),
            // Factors of the angles stand in a tensor.
            Some("longrope") => 1.0,
            Some(_) => return Err(keys.unsupported("rope.scaling.type", "this scaling of angles")),
        };
        let numbers = [epsilon, stretch];
        if numbers.iter().any(|number| !number.is_finite() || *number <= 0.0) {
            return Err(damaged(format!(
                "an epsilon of {epsilon}, a scale of angles of {stretch}"
            )));
        }
        // Each layer has tensors of its own, so a count that lies takes no memory.
        let layers = keys.extent("block_count")?;
        if layers > file.tensors.len() as i64 {
            let tensors = file.tensors.len();
            return Err(damaged(format!("{layers} layers of {tensors} tensors")));
        }
        let experts = match keys.optional_extent("expert_count")? {
            None => None,
            Some(count) if count > MOST_EXPERTS => {
                return Err(damaged(format!("{count} experts a layer")));
            }
            Some(count) => {
                let used = keys.extent("expert_used_count")?;
                if used > count {
                    return Err(damaged(format!("{used} of {count} experts")));
                }
                Some((count, used))
            }
        };
        Ok(Configuration {
            experts,
            layers,
            inner: keys.optional_extent("feed_forward_length")?.unwrap_or(0),
            context: keys.extent("context_length")?,
            base: keys.float("rope.freq_base")?.unwrap_or(10_000.0),
            window: keys.optional_extent("attention.sliding_window")?,
            width,
            heads,
            key_heads,
            head,
            rotated,
            vocabulary,
            epsilon,
            stretch,
            architecture,
        })
    }
}

/// The keys of an architecture.
pub(crate) struct Keys<'a> {
    pub(crate) file: &'a ModelFile,
    pub(crate) architecture: &'a str,
}

impl Keys<'_> {
    fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    /// An extent or a count; 0 is none.
    pub(crate) fn optional_extent(&self, key: &str) -> Accepted<Option<i64>> {
        let name = self.name(key);
        match self.file.integer(&name)? {
            None | Some(0) => Ok(None),
            Some(extent) if (1..=MOST).contains(&extent) => Ok(Some(extent)),
            Some(extent) => Err(damaged(format!("the key \"{name}\" is {extent}"))),
        }
    }

    fn extent(&self, key: &str) -> Accepted<i64> {
        let missing = || damaged(format!("the key \"{}\" is missing, or 0", self.name(key)));
        self.optional_extent(key)?.ok_or_else(missing)
    }

    /// A number.
    pub(crate) fn float(&self, key: &str) -> Accepted<Option<f64>> {
        self.file.float(&self.name(key))
    }

    /// A factor, which is 1 where nothing is said, or 0.
    pub(crate) fn factor(&self, key: &str) -> Accepted<f64> {
        Ok(self.float(key)?.filter(|factor| *factor != 0.0).unwrap_or(1.0))
    }

    /// The refusal of what a key says.
    pub(crate) fn unsupported(&self, key: &str, what: &str) -> Diagnostic {
        Diagnostic::error(codes::UNSUPPORTED_OPERATOR, format!("{what} are not supported"))
            .at(format!("key \"{}\"", self.name(key)))
            .because("the architecture is written without them")
            .remedy("export the model as ONNX")
    }
}
