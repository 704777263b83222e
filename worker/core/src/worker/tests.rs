//! Transcripts: what is heard, and exactly what is done.

mod card_queue;
mod cards;
mod fetching;
mod joining;
mod leaving;
mod limits;
mod looking;
mod moving;
mod preemption;
mod queueing;
mod reporting;
mod running;
mod sessions;
mod several;
