//! The rules of whom to ask and for how much, one by one, and the laws that hold for all of them.

mod amounts;
mod choice;
mod laws;
mod properties;
mod reasons;
mod rig;
