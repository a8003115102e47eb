//! Builds as one HTML page that needs nothing else: styles, scripts and data are in it.
//!
//! The data is deflated JSON in base64, so nothing that a model's file says stands in the page as
//! markup; the scripts put texts into text nodes alone, and the page's policy lets nothing be
//! fetched and no other script run.

use miniz_oxide::deflate::compress_to_vec;

use super::Build;

const STYLE: &str = include_str!("page/explorer.css");
const BODY: &str = include_str!("page/body.html");
/// In the order in which they are run.
const SCRIPTS: [&str; 8] = [
    include_str!("page/data.js"),
    include_str!("page/list.js"),
    include_str!("page/graph.js"),
    include_str!("page/kernels.js"),
    include_str!("page/memory.js"),
    include_str!("page/texts.js"),
    include_str!("page/compare.js"),
    include_str!("page/main.js"),
];

/// How much work is put into making the data small, of 10: more takes twice as long for a
/// twentieth less.
const LEVEL: u8 = 6;

/// The page of one build, or of two side by side.
#[must_use]
pub fn page(title: &str, builds: &[Build]) -> String {
    let mut text = String::new();
    text.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    text.push_str("<meta name=\"viewport\" content=\"width=device-width\">\n");
    // The scripts are told by a word that texts of models would have to guess in vain: their
    // characters are escaped, or in base64.
    text.push_str(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; img-src data:; script-src 'nonce-explorer'\">\n",
    );
    text.push_str(&format!("<title>{}</title>\n<style>\n{STYLE}</style>\n", escaped(title)));
    text.push_str("</head>\n<body>\n");
    text.push_str(BODY);
    for (number, build) in builds.iter().enumerate() {
        let label = escaped(&build.label);
        for (name, content) in &build.sections {
            let packed = base64(&compress_to_vec(content.to_string().as_bytes(), LEVEL));
            text.push_str(&format!(
                "<script type=\"application/octet-stream\" data-build=\"{number}\" \
                 data-label=\"{label}\" data-section=\"{name}\">{packed}</script>\n"
            ));
        }
    }
    text.push_str("<script nonce=\"explorer\">\n\"use strict\";\n");
    SCRIPTS.iter().for_each(|script| text.push_str(script));
    text.push_str("</script>\n</body>\n</html>\n");
    text
}

/// A text as it may stand in an element or in a quoted attribute.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(character),
        }
    }
    escaped
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |place: usize| u32::from(group.get(place).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= group.len() { letter.into() } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        let cases = ["", "f", "fo", "foo", "foob", "fooba", "foobar"];
        let expected = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"];
        assert_eq!(cases.map(|case| base64(case.as_bytes())), expected);
    }

    #[test]
    fn nothing_that_is_given_is_markup() {
        let hostile = "</title></script><img src=x onerror='alert(1)'>\"";
        let sections = vec![("summary", serde_json::json!({ "nodes": [hostile] }))];
        let text = page(hostile, &[Build { label: hostile.to_owned(), sections }]);
        assert!(!text.contains("<img"));
        let own: usize = SCRIPTS.iter().map(|script| script.matches("</script").count()).sum();
        assert_eq!(own, 0, "a script would end early");
        assert_eq!(text.matches("</script>").count(), 2);
    }
}
