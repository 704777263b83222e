//! Frames that no good peer sends, by the million, at real servers: none may die, and none may keep memory.
//!
//! [`originals`] makes good frames of every method in every dialect, [`mutation`] spoils them, [`attack`] sends them and counts what a server
//! really looked at. [`crowd`] holds connections that it does not use.

pub mod attack;
pub mod crowd;
pub mod mutation;
pub mod originals;

pub use attack::{Attack, Damage, Report};
pub use crowd::Crowd;
