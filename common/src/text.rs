//! Escapes text from peers and files before it reaches a terminal, a page or a log, so that it cannot move the cursor or imitate our own
//! lines.
//!
//! Names of jobs, nodes, workers and hosts and the errors of peers may be any text without NUL.

/// Returns `text` on one line, with each control character escaped as in Rust's `Debug`: also newlines, tabs, the C1 controls that
/// terminals take for escape sequences, and characters that are not seen, because they have no width or change only the text around them.
/// So names that differ in such characters look different. Letters or spaces that look alike are not told apart.
pub fn printable(text: &str) -> String {
    escape(text, |_| false)
}

/// Returns `text` like [`printable`] does, but keeps newlines and tabs, for text that has lines of its own.
pub fn printable_lines(text: &str) -> String {
    escape(text, |c| c == '\n' || c == '\t')
}

/// Returns `text` like [`printable_lines`] does, with each line but the first indented, so that none of them looks like a new message.
pub fn printable_block(text: &str) -> String {
    printable_lines(text.trim_end_matches('\n')).replace('\n', "\n  ")
}

/// Escapes characters in a JSON document that JSON allows unescaped but a terminal may interpret. Newlines between values stay.
pub fn printable_json(document: &str) -> String {
    let mut text = String::with_capacity(document.len());
    for c in document.chars() {
        if !is_unprintable(c) || c == '\n' {
            text.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            text.push_str(&format!("\\u{unit:04x}"));
        }
    }
    text
}

/// Returns a number with its noun, as in `1 worker` and `2 workers`.
pub fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Quotes the text as one word of a shell's command line.
pub fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// Returns a number of bytes in the largest unit of which there is at least one, as in `77 B` or `12.5 MiB`.
pub fn readable_bytes(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|(bits, _)| bytes >> bits > 0) {
        Some((bits, unit)) => format!("{:.1} {unit}", bytes as f64 / (1_u64 << bits) as f64),
        None => format!("{bytes} B"),
    }
}

/// Returns whether a terminal may react to this character in another way than by showing it.
fn is_unprintable(c: char) -> bool {
    c.is_control() || is_unseen(c)
}

/// Returns whether `c` separates lines or paragraphs, is of Unicode's category Cf (format), or has the property Default_Ignorable_Code_Point:
/// it joins, separates, marks or directs other characters, mostly without being seen. The list is that of Unicode 16
/// (<https://www.unicode.org/Public/16.0.0/ucd/DerivedCoreProperties.txt>).
fn is_unseen(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}'
        | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

fn escape(text: &str, stays: impl Fn(char) -> bool) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        if stays(c) || !is_unprintable(c) {
            clean.push(c);
        } else if is_unseen(c) {
            clean.extend(c.escape_unicode());
        } else {
            clean.extend(c.escape_debug());
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\u{1b}[31m\"ß\"\u{7}\u{8}\r\u{7f}\u{9b}2J\u{202e}b\n\tc";

    #[test]
    fn bytes_are_shown_in_a_unit_that_fits() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1_048_575, "1024.0 KiB"),
            (13_107_200, "12.5 MiB"),
            (1_288_490_189, "1.2 GiB"),
            (u64::MAX, "16777216.0 TiB"),
        ] {
            assert_eq!(readable_bytes(bytes), text);
        }
    }

    #[test]
    fn one_line_has_no_control_characters() {
        let text = r#"a\u{1b}[31m"ß"\u{7}\u{8}\r\u{7f}\u{9b}2J\u{202e}b\n\tc"#;
        assert_eq!(printable(HOSTILE), text);
    }

    #[test]
    fn names_that_differ_in_unseen_characters_are_told_apart() {
        for (name, shown) in [
            ("w1\u{200f}", r"w1\u{200f}"),
            ("w\u{200b}1", r"w\u{200b}1"),
            ("\u{feff}w1", r"\u{feff}w1"),
            ("w\u{ad}1", r"w\u{ad}1"),
            ("w1\u{e0041}", r"w1\u{e0041}"),
            ("w1\u{fe0f}", r"w1\u{fe0f}"),
            ("w\u{34f}1", r"w\u{34f}1"),
            ("w1\u{3164}", r"w1\u{3164}"),
        ] {
            assert_eq!(printable(name), shown);
        }
        assert_eq!(printable("Größe \u{5de5}"), "Größe \u{5de5}");
        let document = format!("\"{}\"", "w\u{200b}1\u{e0041}");
        let safe = printable_json(&document);
        assert_eq!(safe, r#""w\u200b1\udb40\udc41""#);
    }

    #[test]
    fn lines_stay_lines_and_look_like_parts_of_their_message() {
        let text = printable_lines(HOSTILE);
        assert!(text.ends_with("b\n\tc"), "{text}");
        assert!(text.starts_with(r"a\u{1b}[31m"), "{text}");
        assert_eq!(printable_block("a\nb\n"), "a\n  b");
    }

    #[test]
    fn a_noun_agrees_with_its_number() {
        let texts = [0, 1, 2].map(|count| counted(count, "worker"));
        assert_eq!(texts, ["0 workers", "1 worker", "2 workers"]);
    }

    #[test]
    fn shell_words_are_quoted_where_necessary() {
        assert_eq!(shell_word("/tmp/a-1.json"), "/tmp/a-1.json");
        assert_eq!(shell_word("a b"), "'a b'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word(""), "''");
    }
}
