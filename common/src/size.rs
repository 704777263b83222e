//! Sizes as people write them in flags.

/// Parses a number of bytes above zero, optionally with a unit in powers of 1024: `200GiB`, or `200G` for short.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim_start() {
        "" => 0,
        "k" | "K" | "KiB" => 10,
        "m" | "M" | "MiB" => 20,
        "g" | "G" | "GiB" => 30,
        "t" | "T" | "TiB" => 40,
        _ => return None,
    };
    let bytes = number.parse::<u64>().ok()?.checked_mul(1 << shift)?;
    (bytes > 0).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_in_powers_of_1024() {
        for (text, bytes) in [
            ("1", 1),
            ("3K", 3 << 10),
            (" 3 k ", 3 << 10),
            ("4MiB", 4 << 20),
            ("2g", 2 << 30),
            ("2T", 2 << 40),
        ] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        let wrong = ["", "0", "0G", "GiB", "1.5G", "-1", "+1", "1GB", "99999999T"];
        for text in wrong {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }
}
