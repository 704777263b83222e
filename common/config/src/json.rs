//! JSON text to a tree with places; the first thing that is no JSON ends it, with what was expected there.

use serde_json::Number;

use crate::problem::Problem;
use crate::tree::{Entry, Node, Object, Place, Value, shorten};

/// The largest file: a million nodes listed by hand at 64 bytes each.
pub const MAX_CONFIG_BYTES: usize = 64 << 20;

/// The deepest nesting: half of the 128 that JSON readers commonly stop at, so that a job's `config` can still be wrapped in
/// the argument of a task and in messages.
pub const MAX_DEPTH: usize = 64;

pub(crate) fn parse(text: &str) -> Result<Node, Problem> {
    if text.len() > MAX_CONFIG_BYTES {
        return Err(Problem::new(
            Place::START,
            String::new(),
            format!(
                "the file has {} bytes; at most {MAX_CONFIG_BYTES} are allowed",
                text.len()
            ),
        ));
    }
    // A byte order mark at the start is no content.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut parser = Parser {
        text,
        offset: 0,
        place: Place::START,
    };
    parser.skip_space();
    if parser.peek().is_none() {
        return Err(parser.error("the file is empty").help("a JSON object"));
    }
    let node = parser.value(0)?;
    parser.skip_space();
    match parser.peek() {
        None => Ok(node),
        Some(_) => Err(parser.expected("the end of the file")),
    }
}

struct Parser<'a> {
    text: &'a str,
    offset: usize,
    place: Place,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.offset).copied()
    }

    /// Passes one byte. Only the first byte of a character moves the column.
    fn bump(&mut self) {
        match self.peek() {
            None => return,
            Some(b'\n') => {
                self.place.line += 1;
                self.place.column = 1;
            }
            Some(byte) if byte & 0xc0 == 0x80 => {}
            Some(_) => self.place.column += 1,
        }
        self.offset += 1;
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.bump();
        }
    }

    fn error(&self, message: impl Into<String>) -> Problem {
        Problem::new(self.place, String::new(), message.into())
    }

    /// "expected X, found Y" at the current place.
    fn expected(&self, what: &str) -> Problem {
        let found = match self.text[self.offset..].chars().next() {
            None => "the end of the file".to_owned(),
            Some(c) if c.is_control() => format!("`{}`", c.escape_debug()),
            Some(c) => format!("`{c}`"),
        };
        let problem = self
            .error(format!("expected {what}, found {found}"))
            .value(found);
        match self.peek() {
            Some(b'/' | b'#') => problem.help("JSON has no comments"),
            Some(b'\'') => problem.help("JSON strings are in double quotes"),
            _ => problem,
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, Problem> {
        let place = self.place;
        if depth >= MAX_DEPTH && matches!(self.peek(), Some(b'{' | b'[')) {
            return Err(self.error(format!("nested more than {MAX_DEPTH} deep")));
        }
        let value = match self.peek() {
            Some(b'{') => Value::Object(self.object(depth)?),
            Some(b'[') => Value::Array(self.array(depth)?),
            Some(b'"') => Value::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => Value::Number(self.number()?),
            Some(byte) if byte.is_ascii_alphabetic() => self.word()?,
            _ => return Err(self.expected("a value")),
        };
        Ok(Node { place, value })
    }

    fn word(&mut self) -> Result<Value, Problem> {
        let rest = &self.text[self.offset..];
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        let word = &rest[..end];
        let value = match word {
            "null" => Value::Null,
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => {
                let shown = shorten(word);
                return Err(self
                    .error(format!("expected a value, found `{shown}`"))
                    .value(shown)
                    .help("true, false and null are in lower case, texts in double quotes"));
            }
        };
        for _ in 0..end {
            self.bump();
        }
        Ok(value)
    }

    fn array(&mut self, depth: usize) -> Result<Vec<Node>, Problem> {
        self.bump();
        let mut items = Vec::new();
        self.skip_space();
        if self.peek() == Some(b']') {
            self.bump();
            return Ok(items);
        }
        loop {
            self.skip_space();
            items.push(self.value(depth + 1)?);
            self.skip_space();
            match self.peek() {
                Some(b',') => self.comma(b']')?,
                Some(b']') => {
                    self.bump();
                    return Ok(items);
                }
                _ => return Err(self.expected("`,` or `]`")),
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Object, Problem> {
        self.bump();
        let mut entries = Vec::new();
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.bump();
            return Ok(Object::new(entries));
        }
        loop {
            self.skip_space();
            let place = self.place;
            if self.peek() != Some(b'"') {
                return Err(self.expected("a key in double quotes"));
            }
            let key = self.string()?;
            self.skip_space();
            if self.peek() != Some(b':') {
                return Err(self.expected(&format!("`:` after the key {:?}", shorten(&key))));
            }
            self.bump();
            self.skip_space();
            let node = self.value(depth + 1)?;
            entries.push(Entry { key, place, node });
            self.skip_space();
            match self.peek() {
                Some(b',') => self.comma(b'}')?,
                Some(b'}') => {
                    self.bump();
                    return Ok(Object::new(entries));
                }
                _ => return Err(self.expected("`,` or `}`")),
            }
        }
    }

    /// Passes a comma; one before the end of its container is named, because it is the commonest slip.
    fn comma(&mut self, end: u8) -> Result<(), Problem> {
        let comma = self.place;
        self.bump();
        self.skip_space();
        if self.peek() == Some(end) {
            return Err(Problem::new(
                comma,
                String::new(),
                format!("a comma before the closing `{}`", char::from(end)),
            )
            .help("remove the comma"));
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

    fn number(&mut self) -> Result<Number, Problem> {
        let (start, place) = (self.offset, self.place);
        if self.peek() == Some(b'-') {
            self.bump();
        }
        if self.peek() == Some(b'0') {
            self.bump();
            if let Some(b'0'..=b'9') = self.peek() {
                return Err(Problem::new(
                    place,
                    String::new(),
                    "a number starts with 0".to_owned(),
                )
                .help("remove the leading zero"));
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
        let text = &self.text[start..self.offset];
        number_from(text).ok_or_else(|| {
            Problem::new(
                place,
                String::new(),
                format!("the number {} is too large", shorten(text)),
            )
            .value(shorten(text))
        })
    }

    fn string(&mut self) -> Result<String, Problem> {
        let open = self.place;
        self.bump();
        let mut out = String::new();
        loop {
            let start = self.offset;
            while matches!(self.peek(), Some(b) if b != b'"' && b != b'\\' && b >= 0x20) {
                self.bump();
            }
            out.push_str(&self.text[start..self.offset]);
            match self.peek() {
                Some(b'"') => {
                    self.bump();
                    return Ok(out);
                }
                Some(b'\\') => {
                    let escaped = self.escape()?;
                    out.push(escaped);
                }
                Some(b'\n' | b'\r') | None => {
                    return Err(Problem::new(
                        open,
                        String::new(),
                        "a string without its closing quote".to_owned(),
                    )
                    .help("add the quote, or write a line break as \\n"));
                }
                Some(byte) => {
                    return Err(self.error(format!(
                        "a control character in a string; write \\u{byte:04x}"
                    )));
                }
            }
        }
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
                return Err(
                    Problem::new(place, String::new(), "an unknown escape".to_owned())
                        .help(r#"known are \" \\ \/ \b \f \n \r \t \uXXXX"#),
                );
            }
        };
        self.bump();
        Ok(simple)
    }

    /// After `\u`: four digits, or a surrogate pair of two such escapes.
    fn unicode_escape(&mut self, place: Place) -> Result<char, Problem> {
        let lone = || {
            Problem::new(
                place,
                String::new(),
                "half of a surrogate pair, which is no character".to_owned(),
            )
        };
        let first = self.four_hex_digits()?;
        let code = match first {
            0xd800..=0xdbff => {
                if !self.text[self.offset..].starts_with("\\u") {
                    return Err(lone());
                }
                self.bump();
                self.bump();
                match self.four_hex_digits()? {
                    second @ 0xdc00..=0xdfff => {
                        0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
                    }
                    _ => return Err(lone()),
                }
            }
            _ => first,
        };
        char::from_u32(code).ok_or_else(lone)
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

/// The number that JSON text spells: exact where it is a 64-bit integer, else the nearest double. `None`: beyond a double.
pub(crate) fn number_from(text: &str) -> Option<Number> {
    if let Ok(n) = text.parse::<i64>()
        && text != "-0"
    {
        return Some(n.into());
    }
    if let Ok(n) = text.parse::<u64>() {
        return Some(n.into());
    }
    text.parse::<f64>().ok().and_then(Number::from_f64)
}

#[cfg(test)]
mod tests;
