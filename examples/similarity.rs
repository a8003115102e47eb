//! Says which sentences mean the same.
//!
//!     cargo run --profile quick -p examples --features sentences --example similarity -- \
//!         models/sentences/encoder.onnx models/sentences/tokenizer.json \
//!         "How do I cook rice?" "A recipe for boiled rice" "The train leaves at noon"
//!
//! Arguments: an encoder, its tokenizer (Hugging Face's `tokenizer.json`), and two or more
//! sentences. All-MiniLM-L6-v2 and its like will do: inputs `input_ids` and `attention_mask`, and
//! `token_type_ids` where the model has it; the output is a vector a sentence, or one a token, of
//! which the mean is taken.

use ndarray::{Array2, Axis, Ix2, Ix3};
use tilewright::{Diagnostics, Executable, Options};
use tokenizers::{Encoding, PaddingParams, Tokenizer};

fn main() -> Result<(), Diagnostics> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (model, tokenizer, sentences) = match arguments.as_slice() {
        [model, tokenizer, sentences @ ..] if sentences.len() > 1 => (model, tokenizer, sentences),
        _ => {
            eprintln!("similarity MODEL TOKENIZER SENTENCE SENTENCE...");
            std::process::exit(2);
        }
    };
    let mut tokenizer = Tokenizer::from_file(tokenizer).unwrap_or_else(|error| {
        eprintln!("{tokenizer}: {error}");
        std::process::exit(1);
    });
    tokenizer.with_padding(Some(PaddingParams::default()));
    let executable = tilewright::compile(model, &Options::default())?;

    let vectors = encode(&executable, &tokenizer, sentences)?;
    let similarities = vectors.dot(&vectors.t());
    for (row, sentence) in similarities.rows().into_iter().zip(sentences) {
        let row: Vec<String> = row.iter().map(|cosine| format!("{cosine:5.2}")).collect();
        println!("{}  {sentence}", row.join(" "));
    }
    Ok(())
}

/// A vector of length 1 for each sentence.
fn encode(
    executable: &Executable,
    tokenizer: &Tokenizer,
    sentences: &[String],
) -> Result<Array2<f32>, Diagnostics> {
    let encodings = tokenizer.encode_batch(sentences.to_vec(), true).unwrap_or_else(|error| {
        eprintln!("the tokenizer refuses the sentences: {error}");
        std::process::exit(1);
    });
    // All are padded to the length of the longest.
    let shape = (encodings.len(), encodings.first().map_or(0, Encoding::len));
    let numbers = |of: fn(&Encoding) -> &[u32]| {
        Array2::from_shape_fn(shape, |(row, column)| i64::from(of(&encodings[row])[column]))
    };
    let inputs = executable.inputs().iter().map(|port| {
        let values = match port.name.as_str() {
            "attention_mask" => numbers(Encoding::get_attention_mask),
            "token_type_ids" => numbers(Encoding::get_type_ids),
            _ => numbers(Encoding::get_ids),
        };
        (port.name.clone(), values)
    });
    let outputs = executable.run_named(inputs)?;
    let output = outputs.tensor(&executable.outputs()[0].name)?.to_array::<f32>()?;

    let mut vectors = match output.ndim() {
        2 => output.into_dimensionality::<Ix2>().expect("two axes"),
        // A vector a token: their mean over those that are no padding.
        3 => {
            let tokens = output.into_dimensionality::<Ix3>().expect("three axes");
            let mask = numbers(Encoding::get_attention_mask).mapv(|it| it as f32);
            let sums = (&tokens * &mask.view().insert_axis(Axis(2))).sum_axis(Axis(1));
            sums / mask.sum_axis(Axis(1)).insert_axis(Axis(1))
        }
        axes => {
            eprintln!("an encoder gives a vector a sentence or a token, not {axes} axes");
            std::process::exit(1);
        }
    };
    for mut vector in vectors.rows_mut() {
        let length = vector.dot(&vector).sqrt().max(f32::MIN_POSITIVE);
        vector /= length;
    }
    Ok(vectors)
}
