//! The tests of the worker program once more, without a PID namespace: what ordinary users have, and root if it asks for it.

#[path = "program.rs"]
mod program;
