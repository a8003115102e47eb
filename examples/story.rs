//! Writes a story, word by word, with a small language model of the repository.
//!
//!     cargo run --release -p examples --features stories --example story
//!     cargo run --release -p examples --features stories --example story -- 7 \
//!         "Once upon a time there was a brave"
//!
//! Arguments: a seed, so that the same story can be told again, and how it begins.

use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use generate::{GenerateOptions, LanguageModel, SamplerOptions};
use tilewright::Options;

const MODEL: &str = "models/stories/stories.gguf";

/// The columns of a line.
const COLUMNS: usize = 80;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(diagnostics) => {
            eprintln!("{diagnostics}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> tilewright::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let by_time = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |it| it.as_secs());
    let seed = arguments.next().and_then(|seed| seed.parse().ok()).unwrap_or_else(by_time);
    let beginning = arguments.next().unwrap_or_default();

    let start = Instant::now();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(MODEL);
    let model = LanguageModel::read(path, &Options::default())?;
    let mut context = model.context(model.trained_places())?;
    let prompt = model.tokenizer().encode(&beginning, false);
    let ready = start.elapsed();

    let sampler = SamplerOptions { temperature: 0.8, top_p: 0.95, seed, ..Default::default() };
    let options = GenerateOptions { sampler, ..GenerateOptions::default() };
    let mut line = Line { column: 0, word: String::new() };
    line.add(&beginning);
    let story = context.generate(&prompt, &options, &mut |piece| {
        line.add(piece);
        ControlFlow::Continue(())
    })?;
    line.add(" ");
    println!();
    let count = story.tokens.len();
    let each = (start.elapsed() - ready).as_secs_f64() * 1e3 / count.max(1) as f64;
    let ready = ready.as_secs_f64() * 1e3;
    eprintln!("\nseed {seed}; compiled in {ready:.0} ms, {count} tokens of {each:.2} ms");
    Ok(())
}

/// Text that is broken between words.
struct Line {
    column: usize,
    word: String,
}

impl Line {
    fn add(&mut self, text: &str) {
        for character in text.chars() {
            if character != ' ' {
                self.word.push(character);
                continue;
            }
            let columns = self.word.chars().count();
            if self.column > 0 && self.column + 1 + columns > COLUMNS {
                println!();
                self.column = 0;
            }
            if self.column > 0 && columns > 0 {
                print!(" ");
                self.column += 1;
            }
            print!("{}", std::mem::take(&mut self.word));
            self.column += columns;
            _ = std::io::stdout().flush();
        }
    }
}
