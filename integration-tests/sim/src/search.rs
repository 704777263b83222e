//! An exhaustive search of a small world: the real cores in their hosts, a few packets, budgets of faults, and every order of steps. The
//! search is breadth first, so the first counterexample found is a shortest one.
//!
//! A world has one or two shards, one or two tasks, one scheduler after another (or two at once), and a few worker instances. A
//! [`settings::Choice`] is one step. States that differ only in names and in the order of packets count as one; a 128-bit hash identifies a
//! state. [`settings::WorldSettings`] lists the simplifications that keep the space small.

pub mod explore;
mod judge;
pub mod rules;
pub mod settings;
pub mod world;
pub mod worlds;
