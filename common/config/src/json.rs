//! Parses JSON text to a tree with places. After a mistake the parser continues where that is safe, so that one reading reports all
//! mistakes.
//!
//! No maintained library gives the place of each value, reports all mistakes of a file at once, and understands common slips such as comments
//! and single quotes. So this parser is our own.

mod scalars;

use crate::format::{MAX_DEPTH, Stop, TextReading, ValueBudget, too_deep};
use crate::problem::Problem;
use crate::tree::{MapEntry, Node, Object, Place, Value, shorten};

/// The reported mistakes of one file. A file with more is in another format.
const MAX_OFFENCES: usize = 50;

pub(crate) fn read(text: &str) -> TextReading {
    let mut parser = Parser {
        text,
        offset: 0,
        place: Place::START,
        open: Vec::new(),
        problems: Vec::new(),
        content: TreeContent::Known,
        brackets: Brackets::Counted,
        comma_may_be_lost: false,
        quote_may_close: false,
        string_is_wrong: false,
        budget: ValueBudget::default(),
    };
    let node = parser.document().ok();
    // The problem of a comma is found only at the next token.
    parser.problems.sort_by_key(Problem::place);
    TextReading {
        node: node.filter(|_| parser.content == TreeContent::Known),
        problems: parser.problems,
    }
}

/// Returns the value of a text that is valid JSON and nothing else.
pub(crate) fn value_of(text: &str) -> Option<Node> {
    let reading = read(text);
    reading.node.filter(|_| reading.problems.is_empty())
}

/// Whether the tree holds the whole content, whatever mistakes its spelling has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TreeContent {
    Known,
    Lost,
}

/// Whether the parser may have skipped an opening or closing bracket. If so, a bracket that does not fit is not reported.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Brackets {
    Counted,
    Doubtful,
}

/// A token that may stand at a place.
#[derive(Clone, Copy)]
enum Expected<'k> {
    Value,
    Key,
    Colon(&'k str),
    /// A comma, or this end of the container.
    Next(u8),
    End,
}

impl Expected<'_> {
    fn text(self) -> String {
        match self {
            Expected::Value => "a value".to_owned(),
            Expected::Key => "a key in double quotes".to_owned(),
            Expected::Colon(key) => format!("`:` after the key {:?}", shorten(key)),
            Expected::Next(end) => format!("`,` or `{}`", char::from(end)),
            Expected::End => "the end of the file".to_owned(),
        }
    }
}

/// The token after an item of a container.
enum Next {
    Item,
    End,
}

struct Parser<'a> {
    text: &'a str,
    offset: usize,
    place: Place,
    /// The ends of the containers around this place, outermost first.
    open: Vec<u8>,
    problems: Vec<Problem>,
    content: TreeContent,
    brackets: Brackets,
    /// The parser skipped the end of a line, perhaps with a comma.
    comma_may_be_lost: bool,
    /// The last string was not closed on its line, so the next quote may be its end.
    quote_may_close: bool,
    /// The last string was reported as wrong.
    string_is_wrong: bool,
    budget: ValueBudget,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.offset).copied()
    }

    /// Skips one byte. Only the first byte of a character moves the column.
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

    fn rest(&self) -> &str {
        &self.text[self.offset..]
    }

    /// Reports a problem, unless one was reported at the same place.
    fn report(&mut self, problem: Problem) -> Result<(), Stop> {
        let told = self
            .problems
            .last()
            .is_some_and(|last| last.place() == problem.place());
        if !told {
            self.problems.push(problem);
        }
        if self.problems.len() < MAX_OFFENCES {
            return Ok(());
        }
        self.content = TreeContent::Lost;
        Err(Stop)
    }

    /// Reports the end of the text where something had to follow.
    fn cut_off(&mut self, what: Expected) -> Stop {
        self.content = TreeContent::Lost;
        if self.brackets == Brackets::Counted {
            let problem = self.expected(&what.text());
            // No text follows, so a full list of problems makes no difference.
            let _ = self.report(problem);
        }
        Stop
    }

    /// Returns "expected X, found Y" at the current place.
    fn expected(&self, what: &str) -> Problem {
        let found = match self.rest().chars().next() {
            None => "the end of the file".to_owned(),
            Some(c) if c.is_control() => format!("`{}`", c.escape_debug()),
            Some(c) => format!("`{c}`"),
        };
        let problem = self
            .problem(self.place, format!("expected {what}, found {found}"))
            .value(found);
        match self.peek() {
            Some(b'/' | b'#') => problem.help("JSON has no comments"),
            Some(b'\'') => problem.help("JSON strings are in double quotes"),
            _ => problem,
        }
    }

    fn problem(&self, place: Place, message: impl Into<String>) -> Problem {
        Problem::new(place, String::new(), message.into())
    }

    /// Skips white space. Reports and skips comments.
    fn skip_space(&mut self, what: Expected) -> Result<(), Stop> {
        loop {
            match self.peek() {
                Some(b' ' | b'\t' | b'\r' | b'\n') => self.bump(),
                Some(b'#') => {
                    self.report(self.expected(&what.text()))?;
                    self.skip_line();
                }
                Some(b'/') if self.rest().starts_with("//") => {
                    self.report(self.expected(&what.text()))?;
                    self.skip_line();
                }
                Some(b'/') if self.rest().starts_with("/*") => {
                    self.report(self.expected(&what.text()))?;
                    let end = self.rest().find("*/").map(|at| at + 2);
                    self.skip_bytes(end.unwrap_or(self.rest().len()));
                }
                _ => return Ok(()),
            }
        }
    }

    fn skip_bytes(&mut self, count: usize) {
        for _ in 0..count {
            self.bump();
        }
    }

    fn skip_line(&mut self) {
        while !matches!(self.peek(), None | Some(b'\n')) {
            self.bump();
        }
    }

    /// Skips the rest of the line, whose meaning is unclear.
    fn lose_line(&mut self) {
        let start = self.offset;
        self.skip_line();
        self.lose(start);
        self.comma_may_be_lost = true;
    }

    /// Marks the content skipped since `start` as lost.
    fn lose(&mut self, start: usize) {
        self.content = TreeContent::Lost;
        let passed = &self.text.as_bytes()[start..self.offset];
        let has_brackets = passed
            .iter()
            .any(|b| matches!(b, b'{' | b'}' | b'[' | b']'));
        if has_brackets || self.peek().is_none() {
            self.brackets = Brackets::Doubtful;
        }
    }

    /// Skips an invalid scalar up to a comma or an end on its line. Skips the line if it has more than a scalar.
    fn lose_scalar(&mut self) {
        let start = self.offset;
        loop {
            match self.peek() {
                None => return self.lose(start),
                Some(b',' | b']' | b'}' | b'\n') => return,
                Some(b'"' | b'\'' | b'{' | b'[' | b':') => return self.lose_line(),
                Some(_) => self.bump(),
            }
        }
    }

    fn document(&mut self) -> Result<Node, Stop> {
        self.skip_space(Expected::Value)?;
        let node = self.value(0)?;
        self.skip_space(Expected::End)?;
        if self.peek().is_some() && self.brackets == Brackets::Counted {
            self.content = TreeContent::Lost;
            self.report(self.expected(&Expected::End.text()))?;
        }
        Ok(node)
    }

    /// Reads a value, or skips the text in its place.
    fn value(&mut self, depth: usize) -> Result<Node, Stop> {
        let place = self.place;
        let too_much = match self.peek() {
            Some(b'{' | b'[') if depth >= MAX_DEPTH => Err(too_deep(place)),
            _ => self.budget.take(place),
        };
        if let Err(problem) = too_much {
            self.content = TreeContent::Lost;
            self.report(problem)?;
            return Err(Stop);
        }
        let value = match self.peek() {
            Some(b'{') => Value::Object(self.object(depth)?),
            Some(b'[') => Value::Array(self.array(depth)?),
            Some(b'"') => {
                let text = self.string()?;
                match std::mem::take(&mut self.string_is_wrong) {
                    false => Value::String(text),
                    true => Value::Unread,
                }
            }
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(byte) if byte.is_ascii_alphabetic() => self.word()?,
            Some(b'\'') => {
                self.report(self.expected(&Expected::Value.text()))?;
                Value::String(self.single_quoted())
            }
            Some(b',' | b']' | b'}') => {
                self.report(self.expected(&Expected::Value.text()))?;
                Value::Unread
            }
            Some(_) => {
                self.report(self.expected(&Expected::Value.text()))?;
                self.lose_scalar();
                Value::Unread
            }
            None => return Err(self.cut_off(Expected::Value)),
        };
        Ok(Node { place, value })
    }

    fn array(&mut self, depth: usize) -> Result<Vec<Node>, Stop> {
        self.open.push(b']');
        self.bump();
        let mut items = Vec::new();
        self.skip_space(Expected::Value)?;
        if self.peek() == Some(b']') {
            self.close();
            return Ok(items);
        }
        loop {
            self.skip_space(Expected::Value)?;
            self.skip_commas(Expected::Value)?;
            if self.peek() != Some(b']') {
                items.push(self.value(depth + 1)?);
            }
            match self.next(b']')? {
                Next::Item => {}
                Next::End => return Ok(items),
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Object, Stop> {
        self.open.push(b'}');
        self.bump();
        let mut entries = Vec::new();
        self.skip_space(Expected::Key)?;
        if self.peek() == Some(b'}') {
            self.close();
            return Ok(Object::new(entries));
        }
        loop {
            self.skip_space(Expected::Key)?;
            self.skip_commas(Expected::Key)?;
            if self.peek() != Some(b'}') {
                entries.extend(self.entry(depth)?);
            }
            match self.next(b'}')? {
                Next::Item => {}
                Next::End => return Ok(Object::new(entries)),
            }
        }
    }

    fn entry(&mut self, depth: usize) -> Result<Option<MapEntry>, Stop> {
        let place = self.place;
        let Some(key) = self.key()? else {
            return Ok(None);
        };
        if self.comma_may_be_lost {
            // The key swallowed its line, including the colon.
            return Ok(None);
        }
        self.skip_space(Expected::Colon(&key))?;
        match self.peek() {
            Some(b':') => self.bump(),
            None => return Err(self.cut_off(Expected::Colon(&key))),
            Some(found) => {
                self.report(self.expected(&Expected::Colon(&key).text()))?;
                match found {
                    b'=' => self.bump(),
                    b',' | b'}' | b']' => {
                        let node = Node {
                            place: self.place,
                            value: Value::Unread,
                        };
                        return Ok(Some(MapEntry { key, place, node }));
                    }
                    // The colon alone is missing, or reading the value reports the problem.
                    _ => {}
                }
            }
        }
        self.skip_space(Expected::Value)?;
        let node = self.value(depth + 1)?;
        Ok(Some(MapEntry { key, place, node }))
    }

    /// Reads a key; `None` if no key begins here, which is reported.
    fn key(&mut self) -> Result<Option<String>, Stop> {
        match self.peek() {
            Some(b'"') => {
                let key = self.string()?;
                if std::mem::take(&mut self.string_is_wrong) {
                    self.content = TreeContent::Lost;
                }
                return Ok(Some(key));
            }
            None => return Err(self.cut_off(Expected::Key)),
            Some(_) => self.report(self.expected(&Expected::Key.text()))?,
        }
        match (self.peek(), self.bare_key()) {
            (Some(b'\''), _) => Ok(Some(self.single_quoted())),
            (_, Some(length)) => {
                let key = self.rest()[..length].to_owned();
                self.skip_bytes(length);
                Ok(Some(key))
            }
            (Some(b'}' | b']'), None) => Ok(None),
            (_, None) => {
                self.lose_line();
                Ok(None)
            }
        }
    }

    /// Returns the length of an unquoted word before a colon, which was meant as a key.
    fn bare_key(&self) -> Option<usize> {
        let rest = self.rest();
        let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"_->.".contains(c))?;
        let colon = rest[length..].trim_start_matches([' ', '\t']);
        (length > 0 && colon.starts_with(':')).then_some(length)
    }

    /// Returns whether an item begins here without a comma before it.
    fn begins_item(&self, end: u8) -> bool {
        let first = self.peek();
        if end == b']' {
            return matches!(first, Some(b'"' | b'\'' | b'{' | b'[' | b'-' | b'0'..=b'9'))
                || first.is_some_and(|b| b.is_ascii_alphabetic()) && !self.quote_may_close;
        }
        let line = self.rest().lines().next().unwrap_or("");
        let quote = match first {
            Some(b'"') => '"',
            Some(b'\'') => '\'',
            _ => return self.bare_key().is_some(),
        };
        let after = line[1..].split_once(quote).map(|(_, after)| after);
        after.is_some_and(|after| after.trim_start().starts_with(':'))
    }

    /// Skips commas where an item should begin. Several without an item between them are reported once.
    fn skip_commas(&mut self, what: Expected) -> Result<(), Stop> {
        if self.peek() == Some(b',') {
            self.report(self.expected(&what.text()))?;
            while self.peek() == Some(b',') {
                self.bump();
                self.skip_space(what)?;
            }
        }
        Ok(())
    }

    fn close(&mut self) {
        self.bump();
        self.open.pop();
    }

    /// Skips the text after an item, up to the next item or past the end of the container.
    fn next(&mut self, end: u8) -> Result<Next, Stop> {
        loop {
            self.skip_space(Expected::Next(end))?;
            let comma_is_lost = std::mem::take(&mut self.comma_may_be_lost);
            match self.peek() {
                Some(b',') => return self.comma(end),
                Some(byte) if byte == end => {
                    self.close();
                    return Ok(Next::End);
                }
                None => return Err(self.cut_off(Expected::Next(end))),
                Some(other @ (b']' | b'}')) => {
                    self.wrong_end(end, other)?;
                    return Ok(Next::End);
                }
                Some(_) => {
                    if !comma_is_lost {
                        self.report(self.expected(&Expected::Next(end).text()))?;
                    }
                    if self.begins_item(end) {
                        return Ok(Next::Item);
                    }
                    self.lose_line();
                }
            }
        }
    }

    /// Handles the end of another kind of container.
    fn wrong_end(&mut self, end: u8, found: u8) -> Result<(), Stop> {
        if self.brackets == Brackets::Counted {
            self.report(self.expected(&Expected::Next(end).text()))?;
        }
        self.brackets = Brackets::Doubtful;
        self.content = TreeContent::Lost;
        self.open.pop();
        // The bracket either ends a container around this one, which was not closed, or is a typo for this container's end.
        if !self.open.contains(&found) {
            self.bump();
        }
        Ok(())
    }

    /// Skips a comma. One before the end of its container gets its own message, because it is the most common typo.
    fn comma(&mut self, end: u8) -> Result<Next, Stop> {
        let comma = self.place;
        self.bump();
        let what = match end {
            b']' => Expected::Value,
            _ => Expected::Key,
        };
        self.skip_space(what)?;
        if self.peek() != Some(end) {
            return Ok(Next::Item);
        }
        let text = format!("a comma before the closing `{}`", char::from(end));
        self.report(self.problem(comma, text).help("remove the comma"))?;
        self.close();
        Ok(Next::End)
    }
}

#[cfg(test)]
mod tests;
