//! Names of control groups. The shard and the time are for people. `places` finds a worker's groups again by the tag, the scheduler's digit
//! and the process id, so a change of the format loses the groups of an earlier release. Performs no input or output, except that it reads
//! the process id.

use std::fmt;

use brasserie_common::WallTime;
use brasserie_worker_core::AssociationIndex;
use nix::unistd::Pid;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::MOST_SCHEDULERS;
use crate::pid_namespace::own_pid;

/// The characters that a name keeps unencoded.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');
/// The largest part of a shard in a name, in bytes. The shard is for people; the rest makes the name unique. File names have at most 255
/// bytes.
const SHARD_BYTES: usize = 120;
/// Days from 1 March of the year 0 to 1 January 1970, and days in 400 years.
const DAYS_BEFORE_EPOCH: i64 = 719_468;
const DAYS_OF_ERA: i64 = 146_097;

/// The mark of the groups of one data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag(pub u32);

impl Tag {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_hex = text.len() == 8 && text.bytes().all(|b| b.is_ascii_hexdigit());
        is_hex.then(|| u32::from_str_radix(text, 16).ok().map(Tag))?
    }

    /// Returns whether a group's name carries the tag.
    pub(super) fn is_in(self, name: &str) -> bool {
        let mut fields = name.rsplit(':');
        let unique = fields.nth(1).unwrap_or_default();
        unique.len() == 16 && unique.get(..8).and_then(Tag::parse) == Some(self)
    }
}

/// Returns whether a group's name says that this scheduler of the worker sent its task. Does not check the tag.
pub(super) fn is_of_scheduler(name: &str, of: AssociationIndex) -> bool {
    let mut fields = name.rsplit(':');
    let unique = fields.nth(1).unwrap_or_default();
    unique.get(8..9) == Some(&format!("{:x}", digit(of)))
}

/// Returns the index of the worker's scheduler as one hexadecimal digit.
fn digit(of: AssociationIndex) -> u32 {
    u32::try_from(of.0).unwrap_or(u32::MAX) & (u32::MAX >> COUNT_BITS)
}

/// The bits of the count in the number behind a tag. The first digit of that number names the scheduler.
const COUNT_BITS: u32 = 28;
const MOST_COUNT: u32 = (1 << COUNT_BITS) - 1;
const _: () = assert!(MOST_SCHEDULERS <= 16);

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// The generator of group names.
#[derive(Debug)]
pub(super) struct Namer {
    shard: String,
    tag: Tag,
    /// The number of names so far: names must differ within a second.
    count: u32,
    /// The id of this process in the PID namespace of its keeper.
    maker: Pid,
}

impl Namer {
    pub(super) fn new(shard: &str, tag: Tag) -> Self {
        Namer {
            shard: encoded(shard),
            tag,
            count: 0,
            maker: own_pid(),
        }
    }

    /// Returns `<shard>:<UTC, year to second>:<tag, scheduler and count>:<process id>`.
    pub(super) fn next(&mut self, now: WallTime, of: AssociationIndex) -> String {
        self.count = self.count.wrapping_add(1) & MOST_COUNT;
        let (shard, tag, maker) = (&self.shard, self.tag, self.maker);
        let count = self.count | digit(of) << COUNT_BITS;
        format!("{shard}:{}:{tag}{count:08x}:{maker}", compact(now))
    }
}

/// Returns the shard as one path component without a colon.
fn encoded(shard: &str) -> String {
    let mut text: String = utf8_percent_encode(shard, PLAIN).collect();
    text.truncate(SHARD_BYTES);
    text
}

/// Returns the UTC time in digits, from year to second.
fn compact(now: WallTime) -> String {
    let secs = now.as_secs();
    let (days, rest) = (secs.div_euclid(86_400), secs.rem_euclid(86_400));
    let (year, month, day) = date(days);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}")
}

/// Returns the Gregorian date of a day since 1970. Years begin in March here, so that the leap day is the last day of a year.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + DAYS_BEFORE_EPOCH;
    let (era, day) = (days.div_euclid(DAYS_OF_ERA), days.rem_euclid(DAYS_OF_ERA));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // March to July and August to December each have 153 days.
    let shifted = (5 * day + 2) / 153;
    let day = day - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_digits_that_sort() {
        for (secs, text) in [
            (0, "19700101000000"),
            (951_782_400, "20000229000000"),
            (951_868_800, "20000301000000"),
            (1_709_251_199, "20240229235959"),
            (1_735_689_599, "20241231235959"),
            (4_107_542_400, "21000301000000"),
        ] {
            assert_eq!(compact(WallTime::from_secs(secs)), text);
        }
    }

    #[test]
    fn any_shard_makes_one_path_component_that_carries_the_tag() {
        let tag = Tag(0xab);
        for shard in ["plain-1", "a/b:c", "..", "", "ä ö", &"/".repeat(500)] {
            let mut namer = Namer::new(shard, tag);
            let of = AssociationIndex::FIRST;
            let names = [namer.next(WallTime(0), of), namer.next(WallTime(0), of)];
            assert_ne!(names[0], names[1]);
            for name in names {
                assert!(!name.contains('/') && name.len() < 200, "{name}");
                assert!(tag.is_in(&name) && !Tag(0xac).is_in(&name), "{name}");
                assert_eq!(name.matches(':').count(), 3, "{name}");
            }
        }
        let first = Namer::new("a/b", tag).next(WallTime(0), AssociationIndex::FIRST);
        assert!(first.starts_with("a%2Fb:19700101000000:000000ab00000001:"));
    }

    #[test]
    fn a_name_says_whose_task_it_is() {
        let mut namer = Namer::new("s", Tag(7));
        namer.count = MOST_COUNT - 1;
        let all = || (0..MOST_SCHEDULERS).map(AssociationIndex);
        for of in all() {
            let name = namer.next(WallTime(0), of);
            assert!(Tag(7).is_in(&name), "{name}");
            let whose: Vec<_> = all().filter(|one| is_of_scheduler(&name, *one)).collect();
            assert_eq!(whose, [of], "{name}");
        }
        assert!(!is_of_scheduler("", AssociationIndex::FIRST));
    }

    #[test]
    fn other_names_carry_no_tag() {
        for name in [
            "",
            "brasserie",
            "a:b",
            "x:1:000000ab:7",
            "x:1:000000ab0000000:7",
        ] {
            assert!(!Tag(0xab).is_in(name), "{name}");
        }
        assert_eq!(Tag::parse("000000AB"), Some(Tag(0xab)));
        for text in ["", "1", "0000000g", "+00000ab", "000000ab0"] {
            assert_eq!(Tag::parse(text), None);
        }
    }
}
