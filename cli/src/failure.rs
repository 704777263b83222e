//! Reports a command's failure as text or as one JSON object, with causes, a remedy and an exit code.

use std::ffi::OsString;
use std::fmt::Display;
use std::process::ExitCode;

use brasserie_common::text::shell_word;
use brasserie_common_config::{ConfigErrors, nearest};
use brasserie_common_identity::{TOKEN_IN_PLAIN_SIGHT, Token};
use brasserie_common_runtime::telemetry;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use serde_json::{Value, json};

use crate::CommandEnding;
use crate::output::{Layout, OutputReader, json_text, print_raw, with_flag};

/// The scheduler's answer that a job or a node does not exist.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Unknown {
    message: String,
    /// The job of a node that does not exist, if it is known.
    job: Option<String>,
    /// The flag that names the scheduler to another command, with a space before it.
    flag: String,
}

impl Unknown {
    pub(crate) fn new(message: String, flag: &str) -> Self {
        Unknown {
            message,
            job: None,
            flag: flag.to_owned(),
        }
    }

    pub(crate) fn of_job(self, job: &str) -> Self {
        let job = Some(job.to_owned());
        Unknown { job, ..self }
    }

    /// Returns the command that shows what exists.
    fn remedy(&self) -> String {
        let flag = &self.flag;
        match self.message.contains("no node is called") {
            true => {
                let job = self.job.as_deref().map_or("JOB".to_owned(), shell_word);
                format!("`brasserie task list --job {job}{flag}` lists the nodes of the job")
            }
            false => format!("`brasserie status --all{flag}` lists jobs"),
        }
    }
}

/// A failure with a remedy or with an exit code other than 1. It may be anywhere in an error's chain.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    message: String,
    /// The mistakes in a file, each with its place.
    problems: Vec<String>,
    remedy: Option<String>,
    ending: CommandEnding,
}

impl Failure {
    /// Creates a failure for an unusable command line, or for an unusable file that it names.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Failure {
            ending: CommandEnding::Usage,
            ..Failure::new(message)
        }
    }

    pub(crate) fn new(message: impl Into<String>) -> Self {
        Failure {
            message: message.into(),
            problems: Vec::new(),
            remedy: None,
            ending: CommandEnding::Failure,
        }
    }

    /// Creates a failure for a scheduler's decision about the caller, which repetitions of the call do not change.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Failure {
            ending: CommandEnding::Refused,
            ..Failure::new(message)
        }
    }

    /// Creates a failure for an unreadable file that the command line names.
    pub(crate) fn unreadable(why: &dyn Display) -> Self {
        Failure::usage(why.to_string()).remedy(path_remedy())
    }

    /// Creates a failure for a config file with errors.
    pub(crate) fn config(file: &str, errors: &ConfigErrors) -> Self {
        let problems = errors.display_with(file);
        let problems = problems.lines().map(str::to_owned).collect();
        Failure::usage(format!("{file} cannot be used")).problems(problems)
    }

    pub(crate) fn remedy(self, remedy: impl Into<String>) -> Self {
        Failure {
            remedy: Some(remedy.into()),
            ..self
        }
    }

    pub(crate) fn problems(self, problems: Vec<String>) -> Self {
        Failure { problems, ..self }
    }
}

/// Completes the commands in the remedy of a failure with the flag that names the scheduler.
pub(crate) fn with_own_flag(mut error: anyhow::Error, flag: &str) -> anyhow::Error {
    if let Some(failure) = error.downcast_mut::<Failure>() {
        let remedy = failure.remedy.take();
        failure.remedy = remedy.map(|remedy| with_flag(&remedy, flag));
    }
    error
}

/// Returns whether a scheduler has refused the caller itself, so that no repetition of the call helps.
pub(crate) fn is_refused(error: &anyhow::Error) -> bool {
    let mut failures = error.chain().filter_map(|e| e.downcast_ref::<Failure>());
    failures.any(|failure| failure.ending == CommandEnding::Refused)
}

/// Returns the failure for a token among the words of the command line, which never repeats the token. Arguments of `artifact hold`
/// after `--` are those of another program.
pub(crate) fn token_in_words(words: impl Iterator<Item = OsString>) -> Option<Failure> {
    let words: Vec<_> = words
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let starts_program = words.starts_with(&["artifact".to_owned(), "hold".to_owned()]);
    let mut own = words
        .iter()
        .take_while(|word| !starts_program || *word != "--");
    let word = own.find(|word| Token::is_in(word))?;
    let number = Token::from_text(word).map(|token| token.secret.number());
    let number = number.map_or("NUMBER".to_owned(), |number| number.to_string());
    let remedy = format!(
        "Revoke the token with `brasserie token revoke {number}`, and get a new one. Keep that in a file of mode 0600, and name the file with \
         --token-file; `--token-file -` for standard input, BRASSERIE_TOKEN and contexts hide tokens too"
    );
    Some(Failure::usage(TOKEN_IN_PLAIN_SIGHT).remedy(remedy))
}

/// Splits advice off a message: the text from the first sentence on that begins after the end of another one, outside backticks. Messages of
/// the scheduler have both in one text.
fn split_advice(message: &str) -> Option<(&str, &str)> {
    let mut is_quoted = false;
    for (at, character) in message.char_indices() {
        is_quoted ^= character == '`';
        let after = message[at..].strip_prefix(". ").filter(|_| !is_quoted);
        let begins = |text: &str| text.starts_with(|c: char| c.is_uppercase() || c == '`');
        if let Some(advice) = after.filter(|after| begins(after)) {
            return Some((&message[..at], advice));
        }
    }
    None
}

/// Returns the remedy for a file that cannot be read.
pub(crate) fn path_remedy() -> String {
    let folder = std::env::current_dir().unwrap_or_default();
    format!(
        "Check the path; relative paths resolve against {}",
        folder.display()
    )
}

/// Returns the text that a user reads.
#[cfg(test)]
pub(crate) fn text_of(error: &anyhow::Error) -> String {
    FailureMessage::of(error).text()
}

/// Returns the message of an error with its causes and problems, in one line, for a list of failures.
pub(crate) fn one_line(error: &anyhow::Error) -> String {
    let FailureMessage {
        message,
        causes,
        problems,
        ..
    } = FailureMessage::of(error);
    let parts = [message].into_iter().chain(causes).chain(problems);
    parts.collect::<Vec<_>>().join(": ")
}

/// The parts of a failure's message.
#[derive(Debug, PartialEq)]
struct FailureMessage {
    message: String,
    causes: Vec<String>,
    problems: Vec<String>,
    remedy: Option<String>,
    ending: CommandEnding,
}

impl FailureMessage {
    fn of(error: &anyhow::Error) -> Self {
        let mut chain = error.chain().map(ToString::to_string);
        let message = chain.next().unwrap_or_default();
        // Many libraries repeat a cause's text in their own.
        let mut last = message.clone();
        let causes = chain.filter(|cause| {
            let is_new = !last.contains(cause.as_str());
            last.clone_from(cause);
            is_new
        });
        let causes = causes.collect();
        let failure = error.chain().find_map(|e| e.downcast_ref::<Failure>());
        let unknown = error.chain().find_map(|e| e.downcast_ref::<Unknown>());
        let unknown = unknown.map(Unknown::remedy);
        FailureMessage {
            message,
            causes,
            problems: failure.map(|f| f.problems.clone()).unwrap_or_default(),
            remedy: failure.and_then(|f| f.remedy.clone()).or(unknown),
            ending: failure.map_or(CommandEnding::Failure, |f| f.ending),
        }
    }

    /// Splits clap's text for a refused command line: `error: MESSAGE`, then tips and the usage.
    fn of_usage(text: &str) -> Self {
        let mut paragraphs = text.split("\n\n").map(str::trim);
        let message = paragraphs.next().unwrap_or_default();
        let message = message.strip_prefix("error: ").unwrap_or(message);
        let lines = message.lines().map(str::trim).collect::<Vec<_>>();
        let rest: Vec<&str> = paragraphs
            .flat_map(str::lines)
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect();
        FailureMessage {
            message: lines.join(" "),
            causes: Vec::new(),
            problems: Vec::new(),
            remedy: Some(rest.join("; ")).filter(|rest| !rest.is_empty()),
            ending: CommandEnding::Usage,
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for problem in &self.problems {
            text.push_str(&format!("{problem}\n"));
        }
        text.push_str(&format!("brasserie: {}", self.message));
        for cause in &self.causes {
            let end = if text.ends_with('?') { "" } else { ":" };
            text.push_str(&format!("{end} {cause}"));
        }
        if let Some(remedy) = &self.remedy {
            let end = if text.ends_with(['.', '?']) { "" } else { "." };
            text.push_str(&format!("{end} {remedy}"));
        }
        text
    }

    fn document(&self) -> Value {
        let (mut message, mut causes) = (self.message.as_str(), self.causes.clone());
        let mut remedy = self.remedy.clone();
        if remedy.is_none() {
            let last = self.causes.last().unwrap_or(&self.message);
            if let Some((reason, advice)) = split_advice(last) {
                remedy = Some(advice.to_owned());
                match causes.last_mut() {
                    Some(cause) => *cause = reason.to_owned(),
                    None => message = reason,
                }
            }
        }
        json!({
            "error": {
                "program": "brasserie",
                "message": message,
                "causes": causes,
                "problems": self.problems,
                "remedy": remedy,
                "exit_code": self.ending.code(),
            }
        })
    }

    fn tell(&self) -> ExitCode {
        // One line, which also ends the stream of `logs --follow`.
        let print_document =
            || print_raw(&json_text(&self.document(), Layout::OneLine)).map(|_: OutputReader| ());
        if !wants_json() || print_document().is_err() {
            telemetry::print_last_error(&self.text());
        }
        self.ending.into()
    }
}

/// Prints why the command has failed. Returns the failure's exit code.
pub(crate) fn tell(error: &anyhow::Error) -> ExitCode {
    FailureMessage::of(error).tell()
}

/// Prints the mistake in the command line, or the requested help. Returns the exit code.
pub(crate) fn tell_usage(mut error: clap::Error, command: &clap::Command) -> ExitCode {
    let words = std::env::args_os().skip(1);
    let words: Vec<String> = words
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    if let Some(failure) = no_data_dir(&error, &words) {
        return tell(&failure.into());
    }
    suggest_subcommand(&mut error, command, &words);
    if !error.use_stderr() || !wants_json() {
        error.exit();
    }
    FailureMessage::of_usage(&error.render().to_string()).tell()
}

/// The commands that change or ask a running scheduler, and have no `--data-dir`.
const OF_SCHEDULER: [&str; 8] = [
    "artifact", "audit", "ca", "job", "plan", "task", "token", "worker",
];

/// Returns the failure for a `--data-dir` of a command that needs a running scheduler. `words` are the command line.
fn no_data_dir(error: &clap::Error, words: &[String]) -> Option<Failure> {
    let named = error.get(ContextKind::InvalidArg);
    let is_data_dir = matches!(named, Some(ContextValue::String(flag)) if flag == "--data-dir");
    if error.kind() != ErrorKind::UnknownArgument || !is_data_dir {
        return None;
    }
    let first = words.first().map(String::as_str)?;
    let is_word = |word: &&String| !word.starts_with('-');
    let second = words.get(1).filter(is_word).map(String::as_str);
    let command = match second.filter(|_| first != "plan") {
        Some(second) => format!("{first} {second}"),
        None => first.to_owned(),
    };
    let remedy = match &*command {
        "job forgive" => {
            "Name one with --scheduler HOST:PORT. `brasserie run FILE --data-dir DIR --retry-failed` runs the failed tasks of a run again"
        }
        artifact if artifact.starts_with("artifact") => {
            "Name one with --scheduler HOST:PORT. The outputs of a `brasserie run` cannot be fetched: let a job that has them as inputs copy them"
        }
        _ => {
            "Name one with --scheduler HOST:PORT. Only `brasserie run` changes the data directory of a run; `status`, `task list`, `explain` and \
             `logs` read it"
        }
    };
    OF_SCHEDULER.contains(&first).then(|| {
        Failure::usage(format!(
            "`brasserie {command}` needs a running scheduler, so it has no --data-dir"
        ))
        .remedy(remedy)
    })
}

/// Adds the subcommand that was probably meant, if the parser has found none.
fn suggest_subcommand(error: &mut clap::Error, command: &clap::Command, words: &[String]) {
    if error.kind() != ErrorKind::InvalidSubcommand
        || error.get(ContextKind::SuggestedSubcommand).is_some()
    {
        return;
    }
    let mut parent = command;
    for word in words {
        match parent.find_subcommand(word) {
            Some(child) => parent = child,
            None => {
                let names = parent.get_subcommands().map(clap::Command::get_name);
                if let Some(meant) = nearest(word, names) {
                    let meant = ContextValue::Strings(vec![meant.to_owned()]);
                    error.insert(ContextKind::SuggestedSubcommand, meant);
                }
                return;
            }
        }
    }
}

/// Returns whether the command line requests JSON, even if the rest is invalid.
fn wants_json() -> bool {
    let mut options = std::env::args_os().take_while(|argument| argument != "--");
    options.any(|argument| argument == "--json")
}

#[cfg(test)]
mod tests {
    use anyhow::{Context as _, anyhow};

    use super::*;

    #[test]
    fn a_failure_has_its_message_causes_and_remedy_in_both_forms() {
        let error = Err::<(), _>(Failure::usage("no file").remedy("Write one."))
            .context("cannot submit")
            .unwrap_err();
        let report = FailureMessage::of(&error);
        assert_eq!(
            report.text(),
            "brasserie: cannot submit: no file. Write one."
        );
        let expected = json!({ "error": {
            "program": "brasserie", "message": "cannot submit", "causes": ["no file"], "problems": [], "remedy": "Write one.",
            "exit_code": 2,
        }});
        assert_eq!(report.document(), expected);
        let advised = FailureMessage::of(&anyhow!("`a. B` is late. Ask. Or wait."));
        let (text, document) = (advised.text(), advised.document());
        assert_eq!(text, "brasserie: `a. B` is late. Ask. Or wait.");
        assert_eq!(document["error"]["message"], "`a. B` is late");
        assert_eq!(document["error"]["remedy"], "Ask. Or wait.");
        let caused = FailureMessage::of(&anyhow!("late. Ask.").context("cannot wait"));
        assert_eq!(caused.document()["error"]["causes"], json!(["late"]));
        assert_eq!(caused.document()["error"]["remedy"], "Ask.");
        let listed = Failure::new("no x").remedy("See `brasserie artifact list`");
        let listed = with_own_flag(anyhow!(listed).context("no"), " --context c");
        let expected = "brasserie: no: no x. See `brasserie artifact list --context c`";
        assert_eq!(text_of(&listed), expected);
        let question = Failure::new("no `x`; did you mean `y`?").remedy("Look.");
        let text = text_of(&question.into());
        assert_eq!(text, "brasserie: no `x`; did you mean `y`? Look.");
    }

    #[test]
    fn an_unknown_name_gets_the_command_that_lists_such_names() {
        let job = Unknown::new("no job is called `x`".to_owned(), " --context c");
        let remedy = job.remedy();
        assert_eq!(remedy, "`brasserie status --all --context c` lists jobs");
        let node = Unknown::new("no node is called `x`".to_owned(), "").of_job("a b");
        let remedy = node.remedy();
        let expected = "`brasserie task list --job 'a b'` lists the nodes of the job";
        assert_eq!(remedy, expected);
    }

    #[test]
    fn a_token_on_the_command_line_is_not_repeated() {
        let secret = "cd".repeat(32);
        let token = format!("brt1-{}-{secret}", "ab".repeat(32));
        let words = |text: &str| {
            let words: Vec<OsString> = text.split(' ').map(OsString::from).collect();
            token_in_words(words.into_iter())
        };
        for line in [
            "status",
            "status --",
            "--token-file",
            "--token-file=",
            "context use",
        ] {
            let line = match line.ends_with('=') {
                true => format!("{line}{token} --json"),
                false => format!("{line} {token}"),
            };
            let failure = words(&line).expect("it has a token");
            let text = text_of(&failure.into());
            assert!(
                text.contains("shell's history") && !text.contains(&secret),
                "{text}"
            );
        }
        assert!(words("logs brt1-job").is_none());
        let other = format!("artifact hold j -- program {token}");
        assert!(words(&other).is_none());
    }

    #[test]
    fn a_cause_in_the_message_is_not_repeated() {
        let denied = std::io::Error::from_raw_os_error(13);
        let text = format!("cannot read x: {denied}");
        let error = anyhow::Error::from(denied).context(text.clone());
        assert_eq!(
            FailureMessage::of(&error).text(),
            format!("brasserie: {text}")
        );
        let error = anyhow!("inner").context("outer");
        assert_eq!(FailureMessage::of(&error).text(), "brasserie: outer: inner");
    }

    #[test]
    fn a_wrong_command_line_is_an_object_too() {
        let text = "error: invalid value 'x' for '--limit <N>': write a number above 0\n\nFor more information, try '--help'.\n";
        let report = FailureMessage::of_usage(text);
        let message = "invalid value 'x' for '--limit <N>': write a number above 0";
        assert_eq!(report.message, message);
        let remedy = "For more information, try '--help'.";
        assert_eq!(report.remedy.as_deref(), Some(remedy));
        assert_eq!(report.document()["error"]["exit_code"], 2);
    }

    #[test]
    fn a_misspelt_subcommand_gets_a_suggestion() {
        use clap::CommandFactory as _;
        let command = crate::Cli::command();
        for (line, meant) in [
            ("rnu", Some("'run'")),
            ("job wiat", Some("'wait'")),
            ("xyzzy", None),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let arguments = ["brasserie"].into_iter().chain(line.split(' '));
            let parsed = command.clone().try_get_matches_from(arguments);
            let mut error = parsed.unwrap_err();
            suggest_subcommand(&mut error, &command, &words);
            let text = error.render().to_string();
            let tip = text.lines().find(|line| line.contains("tip:"));
            let names = |meant: &str| tip.is_some_and(|tip| tip.contains(meant));
            assert!(meant.map_or(tip.is_none(), names), "{text}");
        }
    }
}
