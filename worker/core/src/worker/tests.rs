//! Transcripts: what is heard, and exactly what is done.

mod joining;
mod leaving;
mod reporting;
mod running;
