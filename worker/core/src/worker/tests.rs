//! Transcripts: what is heard, and exactly what is done.

mod cards;
mod joining;
mod leaving;
mod limits;
mod reporting;
mod running;
