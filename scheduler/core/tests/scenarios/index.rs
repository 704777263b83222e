//! Checks of a folder of scenarios as a whole: its index lists all of them, and they use the whole vocabulary.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::transcript::{read, scenario_files};

/// Checks that `README.md` has a line with the title of each scenario, and no line for anything else.
pub fn check_index(folder: &Path) {
    let index = read(&folder.join("README.md"));
    let mut wrong = index_problems(&index, &titles(folder));
    wrong.sort();
    assert!(wrong.is_empty(), "README.md: {wrong:#?}");
}

/// Returns the first line of each scenario, by file name.
fn titles(folder: &Path) -> BTreeMap<String, String> {
    scenario_files(folder)
        .iter()
        .map(|path| {
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned());
            let text = read(path);
            let title = text.lines().next().unwrap_or_default();
            let title = title.trim_start_matches("# ").to_owned();
            (name.unwrap_or_default(), title)
        })
        .collect()
}

fn index_problems(index: &str, titles: &BTreeMap<String, String>) -> Vec<String> {
    let mut listed = BTreeSet::new();
    let mut wrong = Vec::new();
    for line in index.lines().filter(|line| line.starts_with("* ")) {
        let entry = line.strip_prefix("* `").and_then(|l| l.split_once("`: "));
        let Some((file, title)) = entry else {
            wrong.push(format!("not of the form \"* `FILE`: TITLE\": {line}"));
            continue;
        };
        if !listed.insert(file.to_owned()) {
            wrong.push(format!("`{file}` is listed twice"));
        }
        match titles.get(file) {
            None => wrong.push(format!("`{file}` does not exist")),
            Some(known) if known == title => {}
            Some(known) => wrong.push(format!("the title of `{file}` is: {known}")),
        }
    }
    let missing = titles.iter().filter(|(file, _)| !listed.contains(*file));
    wrong.extend(missing.map(|(file, title)| format!("missing: * `{file}`: {title}")));
    wrong
}

/// Checks that every word which a command may begin or continue with occurs in some scenario, because an unused word is untested. `sources`
/// are the texts of the modules that read commands.
pub fn check_vocabulary(folder: &Path, sources: &[&str]) {
    let vocabulary: BTreeSet<&str> = sources.iter().flat_map(|text| keywords(text)).collect();
    assert!(vocabulary.contains("advance"), "no words were found");
    let texts: Vec<String> = scenario_files(folder).iter().map(|p| read(p)).collect();
    let used: BTreeSet<&str> = texts.iter().flat_map(|text| command_words(text)).collect();
    let unused: Vec<&&str> = vocabulary.difference(&used).collect();
    assert!(unused.is_empty(), "no scenario uses these: {unused:?}");
}

/// Returns the words of the lines before `----`.
fn command_words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut is_output = false;
    for line in text.lines() {
        match line {
            "" => is_output = false,
            "----" => is_output = true,
            _ if is_output || line.starts_with('#') => {}
            _ => words.extend(line.split_whitespace()),
        }
    }
    words
}

/// Returns the literals that commands are compared with, in match arms and as arguments of `take`.
fn keywords(source: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for line in source.lines().map(str::trim) {
        let arm = line.split_once("=>").map(|(pattern, _)| pattern);
        if let Some(pattern) = arm.filter(|pattern| pattern.starts_with('"')) {
            words.extend(pattern.split('"').skip(1).step_by(2));
        }
        for (at, _) in line.match_indices("take(\"") {
            words.extend(line[at..].split('"').nth(1));
        }
    }
    words
}

/// Checks that the two checks can fail.
pub fn check_the_checks() {
    let titles = BTreeMap::from([
        ("a.txt".to_owned(), "One".to_owned()),
        ("b.txt".to_owned(), "Two".to_owned()),
    ]);
    let good = "# Index\n\n* `a.txt`: One\n* `b.txt`: Two\n";
    assert_eq!(index_problems(good, &titles), Vec::<String>::new());
    for (index, problem) in [
        ("* `a.txt`: One\n", "missing: * `b.txt`: Two"),
        (
            "* `a.txt`: One\n* `a.txt`: One\n* `b.txt`: Two\n",
            "`a.txt` is listed twice",
        ),
        (
            "* `a.txt`: 1\n* `b.txt`: Two\n",
            "the title of `a.txt` is: One",
        ),
        (
            "* `a.txt`: One\n* `b.txt`: Two\n* `c.txt`: x\n",
            "`c.txt` does not exist",
        ),
    ] {
        assert_eq!(index_problems(index, &titles), [problem], "{index}");
    }
    let source = "match w {\n    \"go\" => x,\n    \"on\" | \"off\" => y,\n}\nif w.take(\"by\") {}";
    assert_eq!(keywords(source), ["go", "on", "off", "by"]);
    let text = "# say\ngo on\n----\noff\n\nby 1\n----\nx\n";
    assert_eq!(command_words(text), ["go", "on", "by", "1"]);
}
