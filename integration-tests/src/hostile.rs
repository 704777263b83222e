//! Sends millions of invalid frames to real servers: none may crash, and none may keep memory.
//!
//! [`originals`] makes valid frames of every method in every dialect, and [`mutation`] corrupts them. [`attack`] sends them and counts the
//! frames that a server processed. [`crowd`] holds unused connections.

pub mod attack;
pub mod crowd;
pub mod mutation;
pub mod originals;

pub use attack::{Attack, AttackReport, Damage};
pub use crowd::Crowd;
