//! Every history of a small world: the real cores in their hosts, a few packets, budgets of faults, and each order of all that can
//! happen, breadth first, so that the first counterexample found is a shortest one.
//!
//! A world is one shard or two, one or two tasks, one scheduler after another (or two at once), and at most a few instances of
//! workers. What can happen is a [`choices::Choice`]. States that differ by names and by the order of packets are one, under 128
//! bits of hash. What is fixed so that the space stays small is said at [`settings::Settings`].

pub mod choices;
pub mod explore;
mod judge;
mod lives;
mod packets;
pub mod rules;
pub mod settings;
mod shape;
pub mod world;
pub mod worlds;
