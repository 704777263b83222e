//! The worker's own events: those that are no calls.

use brasserie_worker_core::Event;
use tokio::sync::mpsc::UnboundedSender;

/// The sender of the worker's own events. It needs no limit: the core limits its calls and processes, and each causes one event.
pub(crate) type OwnEvents = UnboundedSender<Event>;
