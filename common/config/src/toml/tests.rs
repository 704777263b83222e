//! Tests of valid TOML with its places, and of refused TOML.

use proptest::prelude::*;

use super::*;
use crate::format::Format;

fn read_text(text: &str) -> Result<Node, Vec<String>> {
    crate::read_whole(text, Format::Toml)
}

fn json(text: &str) -> String {
    read_text(text).unwrap().to_json().to_string()
}

fn problems(text: &str) -> Vec<String> {
    read_text(text).unwrap_err()
}

#[test]
fn values_are_read() {
    assert_eq!(
        json(
            "a = 0x1F\nb = 1_000\nc = 1.5e3\nd = 'x\\y'\ne = true\nf = [1, {g = -2}]\n[h.i]\nj = \"\"\"\nk\"\"\"\n[[l]]\nm = 1\n[[l]]\nm = 0b11\n"
        ),
        r#"{"a":31,"b":1000,"c":1500.0,"d":"x\\y","e":true,"f":[1,{"g":-2}],"h":{"i":{"j":"k"}},"l":[{"m":1},{"m":3}]}"#
    );
    assert_eq!(
        json("\u{feff}a = 18446744073709551615"),
        r#"{"a":18446744073709551615}"#
    );
}

#[test]
fn keys_stand_in_the_order_of_the_file_with_their_places() {
    let node = read_text("z = 1\n\"ü\".b = [1,\n 2]\n[a]\n c = 3").unwrap();
    let Value::Object(object) = &node.value else {
        panic!("{node}");
    };
    let place = |line, column| crate::Place { line, column };
    let found: Vec<_> = object
        .entries
        .iter()
        .map(|e| (e.key.as_str(), e.place, e.node.place))
        .collect();
    assert_eq!(
        found,
        [
            ("z", place(1, 1), place(1, 5)),
            ("ü", place(2, 1), place(2, 1)),
            ("a", place(4, 2), place(4, 1)),
        ]
    );
    let Value::Object(inner) = &object.entries[1].node.value else {
        panic!("{node}");
    };
    let Value::Array(items) = &inner.entries[0].node.value else {
        panic!("{node}");
    };
    assert_eq!(
        (inner.entries[0].place, items[1].place),
        (place(2, 5), place(3, 2))
    );
}

#[test]
fn all_syntax_errors_are_told() {
    let found = problems("a = \nb = tru\nd = 1\nd = 2\n[c\n");
    let lines: Vec<&str> = found.iter().filter_map(|p| p.split(':').next()).collect();
    assert_eq!(lines, ["1", "2", "4", "5"], "{found:#?}");
    assert_eq!(found[2], "4:1: the key occurs twice; keep one of them");
}

#[test]
fn what_json_has_not_is_refused() {
    assert_eq!(
        problems(
            "a = 2026-11-21T10:00:00Z\nb = [inf, -nan]\nc = 1e999\nd = 99999999999999999999\n"
        ),
        [
            "1:5: a date or time has no meaning here; put it in quotes to make it a text",
            "2:6: inf is no amount; a finite number",
            "2:11: -nan is no amount; a finite number",
            "3:5: the number 1e999 is too large; at most 1.7e308",
            "4:5: the number 99999999999999999999 is too large; an integer of 64 bits",
        ]
    );
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| format!("a = {}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(read_text(&nested(MAX_DEPTH - 1)).is_ok());
    assert_eq!(
        problems(&nested(MAX_DEPTH)),
        ["1:68: nested more than 64 deep"]
    );
    assert!(read_text(&nested(100_000)).is_err());
    assert!(read_text(&format!("{}a = 1", "a.".repeat(100_000))).is_err());
}

#[test]
fn errors_without_end_are_not_all_told() {
    assert_eq!(problems(&"a\n".repeat(10_000)).len(), MAX_ERRORS);
    assert_eq!(problems(&"a\n".repeat(1_000_000)).len(), 1);
    let times = (0..100).map(|i| format!("k{i} = 10:00:00\n"));
    assert_eq!(problems(&times.collect::<String>()).len(), MAX_ERRORS);
}

#[test]
fn an_empty_file_is_named() {
    assert_eq!(problems(" \n"), ["2:1: the file is empty; TOML tables"]);
    assert_eq!(json("# nothing"), "{}");
}

integration_tests_properties::properties! {
    256;

    #[test]
    fn never_panics(text in any::<String>()) {
        let _ = read_text(&text);
    }

    #[test]
    fn never_panics_on_text_like_toml(text in r#"([a"'.=\[\]{}#, \n0-9:TZ+_-]|inf|nan|"""|''')*{0,40}"#) {
        let _ = read_text(&text);
    }
}
