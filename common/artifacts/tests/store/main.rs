//! Tests the store with real files: hostile outputs, full disks, damaged artifacts, restarts, and random operations against a plain model.

mod bench;
mod disks;
mod failing_disk;
mod folders;
mod full_disk;
mod model;
mod outputs;
mod reflink;
mod removal;
mod staging;
mod stops;
mod transfers;
