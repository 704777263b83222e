//! The worker protocol machine.
