//! Corrupts valid frames in many ways, drawn from a seed so that a failure can be reproduced.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

use super::originals::{LENGTH_BYTES, framed};

/// Maximum length of random bytes: several messages.
const MAX_NOISE: usize = 300;
/// Maximum nesting, far beyond the server's limit.
const MAX_NESTING: usize = 20_000;

/// Whether the stream stays readable after a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// The frame's length field is correct.
    Kept,
    /// The server cannot know where the next frame begins.
    Broken,
}

/// Draws invalid frames.
pub struct Mutator {
    random: ChaCha8Rng,
    originals: Vec<Vec<u8>>,
}

impl Mutator {
    pub fn new(seed: u64, originals: Vec<Vec<u8>>) -> Self {
        Mutator {
            random: ChaCha8Rng::seed_from_u64(seed),
            originals,
        }
    }

    /// Draws the next frame.
    pub fn frame(&mut self) -> (Vec<u8>, Framing) {
        match self.below(24) {
            0 => (self.noise(), Framing::Broken),
            1 => (self.wrong_length(), Framing::Broken),
            2 => {
                let noise = self.noise();
                (framed(&noise), Framing::Kept)
            }
            3 => (framed(&self.cut_short()), Framing::Kept),
            4 => {
                let mut payload = self.cut_short();
                payload.extend(self.noise());
                (framed(&payload), Framing::Kept)
            }
            5 => (framed(&self.deep()), Framing::Kept),
            6 => (framed(&self.huge_container()), Framing::Kept),
            7 => (framed(&self.spliced()), Framing::Kept),
            8 => (framed(self.original()), Framing::Kept),
            9 | 10 => (framed(&self.changed(1)), Framing::Kept),
            11..=13 => (framed(&self.extreme_bytes()), Framing::Kept),
            _ => {
                let bits = 1 + self.below(8);
                (framed(&self.changed(bits)), Framing::Kept)
            }
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.random.next_u64() % bound as u64).unwrap_or(0)
    }

    fn original(&mut self) -> &[u8] {
        let at = self.below(self.originals.len());
        &self.originals[at]
    }

    fn noise(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; 1 + self.below(MAX_NOISE)];
        self.random.fill_bytes(&mut bytes);
        bytes
    }

    fn wrong_length(&mut self) -> Vec<u8> {
        let mut frame = framed(self.original());
        let bit = self.below(LENGTH_BYTES * 8);
        frame[bit / 8] ^= 1 << (bit % 8);
        frame
    }

    fn cut_short(&mut self) -> Vec<u8> {
        let original = self.original().to_vec();
        let end = self.below(original.len());
        original[..end].to_vec()
    }

    /// Flips single bits.
    fn changed(&mut self, bits: usize) -> Vec<u8> {
        let mut payload = self.original().to_vec();
        for _ in 0..bits {
            let bit = self.below(payload.len() * 8);
            payload[bit / 8] ^= 1 << (bit % 8);
        }
        payload
    }

    /// Sets bytes to values that are lengths, types or end marks in some places.
    fn extreme_bytes(&mut self) -> Vec<u8> {
        let mut payload = self.original().to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(payload.len());
            payload[at] = [0, 0x7F, 0x80, 0xFF, 0x0C, 0x0F][self.below(6)];
        }
        payload
    }

    /// Joins the beginning of one call and the end of another.
    fn spliced(&mut self) -> Vec<u8> {
        let mut payload = self.cut_short();
        let other = self.original().to_vec();
        let from = self.below(other.len());
        payload.extend(&other[from..]);
        payload
    }

    /// Nests structs, lists or maps deeper than any valid message.
    fn deep(&mut self) -> Vec<u8> {
        let depth = 1 + self.below(MAX_NESTING);
        // Compact: field 1 struct, or field 1 list with one list in it. Binary: field 1 struct, or field 1 list of one list.
        let (start, open): (&[u8], &[u8]) = match self.below(4) {
            0 => (b"\x82\x21\x07\x07getJobs", b"\x1c"),
            1 => (b"\x82\x21\x07\x07getJobs\x19", b"\x19"),
            2 => (
                b"\x80\x01\x00\x01\x00\x00\x00\x07getJobs\x00\x00\x00\x07",
                b"\x0c\x00\x01",
            ),
            _ => (
                b"\x80\x01\x00\x01\x00\x00\x00\x07getJobs\x00\x00\x00\x07\x0f\x00\x01",
                b"\x0f\x00\x00\x00\x01",
            ),
        };
        [start, &open.repeat(depth)].concat()
    }

    /// Declares a container or a string longer than any frame.
    fn huge_container(&mut self) -> Vec<u8> {
        let (start, kinds): (&[u8], [&[u8]; 4]) = if self.below(2) == 0 {
            // A list, set, map and string of a compact message, each with a length of 2^31 - 1.
            (
                b"\x82\x21\x07\x0cupdateStatus",
                [b"\x19\xfc", b"\x1a\xf8", b"\x1b", b"\x18"],
            )
        } else {
            (
                b"\x80\x01\x00\x01\x00\x00\x00\x0cupdateStatus\x00\x00\x00\x07",
                [
                    b"\x0f\x00\x01\x0c",
                    b"\x0e\x00\x01\x0b",
                    b"\x0d\x00\x01\x0b\x0c",
                    b"\x0b\x00\x01",
                ],
            )
        };
        let kind = kinds[self.below(4)];
        let length: &[u8] = if start[0] == 0x82 {
            b"\xff\xff\xff\xff\x07"
        } else {
            b"\x7f\xff\xff\xff"
        };
        let mut payload = [start, kind, length].concat();
        payload.extend(self.noise());
        payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hostile::originals::{Target, payloads};

    #[test]
    fn a_seed_replays_and_lengths_are_kept_where_they_should() {
        let mut one = Mutator::new(5, payloads(Target::Scheduler));
        let mut two = Mutator::new(5, payloads(Target::Scheduler));
        let mut broken = 0;
        for _ in 0..2_000 {
            let (frame, framing) = one.frame();
            assert_eq!((&frame, framing), (&two.frame().0, framing));
            match framing {
                Framing::Broken => broken += 1,
                Framing::Kept => {
                    let (length, payload) = frame.split_at(LENGTH_BYTES);
                    assert_eq!(
                        u32::from_be_bytes(length.try_into().unwrap()) as usize,
                        payload.len()
                    );
                }
            }
        }
        assert!((50..500).contains(&broken), "{broken} of 2000");
    }
}
