//! Tests of the choice of requests: single rules, and laws that hold for all requests.

mod amounts;
mod choice;
mod laws;
mod properties;
mod reasons;
mod rig;
