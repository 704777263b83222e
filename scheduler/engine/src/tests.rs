//! Tests of the engine as a whole: scenarios, and random histories against a plain scheduler that scans everything.

mod explain;
mod fingerprints;
mod keys;
mod listing;
mod plain;
mod random;
mod scenarios;
mod world;
