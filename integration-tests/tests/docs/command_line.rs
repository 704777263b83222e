//! Generates the page about the command line from the definitions that the three programs parse with.

use std::fmt::Write as _;

use clap::builder::StyledStr;
use clap::{Arg, Command, CommandFactory as _};

/// The text before the first command.
const INTRO: &str = "# Command line

This page lists every command and every flag of the three programs. It contains the texts of `--help`, and a test compares both.

* `<NAME>` is a required value, and `[NAME]` is an optional one. `...` follows a value that may be given several times.
* `-h` prints a short help, `--help` a long one, and `--version` the version. Each command also has `-h` and `--help`.
* A duration is a number with a unit: `500ms`, `30s`, `5m`, `2h`, `1d`. A number without a unit is in seconds.
* A size is a number of bytes, or a number with `K`, `M`, `G` or `T`, which are powers of 1024.
* No flag takes its value from an environment variable. [Environment variables](#environment-variables) lists the variables that programs read.
";

/// The text after the last command.
const ENVIRONMENT: &str = "
## Environment variables

| variable | read by | effect |
|---|---|---|
| `BRASSERIE_LOG` | all programs | the events that a program logs to standard error: `error`, `warn`, `info`, `debug` or `trace`, also for single targets, as in `brasserie_scheduler=debug,info` |
| `NO_COLOR` | all programs | if the variable is set and not empty, no output has colours |
| `TERM` | `brasserie` | if the value is `dumb`, `brasserie run` draws no bars |
| `TMPDIR` | `brasserie run` | the folder for the temporary folder of a run without `--data-dir` |
| `BRASSERIE_TOKEN`, `BRASSERIE_CONTEXT` | `brasserie` | the token of a person, and the name of a context: see [People](../operate/security.md#people) and [Contexts](../operate/security.md#contexts) |
| `XDG_CONFIG_HOME` | `brasserie` | the folder with the file of contexts, `brasserie/contexts.toml`; without it, `~/.config` |
| `BRASSERIE_JOIN_TOKEN` | `brasserie-worker` | the token for joining, without `--join-token` |
| `TZ` | `brasserie-scheduler` | the time zone of schedules that name none |
| `NOTIFY_SOCKET`, `WATCHDOG_USEC`, `WATCHDOG_PID` | `brasserie-scheduler`, `brasserie-worker` | notifications to systemd |
| `PATH` | `brasserie-worker` | the folders in which a worker searches for programs of tasks |

[Programs of tasks](../guide/tasks.md) lists the variables that tasks receive.
";

/// Returns the page.
pub fn page() -> String {
    let programs = [
        brasserie::Cli::command(),
        brasserie_scheduler::config::Flags::command(),
        brasserie_worker::config::Cli::command(),
    ];
    let mut page = INTRO.to_owned();
    for program in programs {
        let mut program = program.term_width(0);
        program.build();
        add_command(&mut page, &program, "## Program");
    }
    page + ENVIRONMENT
}

/// Returns each argument that has no help, with its command.
pub fn arguments_without_help() -> Vec<String> {
    let mut missing = Vec::new();
    let mut commands = vec![
        brasserie::Cli::command(),
        brasserie_scheduler::config::Flags::command(),
        brasserie_worker::config::Cli::command(),
    ];
    while let Some(mut command) = commands.pop() {
        command.build();
        let name = name_of(&command);
        let silent = visible_arguments(&command).filter(|arg| arg.get_help().is_none());
        missing.extend(silent.map(|arg| format!("{name} {arg}")));
        commands.extend(subcommands(&command).cloned());
    }
    missing
}

fn name_of(command: &Command) -> String {
    command
        .get_bin_name()
        .unwrap_or(command.get_name())
        .to_owned()
}

fn subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    let shown = |it: &&Command| !it.is_hide_set() && it.get_name() != "help";
    command.get_subcommands().filter(shown)
}

fn visible_arguments(command: &Command) -> impl Iterator<Item = &Arg> {
    let shown =
        |arg: &&Arg| !arg.is_hide_set() && arg.get_id() != "help" && arg.get_id() != "version";
    command.get_arguments().filter(shown)
}

/// Appends the section of a command, and those of the commands below it.
fn add_command(page: &mut String, command: &Command, heading: &str) {
    let name = name_of(command);
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let about = command.get_long_about().or(command.get_about());
    let about = about.map(prose).unwrap_or_default();
    put(
        page,
        &format!("\n{heading} `{name}`\n\n{about}\n\n```text\n{usage}\n```\n"),
    );
    if subcommands(command).next().is_some() {
        put(page, "\n| command | effect |\n|---|---|\n");
        for below in subcommands(command) {
            let anchor = name_of(below).replace(' ', "-");
            let about = below.get_about().map(prose).unwrap_or_default();
            put(
                page,
                &format!("| [`{}`](#{anchor}) | {about} |\n", below.get_name()),
            );
        }
    }
    add_arguments(page, command);
    if let Some(after) = command.get_after_long_help().or(command.get_after_help()) {
        put(
            page,
            &format!("\n```text\n{}```\n", wrapped(after.to_string().trim())),
        );
    }
    for below in subcommands(command) {
        add_command(page, below, "###");
    }
}

/// Appends the arguments: positional ones, then flags, then flags with a heading of their own.
fn add_arguments(page: &mut String, command: &Command) {
    let (positional, flags): (Vec<&Arg>, Vec<&Arg>) =
        visible_arguments(command).partition(|arg| arg.is_positional());
    let mut groups = vec![("Arguments", positional)];
    for flag in flags {
        let title = flag.get_help_heading().unwrap_or("Flags");
        match groups.iter_mut().find(|(known, _)| *known == title) {
            Some((_, group)) => group.push(flag),
            None => groups.push((title, vec![flag])),
        }
    }
    for (title, arguments) in groups.iter().filter(|(_, group)| !group.is_empty()) {
        put(page, &format!("\n**{title}**\n\n"));
        arguments.iter().for_each(|arg| add_argument(page, arg));
    }
}

fn add_argument(page: &mut String, arg: &Arg) {
    let short = arg.get_short().map(|short| format!("`-{short}`, "));
    let help = arg.get_long_help().or(arg.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let (help, stated) = split_default(&help);
    let mut line = format!(
        "* {}`{arg}`: {}",
        short.unwrap_or_default(),
        sentence(&escaped(help))
    );
    let takes_value = arg.get_action().takes_values();
    let defaults = arg.get_default_values().iter();
    let defaults: Vec<String> = defaults
        .filter(|value| takes_value && !value.is_empty())
        .map(|value| format!("`{}`", value.to_string_lossy()))
        .collect();
    if arg.is_required_set() && !arg.is_positional() {
        line.push_str(" Required.");
    } else if let Some(stated) = stated {
        put(&mut line, &format!(" Default: {}.", escaped(stated)));
    } else if !defaults.is_empty() {
        put(&mut line, &format!(" Default: {}.", defaults.join(", ")));
    }
    put(page, &format!("{line}\n"));
    if takes_value && !arg.is_hide_possible_values_set() {
        for value in arg.get_possible_values() {
            let help = value.get_help().map(prose).unwrap_or_default();
            let name = value.get_name();
            let colon = if help.is_empty() { "" } else { ": " };
            put(page, &format!("  * `{name}`{colon}{help}\n"));
        }
    }
}

/// The length of a line in a block of text.
const LINE: usize = 120;

/// Breaks lines at spaces, and indents the parts like the whole line.
fn wrapped(text: &str) -> String {
    let mut wrapped = String::new();
    for line in text.lines() {
        let indent = &line[..line.len() - line.trim_start().len()];
        let mut rest = line.trim_end().to_owned();
        while let Some((end, _)) = rest.char_indices().nth(LINE) {
            let Some(space) = rest[..end].rfind(' ').filter(|at| *at > indent.len()) else {
                break;
            };
            put(&mut wrapped, &format!("{}\n", &rest[..space]));
            rest = format!("{indent}{}", &rest[space + 1..]);
        }
        put(&mut wrapped, &format!("{rest}\n"));
    }
    wrapped
}

fn put(page: &mut String, text: &str) {
    write!(page, "{text}").expect("a string takes every text");
}

/// Splits a default in words from the end of a help text.
fn split_default(help: &str) -> (&str, Option<&str>) {
    let help = help.trim().trim_end_matches('.');
    let split = help
        .strip_suffix(']')
        .and_then(|rest| rest.rsplit_once("[default: "));
    split.map_or((help, None), |(help, default)| {
        (help.trim_end(), Some(default))
    })
}

fn prose(text: &StyledStr) -> String {
    sentence(&escaped(text.to_string().trim()))
}

fn sentence(text: &str) -> String {
    let is_over = text.is_empty() || [".", ":", ".)"].iter().any(|end| text.ends_with(end));
    format!("{text}{}", if is_over { "" } else { "." })
}

/// Escapes what Markdown interprets outside of code, and makes flags code, because mdBook joins their hyphens.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for (number, part) in text.split('`').enumerate() {
        if number % 2 == 1 {
            put(&mut escaped, &format!("`{part}`"));
            continue;
        }
        for word in part.split_inclusive([' ', '\n']) {
            let end = word
                .trim_start_matches('(')
                .find(|c: char| !c.is_ascii_lowercase() && c != '-');
            let open = word.len() - word.trim_start_matches('(').len();
            let (before, rest) = word.split_at(open);
            let (flag, after) = rest.split_at(end.unwrap_or(rest.len()));
            if flag.starts_with("--") {
                put(&mut escaped, &format!("{before}`{flag}`{after}"));
            } else {
                for c in word.chars() {
                    let is_special = "\\<>*[]|".contains(c);
                    put(
                        &mut escaped,
                        &format!("{}{c}", if is_special { "\\" } else { "" }),
                    );
                }
            }
        }
    }
    escaped
}
