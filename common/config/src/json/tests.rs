//! Tests of valid JSON with its places, and of the messages for invalid JSON.

use proptest::prelude::*;

use super::*;
use crate::format::{Format, MAX_CONFIG_BYTES};
use crate::tree::Duplicate;

/// Returns all mistakes of a text, or its tree.
fn parse(text: &str) -> Result<Node, Vec<Problem>> {
    let reading = crate::read_text(text, Format::Json);
    match (reading.node, reading.problems.is_empty()) {
        (Some(node), true) => Ok(node),
        (_, _) => Err(reading.problems),
    }
}

fn error(text: &str) -> String {
    parse(text).unwrap_err()[0].to_string()
}

fn place(line: u32, column: u32) -> Place {
    Place { line, column }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn each_syntax_error_has_its_place_and_says_what_was_expected() {
    for (text, expected) in [
        ("", "1:1: the file is empty; a JSON object"),
        (" \n ", "2:2: the file is empty; a JSON object"),
        ("{} {}", "1:4: expected the end of the file, found `{`"),
        ("{\"a\": }", "1:7: expected a value, found `}`"),
        (
            "{\"a\" 1}",
            "1:6: expected `:` after the key \"a\", found `1`",
        ),
        (
            "{\"a\": 1\n \"b\": 2}",
            "2:2: expected `,` or `}`, found `\"`",
        ),
        ("{a: 1}", "1:2: expected a key in double quotes, found `a`"),
        (
            "{'a': 1}",
            "1:2: expected a key in double quotes, found `'`; JSON strings are in double quotes",
        ),
        ("[1 2]", "1:4: expected `,` or `]`, found `2`"),
        (
            "[1,\n 2,\n]",
            "2:3: a comma before the closing `]`; remove the comma",
        ),
        (
            "{\"a\": 1,}",
            "1:8: a comma before the closing `}`; remove the comma",
        ),
        ("[,]", "1:2: expected a value, found `,`"),
        ("[1", "1:3: expected `,` or `]`, found the end of the file"),
        (
            "{ // no\n}",
            "1:3: expected a key in double quotes, found `/`; JSON has no comments",
        ),
        (
            "[True]",
            "1:2: expected a value, found `True`; true, false and null are in lower case, texts in double quotes",
        ),
        (
            "[nul]",
            "1:2: expected a value, found `nul`; true, false and null are in lower case, texts in double quotes",
        ),
        (
            "[01]",
            "1:2: a number starts with 0; remove the leading zero",
        ),
        ("[-]", "1:3: expected a digit, found `]`"),
        ("[1.]", "1:4: expected a digit, found `]`"),
        ("[1e+]", "1:5: expected a digit, found `]`"),
        ("[1e999]", "1:2: the number 1e999 is too large"),
        (
            "[\"ab\n\"]",
            "1:2: a string without its closing quote; add the quote, or write a line break as \\n",
        ),
        (
            "[\"ab",
            "1:2: a string without its closing quote; add the quote, or write a line break as \\n",
        ),
        (
            "[\"a\tb\"]",
            "1:4: a control character in a string; write \\u0009",
        ),
        (
            r#"["é\q"]"#,
            r#"1:4: an unknown escape; known are \" \\ \/ \b \f \n \r \t \uXXXX"#,
        ),
        (
            r#"["\u12g4"]"#,
            "1:7: expected four hexadecimal digits after \\u, found `g`",
        ),
        (
            r#"["\ud800"]"#,
            "1:3: half of a surrogate pair, which is no character",
        ),
        (
            r#"["\ud800\u0041"]"#,
            "1:3: half of a surrogate pair, which is no character",
        ),
        (
            r#"["\udc00"]"#,
            "1:3: half of a surrogate pair, which is no character",
        ),
        ("\u{feff}[?]", "1:2: expected a value, found `?`"),
    ] {
        let problems = parse(text).unwrap_err();
        assert_eq!(problems[0].to_string(), expected, "{text:?}");
        assert_eq!(problems.len(), 1, "follow-ups of {text:?}: {problems:?}");
    }
}

#[test]
fn several_offences_are_told_at_once_without_what_follows_from_them() {
    for (text, expected) in [
        (
            "{\"a\": [1 2,],\n\"b\": Tru,\n\"c\": 01 \"d\": +1}",
            &["1:10", "1:11", "2:6", "3:6"][..],
        ),
        ("{\"a\": \"x,\n\"b\": 1,}", &["1:7", "2:7"]),
        ("{\"a\": \"x},\n\"b\": nil,\n\"c\": [1}", &["1:7", "2:6"]),
        (
            "{\"a\": \"say \"hi\" twice\",\n\"b\": 1,\n}",
            &["1:13", "2:7"],
        ),
        (
            "{// one\n\"a\": 1, # two\n\"b\" /* three */: 2}",
            &["1:2", "2:9", "3:5"],
        ),
        (
            "{'a': 'b', c: 1, \"d\" = 2 \"e\": 3}",
            &["1:2", "1:7", "1:12", "1:22", "1:26"],
        ),
        ("{\"a\": , \"b\": }", &["1:7", "1:14"]),
        ("{,,\"a\": [,], \"b\": [1,,2]}", &["1:2", "1:10", "1:22"]),
        ("{\"a\": [1, 2}, \"b\": tru}", &["1:12"]),
        ("{\"a\": 1]}", &["1:8"]),
        ("{\"a\": \"\\d\\w\\s\", \"b\": \"\\q\"}", &["1:8", "1:23"]),
        (
            "{\"a\": http://x/y, \"z\": 1,\n\"b\": 1e999, \"c\": 1.}",
            &["1:7", "2:6", "2:20"],
        ),
        ("{\"a\": 12px,\n\"b\": tru}", &["1:9", "2:6"]),
        (
            "{\"a\": [{\"b\": 1} {\"c\": 2}]\n\"d\": 1}",
            &["1:17", "2:1"],
        ),
        ("{\"a: 1,\n\"b\": tru}", &["1:2", "2:6"]),
        ("[\"a\nb\", tru]", &["1:2"]),
        ("{\"a\": \"x,\n\"b\": \"y,\n\"c\": 1}", &["1:7", "2:6"]),
    ] {
        let problems = parse(text).unwrap_err();
        let places: Vec<String> = problems
            .iter()
            .map(|p| format!("{}:{}", p.line, p.column))
            .collect();
        assert_eq!(places, expected, "{text}: {problems:#?}");
    }
}

#[test]
fn what_was_meant_is_known_after_a_slip() {
    let known = |text: &str| {
        crate::read_text(text, Format::Json)
            .node
            .map(|n| n.to_json().to_string())
    };
    for (text, meant) in [
        (
            "{\"a\": [1 2,], 'b': True // yes\n\"c\": None,}",
            r#"{"a":[1,2],"b":true,"c":null}"#,
        ),
        ("{a: 'x'}", r#"{"a":"x"}"#),
        ("[1,,2]", "[1,2]"),
    ] {
        assert_eq!(known(text).as_deref(), Some(meant), "{text}");
    }
    // Exactly one value is lost.
    for text in [
        "{\"a\": tru}",
        "{\"a\": }",
        "{\"a\", \"b\": 1}",
        "[01]",
        r#"["\d"]"#,
        "[\"a\tb\"]",
    ] {
        let node = crate::read_text(text, Format::Json).node.unwrap();
        assert!(node.has_unread(), "{text}");
    }
    for text in ["{\"a\": \"x\n}", "[1}", "[", "{} {}", "{\"a\": b\"c\"}"] {
        assert_eq!(known(text), None, "{text}");
    }
}

#[test]
fn offences_without_end_are_not_all_told() {
    let problems = parse(&format!("[{}1]", "tru,".repeat(1_000_000))).unwrap_err();
    assert_eq!(problems.len(), MAX_OFFENCES);
    let problems = parse(&format!("[{}", "{\"a\" \"".repeat(100_000))).unwrap_err();
    assert!(problems.len() <= MAX_OFFENCES);
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(parse(&nested(MAX_DEPTH)).is_ok());
    assert_eq!(
        error(&nested(MAX_DEPTH + 1)),
        "1:65: nested more than 64 deep"
    );
    assert!(error(&"[".repeat(1_000_000)).starts_with("1:65: nested"));
}

#[test]
fn size_is_bounded() {
    let text = " ".repeat(MAX_CONFIG_BYTES + 1);
    assert_eq!(
        error(&text),
        "1:1: the file has 67108865 bytes; at most 67108864 are allowed"
    );
}

#[test]
fn keys_and_values_remember_their_places_and_order() {
    let node = parse("{\n  \"ü\": 1, \"a\":\n [\"x\", true]}").unwrap();
    let Value::Object(object) = &node.value else {
        panic!("{node}");
    };
    let places: Vec<_> = object
        .entries
        .iter()
        .map(|e| (e.key.as_str(), e.place, e.node.place))
        .collect();
    assert_eq!(
        places,
        [
            ("ü", place(2, 3), place(2, 8)),
            ("a", place(2, 11), place(3, 2))
        ]
    );
    let Value::Array(items) = &object.entries[1].node.value else {
        panic!("{node}");
    };
    assert_eq!((items[0].place, items[1].place), (place(3, 3), place(3, 8)));
}

#[test]
fn the_first_of_duplicate_keys_counts() {
    let node = parse(r#"{"b": 1, "a": 2, "b": 3, "b": 4}"#).unwrap();
    let Value::Object(object) = &node.value else {
        panic!("{node}");
    };
    let keys: Vec<_> = object.entries.iter().map(|e| e.key.as_str()).collect();
    assert_eq!(keys, ["b", "a"]);
    assert_eq!(object.entries[0].node.to_string(), "1");
    let duplicate = |column| Duplicate {
        key: "b".to_owned(),
        place: place(1, column),
        first: place(1, 2),
    };
    assert_eq!(object.duplicates, [duplicate(18), duplicate(26)]);
}

#[test]
fn numbers_are_exact_as_far_as_they_can_be() {
    let text = "[0, -0, 9223372036854775807, 18446744073709551615, -9223372036854775808, 1.5e3, 18446744073709551616]";
    assert_eq!(
        parse(text).unwrap().to_json().to_string(),
        "[0,-0.0,9223372036854775807,18446744073709551615,-9223372036854775808,1500.0,1.8446744073709552e+19]"
    );
}

#[test]
fn escapes_are_read() {
    let node = parse(r#""\"\\\/\b\f\n\r\té\ud83d\ude00""#).unwrap();
    assert_eq!(
        node.value,
        Value::String("\"\\/\u{8}\u{c}\n\r\té😀".to_owned())
    );
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(|b| b.into()),
        any::<i64>().prop_map(|n| n.into()),
        any::<u64>().prop_map(|n| n.into()),
        any::<String>().prop_map(|s| s.into()),
    ];
    leaf.prop_recursive(6, 64, 8, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..8).prop_map(|v| v.into()),
            proptest::collection::btree_map(any::<String>(), inner, 0..8)
                .prop_map(|m| serde_json::Value::Object(m.into_iter().collect())),
        ]
    })
}

integration_tests_properties::properties! {
    256;

    #[test]
    fn reads_what_another_writer_wrote(json in any_json()) {
        for text in [json.to_string(), serde_json::to_string_pretty(&json).unwrap()] {
            prop_assert_eq!(parse(&text).unwrap().to_json(), json.clone());
        }
    }

    #[test]
    fn agrees_with_another_reader_on_what_is_json(text in r#"[\[\]{},:"\\ \n0-9eE.+au\-tr-]{0,24}"#) {
        let other: Result<serde_json::Value, _> = serde_json::from_str(&text);
        prop_assert_eq!(parse(&text).is_ok(), other.is_ok(), "{:?}: {:?}", text, other);
        if let Err(problems) = parse(&text) {
            prop_assert!(!problems.is_empty());
            prop_assert!(problems.is_sorted_by_key(Problem::place));
        }
    }

    #[test]
    fn never_panics(text in any::<String>()) {
        let _ = parse(&text);
    }
}
