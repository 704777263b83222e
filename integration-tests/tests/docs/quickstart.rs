//! Tests that run the commands of the README and of the quickstart with the real programs, and compare the output with the pages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use integration_tests::e2e::{Client, Process, Stage, copy_sources, free_port, wait_for};
use nix::sys::signal::Signal;

use super::{blocks, commands};

/// The directories and the address of the pages, which a test replaces by its own.
const DIRECTORY: &str = "/tmp/brasserie";
const SCHEDULER: &str = "127.0.0.1:6789";

/// One reader of a page, with a clone of the repository.
struct Reader {
    /// The programs that still run. They end before the stage does.
    running: Vec<Process>,
    stage: Stage,
    tree: PathBuf,
    port: u16,
    http_port: u16,
    /// The output of the last command that has ended.
    output: String,
    /// The number of executed commands.
    count: usize,
}

impl Reader {
    fn new() -> Reader {
        let stage = Stage::new();
        let tree = stage.path("tree");
        copy_sources(&tree);
        keep_one_crate(&tree);
        Reader {
            running: Vec::new(),
            stage,
            tree,
            port: free_port(),
            http_port: free_port(),
            output: String::new(),
            count: 0,
        }
    }

    /// Runs the commands of a page, and compares each block of text after them with the output of the last one.
    fn follow(&mut self, path: &str) {
        let mut is_after_commands = false;
        for block in blocks(path) {
            if block.info == "sh" {
                commands(&block)
                    .iter()
                    .for_each(|command| self.execute(command));
            } else if is_after_commands && !block.text.starts_with("$ ") {
                self.compare(&block.place, &block.text);
            }
            is_after_commands = block.info == "sh";
        }
    }

    fn execute(&mut self, command: &str) {
        let directory = self.stage.path("brasserie");
        let directory = directory
            .to_str()
            .expect("temporary folders have plain names");
        let address = format!("127.0.0.1:{}", self.port);
        let words = command
            .replace(DIRECTORY, directory)
            .replace(SCHEDULER, &address);
        let words: Vec<&str> = words.split_whitespace().collect();
        self.count += 1;
        match &words[..] {
            // Cargo has built the programs with this test.
            ["cargo", "build", "--release", "--workspace"] => {}
            ["cargo", "run", "--release", "--", arguments @ ..]
            | ["target/release/brasserie", arguments @ ..] => self.brasserie(command, arguments),
            ["target/release/brasserie-scheduler", arguments @ ..] => {
                let http_address = format!("127.0.0.1:{}", self.http_port);
                let mut program = self.stage.scheduler_program();
                program.args(arguments);
                program.args(["--listen", &address, "--http-listen", &http_address]);
                self.start("scheduler", program);
            }
            ["target/release/brasserie-worker", arguments @ ..] => {
                let mut program = self.stage.worker_program();
                program.args(arguments);
                self.start("worker", program);
            }
            _ => panic!("this test cannot execute `{command}`"),
        }
    }

    fn start(&mut self, name: &str, mut program: Command) {
        program.current_dir(&self.tree);
        self.running.push(self.stage.start(name, program));
    }

    /// Runs `brasserie` to its end, or until it has printed something if it follows a log.
    fn brasserie(&mut self, command: &str, arguments: &[&str]) {
        let mut program = self.stage.brasserie_command(arguments);
        program.current_dir(&self.tree);
        if !self.running.is_empty() && !arguments.contains(&"--data-dir") {
            Client::new(self.port).wait_all_done();
            program.args(["--scheduler", &format!("127.0.0.1:{}", self.port)]);
        }
        let mut process = self.stage.start("brasserie", program);
        if arguments.contains(&"--follow") {
            wait_for(command, || (!process.output().is_empty()).then_some(()));
            process.signal(Signal::SIGINT);
            process.wait();
        } else {
            let status = process.wait();
            assert!(
                status.success(),
                "`{command}` ends with {status}: {}",
                process.output()
            );
        }
        self.output = process.output();
        assert!(!self.output.is_empty(), "`{command}` prints nothing");
    }

    /// Compares the words of a text with the output: each of its lines is there, in its order.
    fn compare(&self, place: &str, text: &str) {
        let mut lines = self.output.lines().map(words);
        for expected in text.lines().map(words).filter(|words| !words.is_empty()) {
            assert!(
                lines.any(|line| line == expected),
                "{place}: {expected:?} is not in its place in:\n{}",
                self.output
            );
        }
    }
}

/// Removes all crates but the one whose files the pages name. The whole repository takes minutes in an unoptimised build.
fn keep_one_crate(tree: &Path) {
    for entry in fs::read_dir(tree).expect("a temporary folder is readable") {
        let path = entry.expect("a folder entry is readable").path();
        if path.is_dir()
            && !["cli", "examples"]
                .map(|kept| tree.join(kept))
                .contains(&path)
        {
            fs::remove_dir_all(path).expect("a temporary folder can be removed");
        }
    }
}

/// Returns the words of a line without numbers and units, which differ from run to run.
fn words(line: &str) -> Vec<&str> {
    let is_measured = |word: &str| {
        word.contains(|c: char| c.is_ascii_digit()) || ["ms", "s", "min", "h"].contains(&word)
    };
    let words = line.split_whitespace();
    words.filter(|word| !is_measured(word)).collect()
}

#[test]
fn the_commands_of_the_quickstart_work() {
    let mut reader = Reader::new();
    reader.follow("docs/src/guide/quickstart.md");
    assert!(
        reader.count >= 12 && reader.running.len() == 3,
        "{} commands",
        reader.count
    );
}

#[test]
fn the_commands_of_the_readme_work() {
    let mut reader = Reader::new();
    reader.follow("README.md");
    assert!(
        reader.count >= 9 && reader.running.len() == 3,
        "{} commands",
        reader.count
    );
}
