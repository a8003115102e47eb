//! The examples of programs in the README and the book: each runs, and prints what stands there.
#![cfg(all(
    feature = "pictures",
    feature = "sentences",
    target_os = "linux",
    target_arch = "x86_64"
))]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use filetest::console::{console_commands, printed};
use tensor::TemporaryFolder;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The program of an example, which `cargo test` builds beside its tests.
fn example(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("a test is a program");
    let profile = own.ancestors().nth(2).expect("tests lie in the folder `deps` of a profile's");
    profile.join("examples").join(name)
}

/// Runs the examples of a page in a folder; what each of them said, by its name.
fn programs_of(page: &str, folder: &Path) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(root().join(page)).expect("a page");
    std::os::unix::fs::symlink(root().join("models"), folder.join("models")).expect("a link");
    let mut run = Vec::new();
    for command in console_commands(&text) {
        let words: Vec<&str> = command.words.iter().map(String::as_str).collect();
        if words.first() != Some(&"cargo") {
            continue;
        }
        let place = words.iter().position(|word| *word == "--example").expect("an example");
        let (name, arguments) = match &words[place..] {
            [_, name, "--", arguments @ ..] => (*name, arguments),
            [_, name] => (*name, &[][..]),
            _ => panic!("{words:?}"),
        };
        let (said, status) =
            printed(Command::new(example(name)).args(arguments).current_dir(folder));
        assert!(status.success(), "{name}: {status}\n{said}");
        command.check(&said).unwrap_or_else(|found| panic!("{found}"));
        run.push((name.to_owned(), said));
    }
    run
}

#[test]
fn programs_print_what_the_readme_says() {
    let folder = TemporaryFolder::new().expect("a folder");
    assert_eq!(programs_of("README.md", folder.path()).len(), 2);
    let drawn = image::open(folder.path().join("boxes.png")).expect("the picture with boxes");
    assert_eq!(drawn.into_rgb8().get_pixel(179, 100).0, [0, 255, 0]);
}

#[test]
fn programs_print_what_the_page_on_derivatives_says() {
    let folder = TemporaryFolder::new().expect("a folder");
    let run = programs_of("docs/differentiation.md", folder.path());
    assert_eq!(run.len(), 4);
    // Figures of the page stand for any: those that count are checked here.
    let number_before = |name: &str, word: &str| -> f64 {
        let (_, said) = run.iter().find(|(other, _)| other == name).expect("an example");
        let words: Vec<&str> = said.split_whitespace().collect();
        let place = words.iter().rposition(|other| *other == word).expect("the word");
        words[place - 1].parse().expect("a number")
    };
    assert!(number_before("train", "right:") >= 354.0, "fewer than `models/digits` reads rightly");
    assert!(number_before("tree", "right") >= 195.0, "of 200 formulas");
    assert!(number_before("orbit", "after") <= 1e-3, "of a mean square of 6.5");
}

#[test]
fn a_picture_is_classified() {
    let digits = root().join("models/digits");
    let arguments = [digits.join("digits.onnx"), digits.join("three.png")];
    let (said, status) = printed(Command::new(example("classify")).args(arguments));
    assert!(status.success(), "{said}");
    assert!(said.contains("100.00 %  class 3"), "{said}");
}

/// The server, stopped at the end.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have stopped by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn callers_are_served_at_once() {
    let digits = root().join("models/digits");
    let mut server = Command::new(example("serve"))
        .args([digits.join("digits.onnx"), "127.0.0.1:0".into()])
        .stdout(Stdio::piped())
        .spawn()
        .map(Server)
        .expect("the server starts");
    let mut said = String::new();
    let stdout = server.0.stdout.take().expect("what it says");
    BufReader::new(stdout).read_line(&mut said).expect("a line");
    let address = said.trim().rsplit('/').next().expect("an address").to_owned();

    let images = std::fs::read(digits.join("test_images.npy")).expect("the images");
    let ask = |body: &[u8]| {
        let mut stream = TcpStream::connect(&address).expect("a connection");
        let head = format!("POST / HTTP/1.1\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).expect("a request");
        stream.write_all(body).expect("a body");
        stream.shutdown(std::net::Shutdown::Write).expect("no more requests");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        let end = answer.windows(4).position(|it| it == b"\r\n\r\n").expect("a head") + 4;
        (String::from_utf8_lossy(&answer[..end]).into_owned(), answer[end..].to_vec())
    };
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..4).map(|_| scope.spawn(|| ask(&images))).collect();
        for caller in callers {
            let (head, body) = caller.join().expect("an answer");
            assert!(head.starts_with("HTTP/1.1 200"), "{head}");
            let scores = tensor::npy::decode(body.into(), "the answer").expect("an array");
            assert_eq!(scores.shape(), [360, 10]);
        }
    });
    let (head, body) = ask(b"no array");
    assert!(head.starts_with("HTTP/1.1 400"), "{head}");
    assert!(String::from_utf8_lossy(&body).contains("TW0206"), "{body:?}");
}
