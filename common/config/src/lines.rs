//! Converts an offset in a text to its line and column, at the same cost everywhere.

use crate::tree::Place;

/// Bytes between two stored counts. A lookup scans at most this many bytes, and the counts take a thirtieth of the text.
const BLOCK: usize = 256;

pub(crate) struct Lines<'a> {
    text: &'a [u8],
    /// The start of each line.
    starts: Vec<usize>,
    /// The number of characters before each block.
    characters: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub fn new(text: &'a str) -> Lines<'a> {
        let text = text.as_bytes();
        let ends = text.iter().enumerate().filter(|(_, b)| **b == b'\n');
        let starts = [0].into_iter().chain(ends.map(|(i, _)| i + 1)).collect();
        let mut characters = Vec::with_capacity(text.len() / BLOCK + 1);
        let mut count = 0;
        for block in text.chunks(BLOCK) {
            characters.push(count);
            count += characters_in(block);
        }
        characters.push(count);
        Lines {
            text,
            starts,
            characters,
        }
    }

    pub fn place(&self, offset: usize) -> Place {
        let offset = offset.min(self.text.len());
        let line = self.starts.partition_point(|&start| start <= offset);
        // Invariant: the first line starts at 0, so at least one line starts here or before.
        let start = self.starts[line - 1];
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Place {
            line: number(line),
            column: number(self.before(offset) - self.before(start) + 1),
        }
    }

    fn before(&self, offset: usize) -> usize {
        let block = offset / BLOCK;
        self.characters[block] + characters_in(&self.text[block * BLOCK..offset])
    }
}

/// Returns the number of characters that start in these bytes.
fn characters_in(bytes: &[u8]) -> usize {
    bytes.iter().filter(|b| **b & 0xc0 != 0x80).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_offset_has_the_place_that_counting_gives() {
        let text = format!("a\nüöä{}\n\n€€€{}end", "x".repeat(600), "y\n".repeat(300));
        let lines = Lines::new(&text);
        for (offset, _) in text.char_indices().chain([(text.len(), ' ')]) {
            assert_eq!(
                lines.place(offset),
                Place::after(&text[..offset]),
                "{offset}"
            );
        }
        assert_eq!(lines.place(usize::MAX), Place::after(&text));
        assert_eq!(Lines::new("").place(0), Place::START);
    }
}
