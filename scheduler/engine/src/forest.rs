//! The forest: levels and nodes as columns, and which of them a job may run on.

pub(crate) mod below;
mod builder;
pub(crate) mod filter;
pub(crate) mod growing;
pub(crate) mod index;
mod sorting;
mod table;

pub use builder::{MAX_NODES, NameTaken, NodeError, NodeTableBuilder};
pub use table::{NodeTable, Row, SourceTime, TimesGiven};
