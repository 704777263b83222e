//! Transcripts: what is heard, and exactly what is done.

mod cards;
mod joining;
mod leaving;
mod limits;
mod queueing;
mod reporting;
mod running;
mod several;
