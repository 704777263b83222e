//! The breadth-first search over all choices: visited states, waiting states, and the path to a state that breaks the contract.

use std::collections::VecDeque;

use brasserie_common::collections::IdSet;

use super::settings::{Choice, WorldSettings};
use super::world::SmallWorld;
use crate::trace::Trace;

/// The number of waiting worlds kept in memory, about 20 kB each, so 2 GB. Further ones are rebuilt from their choices.
const MAX_KEPT: usize = 100_000;

/// The limits of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchLimits {
    pub states: usize,
    pub depth: u32,
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchEnd {
    /// Every state that the budgets allow was visited.
    Exhausted,
    Cut,
    Broken,
}

/// The path to a broken contract.
#[derive(Clone, Debug)]
pub struct Counterexample {
    pub what: String,
    pub steps: Vec<String>,
}

/// The result of a search.
#[derive(Clone, Debug)]
pub struct SearchOutcome {
    pub end: SearchEnd,
    pub states: usize,
    pub transitions: u64,
    pub depth: u32,
    pub probes: u64,
    pub counterexample: Option<Counterexample>,
}

/// How a state was reached first.
#[derive(Clone, Copy, Debug)]
struct Node {
    parent: u32,
    choice: u16,
}

struct WaitingState {
    node: u32,
    depth: u32,
    world: Option<Box<SmallWorld>>,
}

struct Explorer<'a> {
    settings: &'a WorldSettings,
    nodes: Vec<Node>,
    visited: IdSet<u128>,
    frontier: VecDeque<WaitingState>,
    kept: usize,
    outcome: SearchOutcome,
}

/// Visits all states within the limits. Stops at the first one that breaks the contract. Calls `tell` at each depth.
pub fn explore(
    settings: &WorldSettings,
    limits: SearchLimits,
    tell: &mut dyn FnMut(u32, usize),
) -> SearchOutcome {
    let root = SmallWorld::new(settings);
    let mut explorer = Explorer {
        settings,
        nodes: vec![Node {
            parent: 0,
            choice: 0,
        }],
        visited: IdSet::default(),
        frontier: VecDeque::new(),
        kept: 0,
        outcome: SearchOutcome {
            end: SearchEnd::Exhausted,
            states: 1,
            transitions: 0,
            depth: 0,
            probes: 0,
            counterexample: None,
        },
    };
    explorer.visited.insert(root.fingerprint());
    explorer.wait(0, 0, root);
    while let Some(waiting) = explorer.frontier.pop_front() {
        if waiting.depth > explorer.outcome.depth {
            explorer.outcome.depth = waiting.depth;
            tell(waiting.depth, explorer.outcome.states);
        }
        if waiting.depth >= limits.depth || explorer.nodes.len() >= limits.states {
            explorer.outcome.end = SearchEnd::Cut;
            break;
        }
        if explorer.expand(waiting) {
            explorer.outcome.end = SearchEnd::Broken;
            break;
        }
    }
    explorer.outcome
}

impl Explorer<'_> {
    fn wait(&mut self, node: u32, depth: u32, world: SmallWorld) {
        let world = (self.kept < MAX_KEPT).then(|| Box::new(world));
        self.kept += usize::from(world.is_some());
        self.frontier.push_back(WaitingState { node, depth, world });
    }

    /// Visits the successors of a state. Returns true if the contract is broken.
    fn expand(&mut self, waiting: WaitingState) -> bool {
        let world = match waiting.world {
            Some(world) => {
                self.kept -= 1;
                *world
            }
            None => self.again(waiting.node),
        };
        for (number, choice) in world.choices().into_iter().enumerate() {
            let mut next = world.clone();
            next.apply(choice);
            self.outcome.transitions += 1;
            let fingerprint = next.fingerprint();
            if !self.visited.insert(fingerprint) {
                continue;
            }
            let node = u32::try_from(self.nodes.len()).expect("Invariant: limited before");
            self.nodes.push(Node {
                parent: waiting.node,
                choice: number as u16,
            });
            self.outcome.states += 1;
            let depth = waiting.depth + 1;
            let mut broken = next.broken().map(|broken| broken.0.clone());
            let one_of = u128::from(self.settings.probe_one_of);
            if broken.is_none() && one_of > 0 && fingerprint.is_multiple_of(one_of) {
                self.outcome.probes += 1;
                broken = next.probe().err();
            }
            if let Some(what) = broken {
                self.outcome.depth = depth;
                let steps = self.steps(node);
                self.outcome.counterexample = Some(Counterexample { what, steps });
                return true;
            }
            self.wait(node, depth, next);
        }
        false
    }

    fn way_to(&self, mut node: u32) -> Vec<u16> {
        let mut way = Vec::new();
        while node != 0 {
            let at = self.nodes[node as usize];
            way.push(at.choice);
            node = at.parent;
        }
        way.reverse();
        way
    }

    /// Rebuilds the world at the end of a path.
    fn again(&self, node: u32) -> SmallWorld {
        let mut world = SmallWorld::new(self.settings);
        for number in self.way_to(node) {
            let choice = world.choices()[usize::from(number)];
            world.apply(choice);
        }
        world
    }

    fn steps(&self, node: u32) -> Vec<String> {
        let way = self.way_to(node);
        let mut world = SmallWorld::new(self.settings);
        world.keep_log();
        let mut trace = Trace::default();
        let mut steps = Vec::new();
        let mut seen = 0;
        for number in way {
            let choice: Choice = world.choices()[usize::from(number)];
            steps.push(world.describe_choice(choice));
            world.apply(choice);
            for (when, happening) in &world.history()[seen..] {
                steps.push(format!("    {}", trace.line(*when, happening)));
            }
            seen = world.history().len();
        }
        steps
    }
}
