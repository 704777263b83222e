//! Formats a log line for people and for programs.

use brasserie_thrift::generated::common::LogLine;
use serde_json::{Value, json};

use crate::connection::run_id;
use crate::output::printable;

/// The text after a part of a line that was too long for the log.
const GOES_ON: &str = " [the line goes on]";

/// The names that a line must show because the request did not fix them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShownNames {
    None,
    Node,
    JobAndNode,
}

/// The treatment of task output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskText {
    AsWritten,
    /// Text for a terminal: control characters except tabs are escaped.
    Printable,
}

/// Formats one line with its newline. A part of a longer line is marked, and bytes that are not UTF-8 are escaped. Names are always
/// printable.
pub(crate) fn text(line: &LogLine, names: ShownNames, how: TaskText) -> String {
    let written = match &line.bytes {
        Some(bytes) => escaped(bytes),
        None => line.line.clone().unwrap_or_default(),
    };
    let written = written.strip_suffix('\n').unwrap_or(&written);
    let text = match how {
        TaskText::AsWritten => written.to_owned(),
        TaskText::Printable => {
            let between_tabs: Vec<String> = written.split('\t').map(printable).collect();
            between_tabs.join("\t")
        }
    };
    let end = match line.continued {
        Some(true) => GOES_ON,
        Some(false) | None => "",
    };
    let job = printable(line.job_id.as_deref().unwrap_or_default());
    let node = printable(line.node_id.as_deref().unwrap_or_default());
    match names {
        ShownNames::None => format!("{text}{end}\n"),
        ShownNames::Node => format!("{node}: {text}{end}\n"),
        ShownNames::JobAndNode => format!("{job} {node}: {text}{end}\n"),
    }
}

/// Returns the line as JSON. `bytes` is present only if `line` differs from the bytes that were written.
pub(super) fn json(line: &LogLine) -> Value {
    let mut value = json!({
        "job": line.job_id, "node": line.node_id, "time": line.time, "line": line.line, "line_id": line.line_id,
    });
    let run = run_id(line.invocation_id.clone());
    let more = [
        ("time_ms", line.time_ms.map(Value::from)),
        ("invocation", run.map(Value::from)),
        ("worker", line.worker_shard.clone().map(Value::from)),
        ("bytes", line.bytes.clone().map(Value::from)),
        ("continued", line.continued.map(Value::from)),
    ];
    for (key, known) in more {
        if let Some(known) = known {
            value[key] = known;
        }
    }
    value
}

/// Returns the text, with `\xFF` for each byte that is not UTF-8.
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use brasserie_common::InvocationId;

    use super::*;

    fn line(bytes: &[u8]) -> LogLine {
        let text = String::from_utf8_lossy(bytes).into_owned();
        LogLine {
            job_id: Some("j".to_owned()),
            node_id: Some("n".to_owned()),
            bytes: (text.as_bytes() != bytes).then(|| bytes.to_vec()),
            line: Some(text),
            ..LogLine::default()
        }
    }

    #[test]
    fn lines_begin_with_the_names_that_the_command_left_open() {
        let line = line(b"x\n");
        assert_eq!(text(&line, ShownNames::None, TaskText::AsWritten), "x\n");
        assert_eq!(text(&line, ShownNames::Node, TaskText::AsWritten), "n: x\n");
        assert_eq!(
            text(&line, ShownNames::JobAndNode, TaskText::AsWritten),
            "j n: x\n"
        );
    }

    #[test]
    fn text_marks_pieces_and_escapes_bytes() {
        let mut piece = line(b"a\xff\xc3\xa4\xfe");
        piece.continued = Some(true);
        assert_eq!(
            text(&piece, ShownNames::None, TaskText::AsWritten),
            "a\\xFF\u{e4}\\xFE [the line goes on]\n"
        );
        assert_eq!(
            text(&line(b"no newline"), ShownNames::None, TaskText::AsWritten),
            "no newline\n"
        );
    }

    #[test]
    fn names_are_always_printable_and_task_text_where_it_is_for_a_terminal() {
        let mut line = line(b"a\tb\x1b[2J\xc2\x9b\n");
        line.job_id = Some("j\n\u{1b}[31m".to_owned());
        let shown = text(&line, ShownNames::JobAndNode, TaskText::Printable);
        assert_eq!(shown, "j\\n\\u{1b}[31m n: a\tb\\u{1b}[2J\\u{9b}\n");
        let shown = text(&line, ShownNames::JobAndNode, TaskText::AsWritten);
        assert_eq!(shown, "j\\n\\u{1b}[31m n: a\tb\u{1b}[2J\u{9b}\n");
    }

    #[test]
    fn json_has_all_that_is_known() {
        let mut line = line(b"\xff");
        line.time_ms = Some(1500);
        line.invocation_id = Some(InvocationId::new(7, -1).into());
        line.worker_shard = Some("w1".to_owned());
        line.continued = Some(true);
        let value = json(&line);
        assert_eq!(value["time_ms"], 1500);
        assert_eq!(value["invocation"], "7:ffffffffffffffff");
        assert_eq!(value["worker"], "w1");
        assert_eq!(value["bytes"], json!([255]));
        assert_eq!(value["continued"], true);
    }

    #[test]
    fn json_of_an_older_worker_has_no_guesses() {
        let value = json(&line(b"x"));
        let keys: Vec<&String> = value
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, _)| key)
            .collect();
        assert_eq!(keys, ["job", "line", "line_id", "node", "time"]);
    }
}
