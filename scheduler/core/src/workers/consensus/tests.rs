//! Consensus under test.
