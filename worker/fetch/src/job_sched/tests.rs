//! Tests of the choice of running tasks: single rules, and laws that hold for all choices.

mod danger;
mod deadlines;
mod listed;
mod next;
mod precedence;
mod properties;
mod rig;
mod taken;
