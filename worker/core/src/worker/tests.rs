//! Transcripts: what is heard, and exactly what is done.

mod joining;
mod leaving;
mod limits;
mod reporting;
mod running;
