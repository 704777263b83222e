//! Tests of valid YAML with its places, and of refused YAML.

use proptest::prelude::*;

use super::*;

fn read_text(text: &str) -> Result<Node, Vec<String>> {
    crate::read_whole(text, Format::Yaml)
}

fn json(text: &str) -> String {
    read_text(text).unwrap().to_json().to_string()
}

fn problems(text: &str) -> Vec<String> {
    read_text(text).unwrap_err()
}

#[test]
fn scalars_are_those_of_the_core_schema() {
    for (text, expected) in [
        ("[~, null, NULL, ]", "[null,null,null]"),
        ("[true, False, TRUE]", "[true,false,true]"),
        ("[yes, no, on, y]", r#"["yes","no","on","y"]"#),
        ("[0, -5, +7, 0x1F, 0o17]", "[0,-5,7,31,15]"),
        ("[1.5, .5, 5., 1e3, -1.5E-2]", "[1.5,0.5,5.0,1000.0,-0.015]"),
        (
            "[1.2.3, 2026-11-21, 10:30, 1e, 0xg]",
            r#"["1.2.3","2026-11-21","10:30","1e","0xg"]"#,
        ),
        (r#"["5", '6', !!str 7]"#, r#"["5","6","7"]"#),
        ("[18446744073709551615]", "[18446744073709551615]"),
        ("a:\nb: ''", r#"{"a":null,"b":""}"#),
        ("|\n  one\n  two\n", r#""one\ntwo\n""#),
        ("5: x\ntrue: y", r#"{"5":"x","true":"y"}"#),
    ] {
        assert_eq!(json(text), expected, "{text}");
    }
}

#[test]
fn keys_and_values_remember_their_places_and_order() {
    let node = read_text("ü: 1\na:\n  - x\n  - {b: c}\n").unwrap();
    let Value::Object(object) = &node.value else {
        panic!("{node}");
    };
    let place = |line, column| Place { line, column };
    let found: Vec<_> = object
        .entries
        .iter()
        .map(|e| (e.key.as_str(), e.place, e.node.place))
        .collect();
    assert_eq!(
        found,
        [
            ("ü", place(1, 1), place(1, 4)),
            ("a", place(2, 1), place(3, 3))
        ]
    );
    let Value::Array(items) = &object.entries[1].node.value else {
        panic!("{node}");
    };
    assert_eq!((items[0].place, items[1].place), (place(3, 5), place(4, 5)));
}

#[test]
fn aliases_stand_for_what_they_name_and_for_their_own_place() {
    let node = read_text("a: &x [1, {b: &y c}]\nd: *x\ne: *y\n").unwrap();
    assert_eq!(
        node.to_json().to_string(),
        r#"{"a":[1,{"b":"c"}],"d":[1,{"b":"c"}],"e":"c"}"#
    );
    let Value::Object(object) = &node.value else {
        panic!("{node}");
    };
    assert_eq!(object.entries[1].node.place, Place { line: 2, column: 4 });
}

#[test]
fn a_few_lines_cannot_ask_for_more_than_there_is_memory() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..20 {
        let before = vec![format!("*a{}", i - 1); 10].join(", ");
        text.push_str(&format!("a{i}: &a{i} [{before}]\n"));
    }
    let found = problems(&text);
    assert_eq!(found.len(), 1);
    assert!(
        found[0].contains("anchors and aliases stand for more than 1000000 values"),
        "{found:?}"
    );
    let long = "x".repeat(1 << 20);
    let many = vec!["*a"; 20].join(", ");
    let found = problems(&format!("a: &a {long}\nb: [{many}]"));
    assert!(found[0].contains("16777216 bytes"), "{found:?}");
    let deep = format!("a: &a {}1{}\n", "[".repeat(40), "]".repeat(40));
    let found = problems(&format!("{deep}b: {}*a{}", "[".repeat(40), "]".repeat(40)));
    assert!(found[0].ends_with("nested more than 64 deep"), "{found:?}");
}

#[test]
fn what_a_config_does_not_need_is_refused() {
    for (text, expected) in [
        ("a: &x [*x]", "1:8: an alias within what it stands for"),
        (
            "a: &x {b: 1}\nc:\n  <<: *x\n",
            "3:3: a merge key has no meaning here; write its keys out",
        ),
        (
            "a: 1\n---\nb: 2\n",
            "2:1: a second document begins; a config is one document",
        ),
        ("{[a]: 1}", "1:2: a key is a text, and this is none"),
        (
            "a: &x b\n*x : c",
            "2:1: an alias cannot be a key; write the key out",
        ),
        (
            "a: !!binary x",
            "1:13: a tag has no meaning here; remove it; quotes make a text",
        ),
        ("a: .inf", "1:4: .inf is no amount; a finite number"),
        ("a: -.NaN", "1:4: -.NaN is no amount; a finite number"),
        (
            "a: [007]",
            "1:5: the number 007 starts with 0; remove the zero, or put a text in quotes",
        ),
    ] {
        assert_eq!(problems(text), [expected], "{text}");
    }
    let several = problems("a: .inf\nb: !x y\nc: 01\n");
    assert_eq!(several.len(), 3, "{several:?}");
}

#[test]
fn syntax_errors_have_their_place() {
    for (text, line) in [
        ("a: [1, 2\nb: 3\n", 2),
        ("a: 1\n b: 2\n", 2),
        ("\"a", 1),
        ("a:\n\t- b", 2),
    ] {
        let found = problems(text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        let at: u32 = found[0].split(':').next().unwrap().parse().unwrap();
        assert!(at.abs_diff(line) <= 1, "{text}: {found:?}");
    }
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    assert!(read_text(&nested(MAX_DEPTH)).is_ok());
    assert_eq!(
        problems(&nested(MAX_DEPTH + 1)),
        ["1:65: nested more than 64 deep"]
    );
    assert!(read_text(&"- ".repeat(100_000)).is_err());
    assert!(read_text(&"[".repeat(100_000)).is_err());
}

#[test]
fn an_empty_file_is_named() {
    assert_eq!(problems(" \n"), ["2:1: the file is empty; a YAML mapping"]);
    assert_eq!(
        problems("# nothing\n"),
        ["2:1: the file is empty; a YAML mapping"]
    );
}

integration_tests_properties::properties! {
    256;

    #[test]
    fn never_panics(text in any::<String>()) {
        let _ = read_text(&text);
    }

    #[test]
    fn never_panics_on_text_like_yaml(text in r#"([a"'&*!<>|?%@`=\[\]{}#, \n0-9:._-]|---|\.\.\.|\t|: |- |\? ){0,40}"#) {
        let _ = read_text(&text);
    }

    #[test]
    fn json_is_yaml(values in proptest::collection::btree_map("[a-z]{1,4}", any::<i32>(), 0..6)) {
        let text = serde_json::to_string(&values).unwrap();
        prop_assert_eq!(json(&text), text);
    }
}
