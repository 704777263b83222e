//! Tests of each filter condition alone, and of the hash that must never change.

use super::*;

fn filter(change: impl FnOnce(&mut Filter)) -> CompiledFilter {
    let mut filter = Filter {
        fraction_of_nodes: 1.0,
        ..Filter::default()
    };
    change(&mut filter);
    CompiledFilter::new(&filter).unwrap()
}

#[test]
fn an_empty_filter_passes_everything() {
    assert!(filter(|_| ()).passes_name("job", "node"));
    assert!(filter(|f| f.fraction_of_nodes = -1.0).passes_name("job", "node"));
    assert!(filter(|f| f.fraction_of_nodes = f64::NAN).passes_name("job", "node"));
}

#[test]
fn each_condition_can_refuse() {
    let white = filter(|f| f.whitelist = vec!["a".into()]);
    assert!(white.passes_name("job", "a") && !white.passes_name("job", "b"));
    let black = filter(|f| f.blacklist = vec!["a".into()]);
    assert!(!black.passes_name("job", "a") && black.passes_name("job", "b"));
    let white = filter(|f| f.whitelist_regex = "b+".into());
    assert!(white.passes_name("job", "abc") && !white.passes_name("job", "ac"));
    let black = filter(|f| f.blacklist_regex = "^b".into());
    assert!(black.passes_name("job", "ab") && !black.passes_name("job", "ba"));
}

#[test]
fn a_tag_of_the_list_is_enough() {
    let tagged = filter(|f| f.tag_whitelist = vec!["day".into(), "week".into()]);
    let passes = |tags: &[&str]| {
        let tags = tags.iter().map(|&tag| tag.to_owned()).collect();
        tagged.passes("job", "a", &tags)
    };
    assert!(passes(&["week", "year"]) && !passes(&["year"]) && !passes(&[]));
    // The other conditions still hold.
    let both = filter(|f| {
        f.tag_whitelist = vec!["day".into()];
        f.blacklist = vec!["a".into()];
    });
    assert!(!both.passes("job", "a", &["day".to_owned()].into()));
    // Workers have no tags, so tags are not required of them.
    assert!(tagged.passes_name("job", "host"));
}

#[test]
fn a_bad_expression_is_an_error_and_not_a_panic() {
    let filter = Filter {
        whitelist_regex: "(".into(),
        ..Filter::default()
    };
    assert_eq!(
        CompiledFilter::new(&filter).map(|_| ()).unwrap_err().0,
        "whitelist_regex"
    );
    assert!(!CompiledFilter::broken().passes_name("job", "a"));
}

#[test]
fn fractions_nest_and_are_about_right() {
    let small = filter(|f| f.fraction_of_nodes = 0.2);
    let large = filter(|f| f.fraction_of_nodes = 0.5);
    let names: Vec<String> = (0..10_000).map(|i| format!("node{i}")).collect();
    let of = |f: &CompiledFilter| names.iter().filter(|n| f.passes_name("job", n)).count();
    assert!((1_800..2_200).contains(&of(&small)), "{}", of(&small));
    assert!((4_700..5_300).contains(&of(&large)), "{}", of(&large));
    assert!(
        names
            .iter()
            .all(|n| !small.passes_name("job", n) || large.passes_name("job", n))
    );
}

#[test]
fn the_hash_never_changes() {
    assert_eq!(stable_hash("job", "node"), HASH_OF_JOB_NODE);
    assert_eq!(stable_hash("", ""), HASH_OF_NOTHING);
}

const HASH_OF_JOB_NODE: u64 = 0x3281_2e06_944c_6419;
const HASH_OF_NOTHING: u64 = 0x71b8_262b_b6e2_e086;
