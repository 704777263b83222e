//! Parses `--scheduler`: the address of a scheduler, and the worker's shard and share there.

use std::path::PathBuf;

use brasserie_common::{ServiceAddress, Shard};
use brasserie_common_runtime::net::parse_peer;

use crate::member_file::{self, MemberFileError};
use crate::options::{SchedulerOptions, USUAL_SHARE};

/// The largest accepted share. Shares are compared with each other and added up.
const MOST_SHARE: f64 = 1e9;

/// One flag as it was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SchedulerFlag {
    place: SchedulerLocation,
    share: f64,
    /// The shard for this scheduler; `None`: the worker's.
    shard: Option<Shard>,
}

/// The place at which the scheduler answers.
#[derive(Clone, Debug, PartialEq)]
enum SchedulerLocation {
    At(ServiceAddress),
    /// The file that lists the addresses.
    Listed(PathBuf),
}

impl SchedulerFlag {
    /// Parses `HOST:PORT` or `@FILE`, followed by properties, each after a comma: `share=NUMBER`, `shard=NAME`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.split(',');
        let place = parts.next().unwrap_or_default();
        let place = match place.strip_prefix('@') {
            Some("") => return Err("the `@` is not followed by a file name".to_owned()),
            Some(file) => SchedulerLocation::Listed(file.into()),
            None => SchedulerLocation::At(parse_peer(place).map_err(|e| e.to_string())?),
        };
        let (mut share, mut shard) = (None, None);
        for part in parts {
            let Some((name, value)) = part.split_once('=') else {
                return Err(format!(
                    "`{part}` after the address is not a property: write `share=NUMBER` or `shard=NAME`"
                ));
            };
            let is_first = match name {
                "share" => share.replace(parse_share(value)?).is_none(),
                "shard" => shard.replace(parse_shard(value)?).is_none(),
                _ => {
                    return Err(format!(
                        "`{name}` is no property of a scheduler: there are `share` and `shard`"
                    ));
                }
            };
            if !is_first {
                return Err(format!("`{name}` is given twice: leave one of them out"));
            }
        }
        Ok(SchedulerFlag {
            place,
            share: share.unwrap_or(USUAL_SHARE),
            shard,
        })
    }

    /// Converts the flag to options. `worker` returns the shard of schedulers that have none of their own.
    pub(crate) fn into_options<E: From<MemberFileError>>(
        self,
        worker: impl FnOnce() -> Result<Shard, E>,
    ) -> Result<SchedulerOptions, E> {
        let (members, list) = match self.place {
            SchedulerLocation::At(address) => (vec![address], None),
            SchedulerLocation::Listed(file) => {
                let file = std::path::absolute(&file).unwrap_or(file);
                (member_file::read(&file)?, Some(file))
            }
        };
        Ok(SchedulerOptions {
            members,
            list,
            shard: self.shard.map_or_else(worker, Ok)?,
            share: self.share,
        })
    }
}

fn parse_share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok();
    let share = share.filter(|share| (0.0..=MOST_SHARE).contains(share));
    // Minus zero becomes zero.
    share.map(f64::abs).ok_or_else(|| {
        format!(
            "`{text}` is not a share: write a number from 0 (the scheduler gets only what others leave) to {MOST_SHARE}; {USUAL_SHARE} is usual"
        )
    })
}

pub(crate) fn parse_shard(text: &str) -> Result<Shard, String> {
    match text {
        "" => Err("the name is empty".to_owned()),
        text => Shard::try_from(text).map_err(|e| e.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (String, f64, Option<String>) {
        let flag = SchedulerFlag::parse(text).expect(text);
        let shard = flag.shard.map(String::from);
        let place = match flag.place {
            SchedulerLocation::At(address) => address.to_string(),
            SchedulerLocation::Listed(file) => format!("file {}", file.display()),
        };
        (place, flag.share, shard)
    }

    #[test]
    fn an_address_may_have_properties_in_any_order() {
        let address = || "a.example:6789".to_owned();
        assert_eq!(parsed("a.example:6789"), (address(), 100.0, None));
        assert_eq!(parsed("a.example:6789,share=0"), (address(), 0.0, None));
        let both = (address(), 2.5, Some("gpu-1".to_owned()));
        assert_eq!(parsed("a.example:6789,share=2.5,shard=gpu-1"), both);
        assert_eq!(parsed("a.example:6789,shard=gpu-1,share=2.5"), both);
        // A name may contain the signs of this syntax.
        let strange = (address(), 100.0, Some("a=b".to_owned()));
        assert_eq!(parsed("a.example:6789,shard=a=b"), strange);
        assert_eq!(parsed("[::1]:6789,share=1").0, "[::1]:6789");
        assert_eq!(parsed("@a/b.list,share=1").0, "file a/b.list");
    }

    #[test]
    fn mistakes_are_named_and_say_what_to_write() {
        for (text, parts) in [
            ("share=3", &["share=3"][..]),
            ("", &[]),
            ("@", &["not followed by a file name"]),
            ("@,share=1", &["not followed by a file name"]),
            ("a.example", &[]),
            ("a:1,", &["``", "share=NUMBER"]),
            ("a:1,300", &["`300`", "share=NUMBER"]),
            ("a:1,shares=3", &["`shares`", "`share` and `shard`"]),
            ("a:1,share=", &["``", "a number from 0"]),
            ("a:1,share=x", &["`x`", "a number from 0"]),
            ("a:1,share=-1", &["`-1`", "a number from 0"]),
            ("a:1,share=NaN", &["`NaN`", "a number from 0"]),
            ("a:1,share=inf", &["`inf`", "a number from 0"]),
            ("a:1,share=1e10", &["`1e10`", "1000000000"]),
            ("a:1,share=1,share=1", &["`share` is given twice"]),
            ("a:1,shard=x,shard=y", &["`shard` is given twice"]),
            ("a:1,shard=", &["empty"]),
        ] {
            let error = SchedulerFlag::parse(text).expect_err(text);
            for part in parts {
                assert!(error.contains(part), "{text}: {error}");
            }
        }
    }

    #[test]
    fn a_share_is_never_negative_zero() {
        let flag = SchedulerFlag::parse("a:1,share=-0").expect("zero");
        assert!(flag.share.is_sign_positive());
    }
}
