//! Converts texts to numbers, in the same way for all formats.

use serde_json::Number;

use crate::tree::{Value, shorten};

/// Returns the number of a JSON text: exact if it is a 64-bit integer, else the nearest double; `None` if it exceeds a double.
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

/// Parses a 64-bit integer, with `0x`, `0o` or `0b` for other bases than ten.
pub(crate) fn whole(text: &str) -> Option<Number> {
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            return u64::from_str_radix(digits, radix).ok().map(Number::from);
        }
    }
    let text = text.strip_prefix('+').unwrap_or(text);
    let signed = text.parse::<i64>().ok().map(Number::from);
    signed.or_else(|| text.parse::<u64>().ok().map(Number::from))
}

/// Parses a double. Errors with the reason, and with the text to write instead.
pub(crate) fn float_value(text: &str) -> Result<Value, (String, &'static str)> {
    let plain = text.trim_start_matches(['+', '-']).to_ascii_lowercase();
    if matches!(plain.trim_start_matches('.'), "inf" | "nan") {
        let text = format!("{} is no amount", shorten(text));
        return Err((text, "a finite number"));
    }
    let text = text.strip_prefix('+').unwrap_or(text);
    match number_from(text) {
        Some(number) => Ok(Value::Number(number)),
        None => Err((
            format!("the number {} is too large", shorten(text)),
            "at most 1.7e308",
        )),
    }
}
