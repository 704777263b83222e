//! Scripts of events with the actions that they cause, compared line by line.
//!
//! ```text
//! 0 want 1.7 size=100 from p1 p2      task 1 wants artifact 7
//!   > fetch p1: 7 (100)               the expected action: the bytes are in parentheses
//! 5 busy p1
//!   > fetch p2: 7 (100)
//! ```
//!
//! The first number of a command is the time in milliseconds. The other commands are `unwant 1.7`, `sent p1 7 -8` (8 is corrupt), `fail p1 7`
//! (the connection broke after 7), `busy p1 7` (busy after 7), `holders 7=p1,p2 8=`, `remove p1`, `pressure high`, `tick`, and
//! `wake 150`, which checks the next wake. The word `replica` after `want 1.7` makes 7 a replica. The first line may set limits: `limits incoming=100 transfers=2`.

use std::collections::BTreeMap;

use super::super::super::event::{GatherEvent, ReceivedCopy, TransferOutcome, WantedArtifact};
use super::super::super::limits::GatherLimits;
use super::super::super::types::{Pressure, TransferId};
use super::super::{Gather, GatherAction};
use super::*;

/// A worker that follows a script.
struct Player {
    gather: Gather,
    transfers: BTreeMap<PeerId, TransferId>,
}

/// Runs a script and compares the actions of each command.
pub fn play(rule: &str, script: &str) {
    let mut lines = script
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .peekable();
    let mut limits = GatherLimits::default();
    if let Some(line) = lines.next_if(|line| line.starts_with("limits ")) {
        line.split_whitespace()
            .skip(1)
            .for_each(|setting| set(&mut limits, setting));
    }
    let mut player = Player {
        gather: Gather::new(me(), limits, rng(1)),
        transfers: BTreeMap::new(),
    };
    while let Some(command) = lines.next() {
        let mut expected = Vec::new();
        while let Some(line) = lines.next_if(|line| line.starts_with("> ")) {
            expected.push(line.trim_start_matches("> ").to_owned());
        }
        let actions = player.perform(command);
        assert_eq!(actions, expected, "{rule}: {command}");
        player.gather.check();
    }
}

fn set(limits: &mut GatherLimits, setting: &str) {
    let (name, value) = setting.split_once('=').expect("a setting has a value");
    let number: u64 = value.parse().expect("a setting is a number");
    match name {
        "transfers" => limits.transfers = number as usize,
        "replicas" => limits.replicas = number as usize,
        "beside" => limits.replicas_beside_inputs = number as usize,
        "message" => limits.message = ByteCount(number),
        "incoming" => limits.incoming = Some(ByteCount(number)),
        "threshold" => limits.throttle_threshold = ByteCount(number),
        other => panic!("no limit {other}"),
    }
}

impl Player {
    fn perform(&mut self, command: &str) -> Vec<String> {
        let words: Vec<&str> = command.split_whitespace().collect();
        let (time, verb) = (words[0].parse().expect("a command has a time"), words[1]);
        if verb == "wake" {
            assert_eq!(self.gather.next_wake(), Some(at(time)), "{command}");
            return Vec::new();
        }
        let event = self.event(verb, &words[2..]);
        let actions = self.gather.handle(event, at(time));
        actions
            .into_iter()
            .map(|action| self.line(action))
            .collect()
    }

    fn event(&mut self, verb: &str, words: &[&str]) -> GatherEvent {
        let name = words.first().copied().unwrap_or_default();
        match verb {
            "want" => wanted(words),
            "unwant" => {
                let (task, artifact) = wish(name);
                GatherEvent::NotWanted {
                    task,
                    artifacts: vec![artifact],
                }
            }
            "busy" => self.ended(name, TransferOutcome::Busy(copies(&words[1..]))),
            "sent" => self.ended(name, TransferOutcome::Answered(copies(&words[1..]))),
            "fail" => {
                let outcome = TransferOutcome::ConnectionFailed(copies(&words[1..]));
                self.ended(name, outcome)
            }
            "holders" => GatherEvent::HoldersRefreshed {
                holders: words.iter().map(|word| holders(word)).collect(),
            },
            "remove" => GatherEvent::PeerRemoved { peer: name.into() },
            "pressure" => GatherEvent::PressureChanged(match name {
                "high" => Pressure::High,
                _ => Pressure::Normal,
            }),
            "tick" => GatherEvent::TimePassed,
            other => panic!("no command {other}"),
        }
    }

    fn ended(&self, peer: &str, outcome: TransferOutcome) -> GatherEvent {
        GatherEvent::TransferEnded {
            transfer: self.transfers[&PeerId::from(peer)],
            outcome,
        }
    }

    fn line(&mut self, action: GatherAction) -> String {
        match action {
            GatherAction::Fetch {
                transfer,
                peer,
                artifacts,
                bytes,
            } => {
                let line = format!("fetch {}: {} ({})", peer.0, list(&artifacts), bytes.0);
                self.transfers.insert(peer, transfer);
                line
            }
            GatherAction::AskHolders { artifacts } => format!("ask {}", list(&artifacts)),
            GatherAction::Arrived { artifact, tasks } => {
                format!("arrived {} for {}", artifact.0[0], tasks_of(&tasks))
            }
            GatherAction::Missing {
                artifact,
                tasks,
                since,
            } => {
                let since = since.since(Time::ZERO).as_millis();
                format!(
                    "missing {} for {} since {since}",
                    artifact.0[0],
                    tasks_of(&tasks)
                )
            }
            GatherAction::ReportCorrupt { peer, artifact } => {
                format!("corrupt {}: {}", peer.0, artifact.0[0])
            }
        }
    }
}

/// Reads `1.7 size=5 prio=2 from p1 p2`.
fn wanted(words: &[&str]) -> GatherEvent {
    let (task, artifact) = wish(words[0]);
    let value = |key: &str| {
        let text = words.iter().find_map(|word| word.strip_prefix(key));
        text.map(|text| text.parse().expect("a number"))
    };
    let names = words.iter().skip_while(|word| **word != "from").skip(1);
    GatherEvent::Wanted {
        task,
        priority: match words.contains(&"replica") {
            true => Priority::REPLICA,
            false => Priority(value("prio=").unwrap_or(0)),
        },
        artifacts: vec![WantedArtifact {
            artifact,
            size: value("size=").map(|size: i64| ByteCount(size.unsigned_abs())),
            holders: names.map(|name| peer(name)).collect(),
        }],
    }
}

/// Reads a task and an artifact: `1.7`.
fn wish(text: &str) -> (WaitingTask, ArtifactId) {
    let (task, id) = text.split_once('.').expect("TASK.ARTIFACT");
    (
        WaitingTask(task.parse().expect("a task is a number")),
        artifact(id.parse().expect("an artifact is a number")),
    )
}

/// Reads received copies: `7`, or `-7` for a corrupt one.
fn copies(words: &[&str]) -> BTreeMap<ArtifactId, ReceivedCopy> {
    let copy = |word: &&str| {
        let number = word.trim_start_matches('-');
        let copy = match number == *word {
            true => ReceivedCopy::Valid,
            false => ReceivedCopy::Corrupt,
        };
        (
            artifact(number.parse().expect("an artifact is a number")),
            copy,
        )
    };
    words.iter().map(copy).collect()
}

/// Reads the holders of an artifact: `7=p1,p2`, or `7=` for none.
fn holders(word: &str) -> (ArtifactId, Vec<Peer>) {
    let (id, names) = word.split_once('=').expect("ARTIFACT=PEERS");
    let names = names.split(',').filter(|name| !name.is_empty());
    (
        artifact(id.parse().expect("an artifact is a number")),
        names.map(peer).collect(),
    )
}

fn list(artifacts: &[ArtifactId]) -> String {
    let numbers: Vec<String> = artifacts.iter().map(|id| id.0[0].to_string()).collect();
    numbers.join(" ")
}

fn tasks_of(tasks: &[WaitingTask]) -> String {
    let numbers: Vec<String> = tasks.iter().map(|task| task.0.to_string()).collect();
    match numbers.is_empty() {
        true => "nobody".to_owned(),
        false => numbers.join(" "),
    }
}
