//! Makes a file name from any name of a job or a node. Performs no input or output.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest, Sha256};

/// The longest encoded name, in bytes. File names have at most 255 bytes; the rest is for the digest.
const LIMIT: usize = 180;
/// The characters that a file name keeps unencoded. A leading dot is encoded too, so the result is never `.`, `..` or a hidden file.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'-').remove(b'.');

/// Returns the file name for `name`. Different names have different file names.
pub fn file_name(name: &str) -> String {
    let mut encoded: String = utf8_percent_encode(name, PLAIN).collect();
    if encoded.starts_with('.') {
        encoded.replace_range(0..1, "%2E");
    }
    // An encoded name never contains `~`, so neither of the following forms can collide with another name's.
    if encoded.is_empty() {
        return "~empty".to_owned();
    }
    if encoded.len() > LIMIT {
        let digest = Sha256::digest(name.as_bytes());
        encoded.truncate(LIMIT);
        encoded.push('~');
        for byte in &digest[..16] {
            encoded.push_str(&format!("{byte:02x}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::{Component, Path};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_stay_readable_where_they_can() {
        let long = "é".repeat(500);
        for (name, want) in [
            ("job", "job"),
            ("a.b-c_d", "a.b-c_d"),
            ("..", "%2E."),
            (".hidden", "%2Ehidden"),
            ("../x", "%2E.%2Fx"),
            ("a b/ü", "a%20b%2F%C3%BC"),
            ("~empty", "%7Eempty"),
            ("", "~empty"),
        ] {
            assert_eq!(file_name(name), want);
        }
        let others = [long.clone(), format!("{long}x"), format!("{long}y")];
        let others = others.map(|name| file_name(&name));
        assert!(others[0] != others[1] && others[1] != others[2]);
    }

    integration_tests_properties::properties! {
        256;

        #[test]
        fn any_name_is_one_plain_file_name_of_its_own(names in proptest::collection::vec("[./~%a\\\\\u{0}é]{0,200}", 1..20)) {
            let mut taken: BTreeMap<String, &str> = BTreeMap::new();
            for name in &names {
                let file = file_name(name);
                prop_assert!(file.len() <= 255 && !file.contains('\0'), "{file}");
                let parts: Vec<_> = Path::new(&file).components().collect();
                prop_assert!(matches!(parts.as_slice(), [Component::Normal(_)]), "{name:?} became {file}");
                prop_assert_eq!(*taken.entry(file).or_insert(name), name.as_str());
            }
        }
    }
}
