//! The rules of what runs, one by one, and the laws that hold for all of them.

mod danger;
mod deadlines;
mod listed;
mod next;
mod precedence;
mod properties;
mod rig;
mod taken;
