//! Parses words, numbers and strings of JSON.

use super::{Parser, Stop};
use crate::numbers::number_from;
use crate::problem::Problem;
use crate::tree::{Place, Value, shorten};

impl Parser<'_> {
    /// Reads a bare word. Reports every word except `null`, `true` and `false`. Other spellings of these keep their meaning, so that parsing
    /// continues; any other word becomes `Unread`.
    pub(super) fn word(&mut self) -> Result<Value, Stop> {
        let rest = &self.text[self.offset..];
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        let word = &rest[..end];
        let (value, is_json) = match word {
            "null" => (Some(Value::Null), true),
            "true" => (Some(Value::Bool(true)), true),
            "false" => (Some(Value::Bool(false)), true),
            "None" | "nil" => (Some(Value::Null), false),
            _ if word.eq_ignore_ascii_case("null") => (Some(Value::Null), false),
            _ if word.eq_ignore_ascii_case("true") => (Some(Value::Bool(true)), false),
            _ if word.eq_ignore_ascii_case("false") => (Some(Value::Bool(false)), false),
            _ => (None, false),
        };
        if !is_json {
            let shown = shorten(word);
            self.report(
                self.problem(self.place, format!("expected a value, found `{shown}`"))
                    .value(shown)
                    .help("true, false and null are in lower case, texts in double quotes"),
            )?;
        }
        match value {
            Some(value) => {
                self.skip_bytes(end);
                Ok(value)
            }
            None => {
                self.lose_scalar();
                Ok(Value::Unread)
            }
        }
    }

    /// Reads a number. Reports an invalid or too large one, which becomes `Unread`.
    pub(super) fn number(&mut self) -> Result<Value, Stop> {
        let (start, place) = (self.offset, self.place);
        if let Err(problem) = self.skip_number(place) {
            self.report(problem)?;
            self.lose_scalar();
            return Ok(Value::Unread);
        }
        let text = &self.text[start..self.offset];
        if let Some(number) = number_from(text) {
            return Ok(Value::Number(number));
        }
        let shown = shorten(text);
        let problem = self
            .problem(place, format!("the number {shown} is too large"))
            .value(shown);
        self.report(problem)?;
        Ok(Value::Unread)
    }

    /// Skips the characters of a number. Returns the first violation of JSON's syntax without reporting it.
    fn skip_number(&mut self, place: Place) -> Result<(), Problem> {
        if self.peek() == Some(b'-') {
            self.bump();
        }
        if self.peek() == Some(b'0') {
            self.bump();
            if let Some(b'0'..=b'9') = self.peek() {
                let problem = self.problem(place, "a number starts with 0");
                return Err(problem.help("remove the leading zero"));
            }
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.bump();
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.bump();
            if let Some(b'+' | b'-') = self.peek() {
                self.bump();
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Problem> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.expected("a digit"));
        }
        while let Some(b'0'..=b'9') = self.peek() {
            self.bump();
        }
        Ok(())
    }

    /// Reads a string in single quotes, which JSON does not have and the caller has reported. The string ends at the next single quote of the
    /// line, without escapes. If there is none, the rest of the line is lost, and the string is empty.
    pub(super) fn single_quoted(&mut self) -> String {
        let line = self.rest().lines().next().unwrap_or("");
        let Some(length) = line[1..].find('\'') else {
            self.lose_line();
            return String::new();
        };
        let text = line[1..=length].to_owned();
        self.skip_bytes(length + 2);
        text
    }

    /// Reads a string in double quotes. Reports only the first mistake in it. A string without a closing quote ends with its line; errors if
    /// that is the end of the text.
    pub(super) fn string(&mut self) -> Result<String, Stop> {
        let (open, opened) = (self.place, self.offset);
        self.bump();
        let mut out = String::new();
        let mut problem: Option<Problem> = None;
        loop {
            let start = self.offset;
            while matches!(self.peek(), Some(b) if b != b'"' && b != b'\\' && b >= 0x20) {
                self.bump();
            }
            out.push_str(&self.text[start..self.offset]);
            match self.peek() {
                Some(b'"') => {
                    self.bump();
                    self.quote_may_close = false;
                    break;
                }
                Some(b'\\') => match self.escape() {
                    Ok(escaped) => out.push(escaped),
                    Err(wrong) => problem = problem.or(Some(wrong)),
                },
                Some(b'\n' | b'\r') | None => {
                    self.lose(opened);
                    self.comma_may_be_lost = true;
                    let unclosed = self
                        .problem(open, "a string without its closing quote")
                        .help("add the quote, or write a line break as \\n");
                    if !std::mem::replace(&mut self.quote_may_close, true) {
                        self.report(problem.unwrap_or(unclosed))?;
                    }
                    // Nothing is left to read at the end of the file.
                    return self.peek().map(|_| out).ok_or(Stop);
                }
                Some(byte) => {
                    let text = format!("a control character in a string; write \\u{byte:04x}");
                    problem = problem.or_else(|| Some(self.problem(self.place, text)));
                    self.bump();
                }
            }
        }
        if let Some(problem) = problem {
            self.string_is_wrong = true;
            self.report(problem)?;
        }
        Ok(out)
    }

    fn escape(&mut self) -> Result<char, Problem> {
        let place = self.place;
        self.bump();
        let simple = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.bump();
                return self.unicode_escape(place);
            }
            _ => {
                let problem = self.problem(place, "an unknown escape");
                return Err(problem.help(r#"known are \" \\ \/ \b \f \n \r \t \uXXXX"#));
            }
        };
        self.bump();
        Ok(simple)
    }

    /// Reads the rest after `\u`: four digits, or a surrogate pair of two such escapes.
    fn unicode_escape(&mut self, place: Place) -> Result<char, Problem> {
        let lone = |parser: &Self| {
            parser.problem(place, "half of a surrogate pair, which is no character")
        };
        let first = self.four_hex_digits()?;
        let code = match first {
            0xd800..=0xdbff => {
                if !self.rest().starts_with("\\u") {
                    return Err(lone(self));
                }
                self.skip_bytes(2);
                match self.four_hex_digits()? {
                    second @ 0xdc00..=0xdfff => {
                        0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
                    }
                    _ => return Err(lone(self)),
                }
            }
            _ => first,
        };
        char::from_u32(code).ok_or_else(|| lone(self))
    }

    fn four_hex_digits(&mut self) -> Result<u32, Problem> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|b| char::from(b).to_digit(16));
            let Some(digit) = digit else {
                return Err(self.expected("four hexadecimal digits after \\u"));
            };
            code = code * 16 + digit;
            self.bump();
        }
        Ok(code)
    }
}
