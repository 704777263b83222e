//! Tests of the engine as a whole: scenarios, and random histories that are compared with a plain scheduler, which scans everything.

mod add_time;
mod cards;
mod credit;
mod explain;
mod fingerprints;
mod gates;
mod keys;
mod listing;
mod locality;
mod plain;
mod policies;
mod random;
mod reclaim;
mod reconfigure;
mod refresh;
mod scenarios;
mod slice_length;
mod standby;
mod weight;
mod world;
