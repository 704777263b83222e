//! Thrift over tokio: framed and header transports on one port, pipelined calls, exact outcomes, and a limit for every resource.
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
//! * [`Server`] recognizes the dialect of each frame (`frame`) and answers in the same one. Calls reach the service one by one, without a
//!   task each. A [`Service`] that answers at once costs neither a wake-up nor a system call; one that needs time passes its [`Responder`]
//!   on. Ready replies leave in one write.
//! * [`ClientPool`] keeps one connection for each peer. [`CallResult`] distinguishes the outcomes: `NotSent` means that no byte left and
//!   none will, `Unknown` that the call may have happened. A caller with thousands of calls in flight passes a function for the outcome of
//!   each ([`ClientPool::call_then`]), which needs no task and no timer for each call. [`ConnectionLosses`] reports a peer that disconnects
//!   between two calls.
//! * [`Limits`] names every limit. Sizes are trusted only as far as bytes have arrived (`frame`, `protocol`). The memory of all connections
//!   is counted (`budget`), and a peer that does not read, or sends too slowly, is disconnected. While a server or a connection has too
//!   many unanswered calls, only health calls are accepted, from a reserve ([`Service::call_from_reserve`]). When all connections are
//!   taken, a new one replaces the oldest idle stranger ([`Responder::mark_known`]).

mod authentication;
mod budget;
mod client;
mod connection;
mod frame;
mod limits;
mod link;
mod link_task;
mod outbox;
mod outcome;
mod protocol;
mod responder;
mod server;
mod stream;

pub use authentication::{Authenticator, Credentials, THRIFT};
pub use client::{ClientConfig, ClientPool, ConnectionLosses, PeerAddr};
pub use connection::Accepts;
pub use frame::ClientProtocol;
pub use limits::{CallTimeouts, Limits};
pub use outcome::{CallError, CallResult, NotSent, Unknown};
pub use protocol::CallKind;
pub use responder::{IncomingCall, LACK_OF_ROOM, Responder, Service, Standing};
pub use server::{Disconnector, Server, ServerHandle, ServerLoad};
pub use stream::TLS_HANDSHAKE;
