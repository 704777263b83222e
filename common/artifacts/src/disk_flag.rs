//! The flag `--disk`, which gives the store a folder.

use std::path::PathBuf;
use std::str::FromStr;

use brasserie_common::artifact_report::DiskMedium;
use brasserie_common::size;
use thiserror::Error;

/// A folder for artifacts, as in `/disks/1,capacity=200GiB,class=hdd`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskFlag {
    pub path: PathBuf,
    /// The most bytes of artifacts; none for the whole file system.
    pub capacity: Option<u64>,
    pub medium: DiskMedium,
}

impl DiskFlag {
    /// Returns a folder without a limit of its own.
    pub fn new(path: PathBuf) -> Self {
        DiskFlag {
            path,
            capacity: None,
            medium: DiskMedium::default(),
        }
    }
}

/// The reason why a text is no [`DiskFlag`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DiskFlagError {
    #[error("the folder is missing: write PATH[,capacity=SIZE][,class=ssd|hdd]")]
    NoPath,
    #[error(
        "`{0}` is no setting of a disk: write capacity=SIZE or class=ssd|hdd (the path of a disk has no comma)"
    )]
    Unknown(String),
    #[error("`{0}` is given twice")]
    Twice(&'static str),
    #[error(
        "`{0}` is not a size: write bytes, or a number with KiB, MiB, GiB or TiB, as in 200GiB"
    )]
    Size(String),
    #[error("`{0}` is not a class of disks: write ssd or hdd")]
    Class(String),
}

impl FromStr for DiskFlag {
    type Err = DiskFlagError;

    fn from_str(text: &str) -> Result<Self, DiskFlagError> {
        let mut parts = text.split(',');
        let path = parts.next().unwrap_or_default();
        if path.is_empty() {
            return Err(DiskFlagError::NoPath);
        }
        let (mut capacity, mut medium) = (None, None);
        for part in parts {
            let before = match part.split_once('=') {
                Some(("capacity", size)) => capacity.replace(parse_size(size)?).map(|_| "capacity"),
                Some(("class", class)) => medium.replace(parse_class(class)?).map(|_| "class"),
                Some(_) | None => return Err(DiskFlagError::Unknown(part.to_owned())),
            };
            if let Some(setting) = before {
                return Err(DiskFlagError::Twice(setting));
            }
        }
        Ok(DiskFlag {
            path: path.into(),
            capacity,
            medium: medium.unwrap_or_default(),
        })
    }
}

fn parse_class(text: &str) -> Result<DiskMedium, DiskFlagError> {
    match text {
        "ssd" => Ok(DiskMedium::Ssd),
        "hdd" => Ok(DiskMedium::Hdd),
        _ => Err(DiskFlagError::Class(text.to_owned())),
    }
}

fn parse_size(text: &str) -> Result<u64, DiskFlagError> {
    size::parse_size(text).ok_or_else(|| DiskFlagError::Size(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flag(text: &str) -> Result<DiskFlag, DiskFlagError> {
        text.parse()
    }

    #[test]
    fn a_flag_is_a_folder_with_settings() {
        let plain = flag("/d").expect("a folder is enough");
        assert_eq!((plain.capacity, plain.medium), (None, DiskMedium::Ssd));
        let full = flag("/d e,class=hdd,capacity=200GiB").expect("valid");
        assert_eq!(full.path, PathBuf::from("/d e"));
        assert_eq!(
            (full.capacity, full.medium),
            (Some(200 << 30), DiskMedium::Hdd)
        );
    }

    #[test]
    fn a_wrong_flag_is_refused_with_its_part() {
        for (text, error) in [
            ("", DiskFlagError::NoPath),
            (",class=ssd", DiskFlagError::NoPath),
            ("/a,b", DiskFlagError::Unknown("b".to_owned())),
            ("/a,size=1", DiskFlagError::Unknown("size=1".to_owned())),
            ("/a,class=ssd,class=ssd", DiskFlagError::Twice("class")),
            ("/a,class=tape", DiskFlagError::Class("tape".to_owned())),
        ] {
            assert_eq!(flag(text), Err(error), "{text}");
        }
        for size in ["", "1GB"] {
            let error = DiskFlagError::Size(size.to_owned());
            assert_eq!(flag(&format!("/a,capacity={size}")), Err(error));
        }
    }
}
