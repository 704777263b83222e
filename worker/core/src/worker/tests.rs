//! Transcripts of the worker: events in, exact effects out.

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
mod standby;
