//! Tests output in files instead of the log.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use brasserie_common::Output;
use flate2::read::MultiGzDecoder;

use super::*;

impl Bench {
    /// Does the same as [`Bench::script`], with files. Also returns the run's events once each file is finished.
    fn script_with_files(
        &mut self,
        key: RunKey,
        text: &str,
        files: usize,
    ) -> (TaskEnd, Vec<Value>) {
        let mut request = script(text, StatusFrom::Auto);
        request.key = key.clone();
        request.options.output = Output::File;
        self.runner.spawn(request).expect("accepted");
        let end = self.end(&key);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let events = self.events(&key);
            let (written, rest): (Vec<Value>, Vec<Value>) = events
                .into_iter()
                .partition(|event| event["event"] == "task_output_written");
            if written.len() == files {
                return (end, rest.into_iter().chain(written).collect());
            }
            assert!(
                Instant::now() < deadline,
                "{files} files of {key}: {written:?}"
            );
            std::thread::yield_now();
        }
    }
}

fn unpacked(file: &Value) -> Vec<u8> {
    let path = file.as_str().expect("a path");
    let mut bytes = Vec::new();
    let file = File::open(path).expect("it is there");
    MultiGzDecoder::new(file)
        .read_to_end(&mut bytes)
        .expect("whole members");
    bytes
}

#[test]
fn output_goes_into_files_and_the_log_says_where() {
    let mut bench = Bench::new();
    // The task prints faster than the log's rate limit, which does not apply here.
    let text = "seq 1 200000; printf 'a\\000\\377b' ; seq 1 9 >&2; printf end >&2; exit 3";
    let key = key("job");
    let (end, events) = bench.script_with_files(key.clone(), text, 2);
    assert!(!end.status.is_done());
    assert_eq!(end.story.last_lines, ["6", "7", "8", "9", "end"]);
    for stream in [LogStream::Stdout, LogStream::Stderr] {
        assert_eq!(bench.lines(stream, &key), [""; 0]);
    }
    let mut printed: Vec<u8> = (1..=200_000)
        .flat_map(|i| format!("{i}\n").into_bytes())
        .collect();
    printed.extend_from_slice(b"a\0\xffb");
    let [.., stdout, stderr] = &events[..] else {
        panic!("{events:?}")
    };
    assert!(unpacked(&stdout["stdout_file"]) == printed);
    assert_eq!(stdout["bytes"], printed.len());
    let file = Path::new(stdout["stdout_file"].as_str().expect("a path"));
    assert_eq!(
        stdout["compressed_bytes"],
        file.metadata().expect("a file").len()
    );
    assert_eq!(stdout["lost_bytes"], 0);
    let told = stdout["message"].as_str().expect("words");
    assert!(
        told.contains("stdout is in /") && told.contains("on here"),
        "{told}"
    );
    assert_eq!(
        unpacked(&stderr["stderr_file"]),
        b"1\n2\n3\n4\n5\n6\n7\n8\n9\nend"
    );
    // The first event also names the files, for readers while the task runs or after a crash.
    assert_eq!(events[0]["event"], "running");
    assert_eq!(events[0]["stdout_file"], stdout["stdout_file"]);
    assert_eq!(events[0]["stderr_file"], stderr["stderr_file"]);
}

#[test]
fn silent_tasks_have_no_file_and_no_name_escapes_the_folder() {
    let mut bench = Bench::new();
    let (end, events) = bench.script_with_files(key("quiet"), "true", 0);
    assert!(end.status.is_done());
    assert!(
        events
            .iter()
            .all(|event| event["event"] != "task_output_written")
    );
    let mut strange = key("../../up");
    strange.node = NodeName::try_from("/".repeat(500)).expect("a name");
    let (end, events) = bench.script_with_files(strange, "echo here", 1);
    assert!(end.status.is_done());
    let last = events.last().expect("an event");
    let path = PathBuf::from(last["stdout_file"].as_str().expect("a path"));
    let folder = bench.dir().join("output").canonicalize().expect("there");
    assert!(path.canonicalize().expect("there").starts_with(&folder));
    assert_eq!(unpacked(&last["stdout_file"]), b"here\n");
    assert_eq!(folder.read_dir().expect("a folder").count(), 1);
}

#[test]
fn a_descendant_that_prints_after_the_end_is_in_the_file() {
    let mut bench = Bench::new();
    // The shell is dead, but not reaped while another process holds its pipes.
    let script = "(until grep -q '^State:.Z' /proc/$$/status; do :; done; echo late) & echo early";
    let (_, events) = bench.script_with_files(key("job"), script, 1);
    let last = events.last().expect("an event");
    assert_eq!(unpacked(&last["stdout_file"]), b"early\nlate\n");
}
