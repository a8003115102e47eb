//! Examples in Markdown that tests run: what is typed, and what it prints.
//!
//! A fenced block of the language `console` holds commands, each behind `$ `, and what they print:
//!
//! ```text
//! $ tilewright run model.onnx --input cat.jpg
//! tabby, tabby cat
//! ...
//! ```
//!
//! A line `...` stands for any lines. In a block of the language `console,figures` a number stands
//! for any number, and columns may be as wide as they like.

use std::io::{Read, pipe};
use std::process::{Command, ExitStatus, Stdio};

/// Runs a command to its end; what it printed, to standard output and error as they came, and how
/// it ended.
///
/// # Panics
/// When it does not start.
#[must_use]
pub fn printed(command: &mut Command) -> (String, ExitStatus) {
    let (mut reader, writer) = pipe().expect("a pipe");
    let other = writer.try_clone().expect("a handle of a pipe");
    let mut child = command.stdout(other).stderr(writer).spawn().expect("the command starts");
    // The reader comes to the end when the child, alone, has closed its side.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).expect("what is printed");
    let status = child.wait().expect("the command ends");
    (String::from_utf8_lossy(&bytes).into_owned(), status)
}

/// A command of an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsoleCommand {
    /// The number of its line in the file, from 1.
    pub line: usize,
    /// Its words, quotes resolved.
    pub words: Vec<String>,
    /// The lines that it prints.
    pub printed: Vec<String>,
    /// What stands behind `console,` where the block begins.
    pub flags: Vec<String>,
}

/// The commands in the `console` blocks of a Markdown text, in order.
///
/// # Panics
/// When a block does not begin with a command.
#[must_use]
pub fn console_commands(markdown: &str) -> Vec<ConsoleCommand> {
    let mut commands: Vec<ConsoleCommand> = Vec::new();
    let mut lines = markdown.lines().enumerate();
    while let Some((_, line)) = lines.next() {
        let Some(language) = line.strip_prefix("```") else { continue };
        let mut flags = language.split(',').map(|flag| flag.trim().to_owned());
        let is_console = flags.next().is_some_and(|language| language == "console");
        let flags: Vec<String> = flags.collect();
        let mut in_block = false;
        let mut continued = false;
        for (number, line) in lines.by_ref().take_while(|(_, line)| !line.starts_with("```")) {
            if !is_console {
                continue;
            }
            if let Some(command) = line.strip_prefix("$ ") {
                in_block = true;
                commands.push(ConsoleCommand {
                    line: number + 1,
                    words: Vec::new(),
                    printed: Vec::new(),
                    flags: flags.clone(),
                });
                continued = add_words(commands.last_mut(), command);
                continue;
            }
            assert!(in_block, "line {}: no command before it", number + 1);
            if continued {
                continued = add_words(commands.last_mut(), line);
            } else if let Some(command) = commands.last_mut() {
                command.printed.push(line.trim_end().to_owned());
            }
        }
    }
    commands
}

/// Adds the words of a line to a command; whether the next line goes on with it.
fn add_words(command: Option<&mut ConsoleCommand>, line: &str) -> bool {
    let line = line.trim();
    let goes_on = line.strip_suffix('\\');
    if let Some(command) = command {
        command.words.extend(words(goes_on.unwrap_or(line)));
    }
    goes_on.is_some()
}

/// The words of a command line as a shell has them: blanks between, quotes around, a comment behind
/// `#`.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match quote {
            Some(mark) if letter == mark => quote = None,
            Some(_) => word.get_or_insert_default().push(letter),
            None if letter == '"' || letter == '\'' => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            None if letter.is_whitespace() => words.extend(word.take()),
            None if letter == '#' && word.is_none() => break,
            None => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

impl ConsoleCommand {
    /// Compares what the command printed with what the example says.
    ///
    /// # Errors
    /// Both, where they differ.
    pub fn check(&self, printed: &str) -> Result<(), String> {
        let figures = self.flags.iter().any(|flag| flag == "figures");
        let prepare = |line: &str| if figures { without_figures(line) } else { line.to_owned() };
        let is: Vec<String> = printed.lines().map(|line| prepare(line.trim_end())).collect();
        let should: Vec<String> = self.printed.iter().map(|line| prepare(line)).collect();
        if fits(&is, &should) {
            return Ok(());
        }
        let (should, words) = (self.printed.join("\n"), self.words.join(" "));
        Err(format!("line {}: `{words}` prints\n{printed}\nwhere it says\n{should}\n", self.line))
    }
}

/// A line with `#` for each number, and one blank for some.
fn without_figures(line: &str) -> String {
    let word = |word: &str| {
        let digits = word.trim_start_matches(|it: char| !it.is_ascii_alphanumeric() && it != '-');
        match digits.chars().find(|letter| *letter != '-').is_some_and(|it| it.is_ascii_digit()) {
            true => "#".to_owned(),
            false => word.to_owned(),
        }
    };
    line.split_whitespace().map(word).collect::<Vec<String>>().join(" ")
}

/// Whether lines are the ones that are wanted, `...` being any.
fn fits(is: &[String], should: &[String]) -> bool {
    match should {
        [] => is.is_empty(),
        [any, rest @ ..] if any == "..." => (0..=is.len()).any(|from| fits(&is[from..], rest)),
        [first, rest @ ..] => is.first() == Some(first) && fits(&is[1..], rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
text

```console,figures
$ tool run \"two words\" \\
    --more  # why
  12.5 us  a
...
end
$ tool
```

```toml
$ no
```
";

    #[test]
    fn blocks_become_commands() {
        let commands = console_commands(TEXT);
        assert_eq!(commands.len(), 2);
        assert_eq!(commands[0].words, ["tool", "run", "two words", "--more"]);
        assert_eq!(commands[0].printed, ["  12.5 us  a", "...", "end"]);
        assert_eq!((commands[0].line, commands[1].line), (5, 10));
    }

    #[test]
    fn what_is_printed_is_compared() {
        let commands = console_commands(TEXT);
        assert!(commands[0].check("3 us a\nx\ny\nend\n").is_ok());
        assert!(commands[0].check(" -3.0e-5 us a\nend\n").is_ok());
        assert!(commands[0].check("3 us b\nend\n").is_err());
        assert!(commands[0].check("3 us a\nend\nmore\n").is_err());
        assert!(commands[1].check("").is_ok());
        assert!(commands[1].check("x\n").is_err());
        let exact = ConsoleCommand { flags: Vec::new(), ..commands[0].clone() };
        assert!(exact.check("3 us a\nend\n").is_err());
        assert!(exact.check("  12.5 us  a\nend\n").is_ok());
    }
}
