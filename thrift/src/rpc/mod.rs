//! Thrift over tokio: framed and header transports on one port, pipelined calls, exact outcomes, bounds on everything.
//!
//! ```text
//!  caller                                         server
//!    |  call(peer, method, args)                    |
//!  ClientPool --> Link (queue, calls by id)       Acceptor --> Connection (one task each)
//!                  |   ^                                        |      ^
//!              write   deliver                      IncomingCall|      | Outbox (replies, coalesced)
//!                  v   |                                        v      |
//!                LinkTask  <======== one TCP connection ====> Service -+- Responder (now, or later from anywhere)
//! ```
//!
//! * [`Server`] recognizes the dialect of every single frame (`frame`) and answers in the same one. Calls are handed over one
//!   by one without a task of their own; a [`Service`] that answers at once costs neither a wake-up nor a system call,
//!   one that needs time sends its [`Responder`] elsewhere. Replies that are ready leave in one write.
//! * [`ClientPool`] keeps one connection a peer. [`CallResult`] tells apart what a caller must tell apart: `NotSent` means that
//!   no byte left and none will, `Unknown` that it may have happened. Who has thousands of calls under way hands over a function for the
//!   end of each ([`ClientPool::call_then`]), which costs no task and no timer a call. [`ConnectionLosses`] tells of a peer that went away
//!   between two calls.
//! * [`Limits`] names every bound. Sizes are believed only as far as bytes have arrived (`frame`, `protocol`), what all
//!   connections hold together is counted (`budget`), and a peer that does not read, or sends too slowly, is let go. While a server or
//!   a connection has too many unanswered calls, health calls alone are accepted, from a reserve ([`Service::call_from_reserve`]). When
//!   all connections are taken, a new one takes the place of the oldest idle stranger ([`Responder::mark_known`]).

mod budget;
mod client;
mod connection;
mod frame;
mod limits;
mod link;
mod link_task;
mod losses;
mod outbox;
mod outcome;
mod protocol;
mod responder;
mod server;
mod then;

pub use client::{ClientConfig, ClientPool, ClientProtocol, PeerAddr};
pub use connection::Accepts;
pub use limits::{Limits, Timeouts};
pub use losses::ConnectionLosses;
pub use outcome::{CallError, CallResult, NotSent, Unknown};
pub use responder::{CallKind, IncomingCall, LACK_OF_ROOM, Responder, Service};
pub use server::{Server, ServerHandle, ServerLoad};
