//! The scheduler protocol machine.
