//! Runs the tests of the worker program again without a PID namespace, as ordinary users do, and root on request.

#[path = "program.rs"]
mod program;
