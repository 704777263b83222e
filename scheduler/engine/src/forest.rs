//! The forest: levels and nodes as columns, and the filters that say on which nodes a job may run.

pub(crate) mod below;
pub(crate) mod below_builder;
mod builder;
pub(crate) mod filter;
pub(crate) mod growing;
pub(crate) mod index;
mod sorting;
mod table;

pub use builder::{MAX_NODES, NameTaken, NodeError, NodeTableBuilder};
pub use table::{NodeTable, Row, SourceTime, TimesGiven};
