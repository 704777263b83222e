//! Scenario files: a story in comments, commands, and after each command the exact effects that it caused.
//!
//! ```text
//! # One line that says what this scenario shows
//! #
//! # The story in plain words.
//!
//! worker w1 lock host:81 start 10
//! heartbeat w1
//! ----
//! persist #2: w1 associated
//! ```
//!
//! Blank lines separate blocks, and comments come before commands. Only the last command of a block may have effects, so that each effect
//! follows its cause. The lines after `----` are compared exactly. With `BLESS=1` in the environment, the files are rewritten with the
//! actual output.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Plays the commands of one scenario.
pub trait Player {
    /// Runs one command and returns its effects, one line each. Errors if the command is unknown or malformed, or names a thing that does
    /// not exist.
    fn play(&mut self, command: &str) -> Result<Vec<String>, String>;

    /// Returns output that is left after the last command and was not shown.
    fn unshown(&mut self) -> Vec<String>;
}

/// Commands, and the expected output of the last one.
struct Block<'a> {
    /// Line of the first command in the file, from 1.
    line: usize,
    /// Comments and blank lines before the block, verbatim.
    prefix: String,
    commands: &'a [&'a str],
}

struct Scenario<'a> {
    blocks: Vec<Block<'a>>,
    /// Comments after the last block.
    suffix: String,
}

/// Whether the files are compared or rewritten.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Compare,
    Bless,
}

/// Plays every scenario of a folder, each with a new player.
pub fn run_folder<P: Player>(folder: &Path, new_player: impl Fn() -> P) {
    let mode = mode();
    let mut failures = Vec::new();
    let mut blessed = Vec::new();
    let files = scenario_files(folder);
    assert!(!files.is_empty(), "no scenarios in {}", folder.display());
    for path in files {
        let name = path
            .file_name()
            .map(|n| n.to_string_lossy().into_owned())
            .unwrap_or_default();
        let text = read(&path);
        match replay(&text, &name, &mut new_player()) {
            Err(error) => failures.push(error),
            Ok(actual) if actual == text => {}
            Ok(actual) if mode == Mode::Bless => {
                write(&path, &actual);
                blessed.push(format!("{name}:\n{}", diff(&text, &actual)));
            }
            Ok(actual) => failures.push(format!("{name}:\n{}", diff(&text, &actual))),
        }
    }
    if !blessed.is_empty() {
        println!(
            "{}\nThese files were rewritten. Understand each line of the difference before you keep it: a transcript is what \
             the protocol promises.",
            blessed.join("\n")
        );
    }
    assert!(
        failures.is_empty(),
        "{}\n`-` is what the file expects, `+` is what came out. If the new output is right by the protocol's rules, run again \
         with BLESS=1.",
        failures.join("\n")
    );
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test, not the core, is told to rewrite its files"
)]
fn mode() -> Mode {
    match std::env::var("BLESS") {
        Ok(value) if value == "1" => Mode::Bless,
        Ok(_) | Err(_) => Mode::Compare,
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test, not the core, finds its files"
)]
pub fn scenario_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder of scenarios is readable");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry is readable").path())
        .filter(|path| path.extension().is_some_and(|e| e == "txt"))
        .collect();
    files.sort();
    files
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test, not the core, reads its files"
)]
pub fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("a scenario is UTF-8 text")
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test, not the core, rewrites its files when told to"
)]
fn write(path: &Path, text: &str) {
    // The file is replaced in one step, because another test may be reading it.
    let beside = path.with_extension("new");
    std::fs::write(&beside, text).expect("a scenario can be rewritten");
    std::fs::rename(&beside, path).expect("a scenario can be replaced");
}

/// Returns the text that the file would have if the actual output were the expected one.
pub fn replay(text: &str, name: &str, player: &mut impl Player) -> Result<String, String> {
    let lines: Vec<&str> = text.lines().collect();
    let scenario = parse(&lines).map_err(|(line, error)| format!("{name}:{line}: {error}"))?;
    let mut actual = String::new();
    for block in &scenario.blocks {
        let output = play_block(block, name, player)?;
        let (prefix, commands) = (&block.prefix, block.commands.join("\n"));
        let _ = write!(actual, "{prefix}{commands}\n----\n{output}\n");
    }
    actual.push_str(&scenario.suffix);
    let unshown = player.unshown();
    if !unshown.is_empty() {
        return Err(format!(
            "{name}: the scenario ends with effects that no command showed: {unshown:#?}"
        ));
    }
    Ok(actual)
}

fn play_block(block: &Block<'_>, name: &str, player: &mut impl Player) -> Result<String, String> {
    let mut output = Vec::new();
    for (at, command) in block.commands.iter().enumerate() {
        let error = |text: &str| format!("{name}:{}: `{command}`: {text}", block.line + at);
        if !output.is_empty() {
            return Err(error("the command before it has effects: end its block"));
        }
        output = player.play(command).map_err(|text| error(&text))?;
    }
    assert!(
        output.iter().all(|line| !line.trim().is_empty()),
        "Invariant: output has no blank lines, which end a block"
    );
    if output.is_empty() {
        output.push("nothing".to_owned());
    }
    Ok(output.join("\n"))
}

fn parse<'a>(lines: &'a [&'a str]) -> Result<Scenario<'a>, (usize, String)> {
    check_story(lines)?;
    let is_blank = |line: &str| line.trim().is_empty();
    let mut blocks = Vec::new();
    let mut prefix = String::new();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        if is_blank(line) || line.starts_with('#') {
            prefix.push_str(line);
            prefix.push('\n');
            at += 1;
            continue;
        }
        let end = lines[at..].iter().position(|line| is_blank(line));
        let block = &lines[at..end.map_or(lines.len(), |end| at + end)];
        let mut dividers = block
            .iter()
            .enumerate()
            .filter(|(_, line)| **line == "----");
        let commands = match (dividers.next(), dividers.next()) {
            (Some((0, _)), _) => Err((0, "`----` without a command before it".to_owned())),
            (Some((i, _)), None) => Ok(&block[..i]),
            (_, Some((i, _))) => Err((i, "a second `----`: is a blank line missing?".to_owned())),
            (None, None) => Err((0, format!("the command `{line}` is not followed by `----`"))),
        };
        let commands = commands.map_err(|(i, error)| (at + i + 1, error))?;
        blocks.push(Block {
            line: at + 1,
            prefix: std::mem::take(&mut prefix),
            commands,
        });
        at += block.len();
    }
    if blocks.is_empty() {
        return Err((lines.len(), "the scenario has no commands".to_owned()));
    }
    Ok(Scenario {
        blocks,
        suffix: prefix,
    })
}

/// Checks that a scenario begins with a title and explains what it shows, because it is documentation.
fn check_story(lines: &[&str]) -> Result<(), (usize, String)> {
    let is_title = |line: &&&str| line.starts_with("# ") && line.len() > 10;
    if lines.first().filter(is_title).is_none() {
        return Err((1, "the first line is not a title: `# ...`".to_owned()));
    }
    let header = lines.iter().take_while(|line| line.starts_with('#'));
    let told = header
        .skip(1)
        .filter(|line| line.trim_start_matches('#').trim().len() > 10)
        .count();
    if told == 0 {
        return Err((2, "no story in comments follows the title".to_owned()));
    }
    Ok(())
}

/// Returns missing lines (`-`) and unexpected lines (`+`), with a few lines around each change.
fn diff(expected: &str, actual: &str) -> String {
    const AROUND: usize = 3;
    let (old, new): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), actual.lines().collect());
    let common = common_lengths(&old, &new);
    let mut lines: Vec<(char, &str)> = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push((' ', old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j >= new.len() || (i < old.len() && common[i + 1][j] >= common[i][j + 1]) {
            lines.push(('-', old[i]));
            i += 1;
        } else {
            lines.push(('+', new[j]));
            j += 1;
        }
    }
    let is_near = |at: usize| {
        let from = at.saturating_sub(AROUND);
        let to = (at + AROUND + 1).min(lines.len());
        lines[from..to].iter().any(|(mark, _)| *mark != ' ')
    };
    let mut text = String::new();
    let mut was_near = true;
    for (at, (mark, line)) in lines.iter().enumerate() {
        if is_near(at) {
            let _ = writeln!(text, "  {mark} {line}");
        } else if was_near {
            text.push_str("    ...\n");
        }
        was_near = is_near(at);
    }
    text
}

/// Returns, for each pair of positions, the length of the longest common subsequence of the rests.
fn common_lengths(old: &[&str], new: &[&str]) -> Vec<Vec<usize>> {
    let mut common = vec![vec![0; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = if old[i] == new[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    common
}

/// The words of one command, taken from the left.
pub struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    pub fn new(command: &'a str) -> Self {
        Words {
            rest: command.trim(),
        }
    }

    /// Returns the next word. Errors if there is none.
    pub fn word(&mut self, what: &str) -> Result<&'a str, String> {
        self.next().ok_or_else(|| format!("{what} is missing"))
    }

    pub fn next(&mut self) -> Option<&'a str> {
        let rest = self.rest.trim_start();
        if rest.is_empty() {
            return None;
        }
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.rest = rest.trim_start();
        Some(word)
    }

    /// Takes the next word if it is this one.
    pub fn take(&mut self, word: &str) -> bool {
        let mut ahead = Words { rest: self.rest };
        let is_it = ahead.next() == Some(word);
        if is_it {
            self.rest = ahead.rest;
        }
        is_it
    }

    pub fn number<N: std::str::FromStr>(&mut self, what: &str) -> Result<N, String> {
        let word = self.word(what)?;
        word.parse()
            .map_err(|_| format!("{what} `{word}` is no number"))
    }

    pub fn duration(&mut self, what: &str) -> Result<std::time::Duration, String> {
        brasserie_common::time::parse_duration(self.word(what)?).map_err(|e| e.to_string())
    }

    /// Returns all that is left, as one text.
    pub fn rest(&mut self) -> &'a str {
        std::mem::take(&mut self.rest)
    }

    /// Errors if words are left, because a part of the command would be silently ignored.
    pub fn finish(&self) -> Result<(), String> {
        match self.rest {
            "" => Ok(()),
            rest => Err(format!("`{rest}` means nothing here")),
        }
    }
}

/// Formats a duration in seconds to the millisecond, with a mark if it is longer by less than that. Limits are strict, so many events
/// happen a nanosecond after a limit.
pub fn show_duration(d: std::time::Duration) -> String {
    let (millis, over) = (d.as_millis(), d.subsec_nanos() % 1_000_000);
    let text = match millis {
        0 if over == 0 => "0s".to_owned(),
        1..1000 => format!("{millis}ms"),
        _ if millis.is_multiple_of(1000) => format!("{}s", millis / 1000),
        _ => {
            let text = format!("{}.{:03}", millis / 1000, millis % 1000);
            format!("{}s", text.trim_end_matches('0'))
        }
    };
    match over {
        0 => text,
        1..10 => format!("just over {text}"),
        _ => format!("{}us", d.as_micros()),
    }
}

/// A player that repeats the text of its commands, to test the files themselves.
pub struct Parrot(pub Vec<String>);

impl Player for Parrot {
    fn play(&mut self, command: &str) -> Result<Vec<String>, String> {
        let mut words = Words::new(command);
        match words.word("a command")? {
            "say" => Ok(words.rest().split('/').map(str::to_owned).collect()),
            "quiet" => words.finish().map(|()| Vec::new()),
            other => Err(format!("unknown command `{other}`")),
        }
    }

    fn unshown(&mut self) -> Vec<String> {
        std::mem::take(&mut self.0)
    }
}

/// Checks that bad files and commands are reported with their lines and never pass.
pub fn check_the_format_itself() {
    let header = "# A title that is long enough\n# A story that is long enough\n\n";
    let play = |text: &str| replay(&format!("{header}{text}"), "f.txt", &mut Parrot(Vec::new()));
    let good = "quiet\nsay a/b\n----\na\nb\n\n# More.\nquiet\n----\nnothing\n";
    assert_eq!(play(good), Ok(format!("{header}{good}")));
    assert_eq!(play("say a\n----\nx\n"), play("say a\n----\n"), "blessing");
    for (text, error) in [
        ("shout\n----\n", "f.txt:4: `shout`: unknown command `shout`"),
        (
            "quiet x\n----\n",
            "f.txt:4: `quiet x`: `x` means nothing here",
        ),
        (
            "quiet\nsay a\n\n----\n",
            "f.txt:4: the command `quiet` is not followed by `----`",
        ),
        (
            "say a\nsay b\n----\n",
            "f.txt:5: `say b`: the command before it has effects: end its block",
        ),
        ("----\n", "f.txt:4: `----` without a command before it"),
        (
            "say a\n----\nsay b\n----\n",
            "f.txt:7: a second `----`: is a blank line missing?",
        ),
        ("", "f.txt:3: the scenario has no commands"),
    ] {
        assert_eq!(play(text), Err(error.to_owned()), "{text:?}");
    }
    let untitled = replay("say a\n----\na\n", "f.txt", &mut Parrot(Vec::new()));
    assert!(untitled.is_err_and(|e| e.contains("title")));
    let silent = replay(
        "# A title that is long enough\n\nsay a\n----\na\n",
        "f.txt",
        &mut Parrot(Vec::new()),
    );
    assert!(silent.is_err_and(|e| e.contains("story")));
    let unshown = replay(
        &format!("{header}{good}"),
        "f.txt",
        &mut Parrot(vec!["an effect".to_owned()]),
    );
    assert!(unshown.is_err_and(|e| e.contains("an effect")));
    assert_eq!(
        diff("a\nb\nc\n", "a\nx\nc\n"),
        "    a\n  - b\n  + x\n    c\n"
    );
}
