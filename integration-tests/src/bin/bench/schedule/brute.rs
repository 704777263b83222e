//! The baseline: a scheduler that scans everything in each pass, like the paper's. It has plain arrays, no protocol and one thread, so it
//! is faster than any real one of its kind.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use brasserie_common::Time;
use brasserie_common::rng::{Purpose, Rng};

use super::workload::{DATABASES_A_HOST, SLOTS_A_HOST, Size, TaskTimes, Window};
use crate::meter::timed;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BruteTaskState {
    Waiting,
    Running,
    Done,
}

/// A task: job and database.
type TaskPair = (u32, u32);

#[derive(Debug)]
pub struct Brute {
    size: Size,
    /// The state by job and database.
    states: Vec<Vec<BruteTaskState>>,
    running: Vec<TaskPair>,
    nodes: Vec<u32>,
    rng: Rng,
}

impl Brute {
    pub fn new(size: Size) -> Self {
        Brute {
            size,
            states: vec![vec![BruteTaskState::Waiting; size.nodes()]; size.jobs],
            running: Vec::new(),
            nodes: (0..u32::try_from(size.nodes()).expect("few nodes")).collect(),
            rng: Rng::new(11, Purpose::Placement),
        }
    }

    fn end(&mut self, ended: &[TaskPair]) {
        for &(job, node) in ended {
            self.states[job as usize][node as usize] = BruteTaskState::Done;
        }
        let states = &self.states;
        self.running
            .retain(|(job, node)| states[*job as usize][*node as usize] == BruteTaskState::Running);
    }

    /// Runs one pass. It copies the statuses, counts the free slots, puts each job's candidates in random order, and takes one task of each
    /// job in turn until no candidate is left.
    pub fn pass(&mut self) -> Vec<TaskPair> {
        let snapshot = self.states.clone();
        let mut root = self.size.slots();
        let mut hosts = vec![SLOTS_A_HOST; self.size.hosts];
        let mut databases = vec![true; self.size.nodes()];
        for &(_, node) in &self.running {
            root -= 1;
            hosts[node as usize / DATABASES_A_HOST] -= 1;
            databases[node as usize] = false;
        }
        self.rng.shuffle(&mut self.nodes);
        let candidates = snapshot.iter().map(|states| {
            let waits = |node: &&u32| states[**node as usize] == BruteTaskState::Waiting;
            self.nodes.iter().filter(waits).copied().collect()
        });
        let mut candidates: Vec<(u32, Vec<u32>)> = (0..).zip(candidates).collect();
        self.rng.shuffle(&mut candidates);
        let mut started = Vec::new();
        while !candidates.is_empty() {
            candidates.retain_mut(|(job, nodes)| {
                let free = |node: u32| {
                    root > 0
                        && hosts[node as usize / DATABASES_A_HOST] > 0
                        && databases[node as usize]
                };
                while let Some(node) = nodes.pop() {
                    if free(node) {
                        root -= 1;
                        hosts[node as usize / DATABASES_A_HOST] -= 1;
                        databases[node as usize] = false;
                        started.push((*job, node));
                        return true;
                    }
                }
                false
            });
        }
        for &(job, node) in &started {
            self.states[job as usize][node as usize] = BruteTaskState::Running;
        }
        self.running.extend(&started);
        started
    }
}

/// Runs passes for `length` of virtual time, after a warm-up. The tasks that a pass places start at its end.
pub fn window(size: Size, mean: Duration, warm_up: Duration, length: Duration) -> Window {
    let mut brute = Brute::new(size);
    let mut times = TaskTimes::new(mean);
    let mut due: BinaryHeap<Reverse<(Time, TaskPair)>> = BinaryHeap::new();
    let mut now = Time::ZERO;
    let mut window = Window::default();
    while now < Time::ZERO + warm_up + length {
        let before = now;
        let running = due.len() as f64;
        let mut ended = Vec::new();
        let mut idle = 0.0;
        while let Some(Reverse((at, task))) = due.peek().copied()
            && at <= now
        {
            due.pop();
            ended.push(task);
            idle -= now.since(at).as_secs_f64();
        }
        let (started, took) = timed(|| {
            brute.end(&ended);
            brute.pass()
        });
        now = now + took;
        for task in started {
            due.push(Reverse((now + times.draw(), task)));
        }
        if before < Time::ZERO + warm_up {
            continue;
        }
        // A slot is idle from its task's completion until the end of the pass that finds it free.
        let took = took.as_secs_f64();
        idle -= ended.len() as f64 * took;
        window.ended += ended.len() as u64;
        window.engine_time += now.since(before);
        window.add(size.slots() as f64, running * took + idle, took);
    }
    window
}
