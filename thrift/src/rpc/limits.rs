//! Every limit and every timeout of the Thrift transport, each with the reason for its value.

use std::time::Duration;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// The limits of a peer's use of memory, connections and time.
///
/// One value serves a whole server or a whole client pool. The defaults suit a scheduler with a thousand workers; tests reduce single
/// fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum length of a frame, in either direction. 16 MiB holds a page of every list that the services return (lists are paged), and is
    /// the default of other Thrift implementations.
    pub max_frame_bytes: usize,
    /// Maximum nesting of structs. The deepest message of this interface nests 6; other Thrift implementations accept 64. Generated code
    /// for 64 levels fits into any thread's stack many times over.
    pub max_depth: usize,
    /// Maximum elements in one list, set or map. The longest real one is a worker's list of running tasks: at 100 bytes each, at most 160
    /// thousand fit in a frame. The limit is the next power of two.
    pub max_container_len: usize,
    /// Maximum memory that decoding one message may claim, by the estimates in `protocol`. One byte on the wire can become a struct of
    /// several hundred bytes. 64 MiB suffices for a worker's answer with fifty thousand running tasks of five structs each.
    pub max_decoded_bytes: usize,
    /// Maximum length of a method name. The longest of this interface has 27 bytes. An exception repeats the name.
    pub max_method_bytes: usize,
    /// Maximum open connections of a server, and at most half of the descriptors that the process may have. A new connection replaces the
    /// oldest idle stranger, or one of a proven caller with many. If there is none, the new one is closed at once, so that its peer backs off
    /// instead of waiting. The local socket has some more. The default suffices for a thousand workers and as many clients.
    pub max_connections: usize,
    /// Maximum open connections of strangers, where a server asks its peers who they are: of peers that have not proven it yet, in the
    /// middle of a handshake or after it. Beyond the limit, a new one replaces the oldest idle one of the address with
    /// most of them. The default leaves the other half of
    /// `max_connections` to peers that have proven who they are, and lets a thousand workers connect at once.
    pub max_strangers: usize,
    /// Maximum unanswered calls on one connection. Beyond the limit the connection is not read for `room_wait`. At 100,000 calls a second,
    /// 4,096 calls cover 40 ms of answering time, longer than one durable write takes.
    pub max_calls_per_connection: usize,
    /// Unanswered calls beyond `max_calls_per_connection` that only health calls may use. A peer has one or two of them in flight.
    pub reserved_calls_per_connection: usize,
    /// Maximum unanswered calls on all connections: as many as sixteen connections may have. An unanswered call costs about half a KiB.
    pub max_calls: usize,
    /// Unanswered calls beyond `max_calls` that only health calls may use: two for each of `max_connections`.
    pub reserved_calls: usize,
    /// Time for which a connection over its limit of calls is not read. Then the server reads on, refuses ordinary calls at once, and
    /// serves health calls from the reserve. The default is a quarter of the two seconds for which peers wait for the reply to a heartbeat.
    pub room_wait: Duration,
    /// Maximum bytes held for all connections beyond `connection_allowance_bytes` each: incomplete frames, frames of unanswered calls, and
    /// unsent replies. The default is sixteen frames of the maximum length. Beyond it no connection above its allowance is read. Replies
    /// that peers leave unread may have half of it, as much as two connections at `max_unsent_bytes`, so that calls always have the other half.
    /// Beyond that, the caller that leaves the most unread loses the connection with the most of it.
    pub max_bytes_in_flight: usize,
    /// Bytes that each connection may hold regardless of the others, so that peers with huge frames cannot starve other peers' heartbeats.
    /// A heartbeat has less than 2 KiB. A stranger's frame is refused beyond it, so that strangers hold nothing of `max_bytes_in_flight`.
    pub connection_allowance_bytes: usize,
    /// Unsent reply bytes of one connection at which it is no longer read, because the peer does not read either. The default is four times
    /// the usual size of a socket buffer.
    pub pause_at_unsent_bytes: usize,
    /// Unsent reply bytes of one connection at which it is closed. The default is four frames of the maximum length; beyond that even a
    /// slow reader would wait longer than its own timeout.
    pub max_unsent_bytes: usize,
    /// Limit from the opening of a connection until the first byte of its first call, with the handshake of TLS before it. Peers
    /// open a connection because they have a call to send, so only a few lost packets justify a delay.
    pub first_call_timeout: Duration,
    /// Silence after which a server closes a connection without calls in flight. Heartbeats come every few seconds, so after ten minutes
    /// the peer is gone.
    pub idle_timeout: Duration,
    /// Limit for one frame from its first byte to its last: 16 MiB at 5 Mbit/s, rounded up. It releases the buffers of peers that send a
    /// byte now and then.
    pub frame_timeout: Duration,
    /// Time without progress in sending replies after which the peer counts as stuck. Clients give up after seconds.
    pub write_stall_timeout: Duration,
    /// Time for unanswered calls when the server shuts down or the peer has closed its side. Clients wait two seconds for a reply, so later
    /// replies are useless.
    pub drain_timeout: Duration,
    /// Maximum calls on one client connection that wait to be sent or answered; more are `NotSent`. The default equals a server's limit for
    /// all its calls.
    pub max_client_calls: usize,
    /// Maximum unsent bytes on one client connection; more are `NotSent`. The default is two frames of the maximum length: one leaving, one
    /// next.
    pub max_client_unsent_bytes: usize,
    /// Silence after which a client closes a connection. It is half the server's limit, so that a client rarely writes to a connection that
    /// the server is closing.
    pub client_idle_timeout: Duration,
    /// Peers that a pool remembers before it forgets those without a connection: the workers of four schedulers.
    pub max_idle_peers: usize,
}

impl Limits {
    /// The default limits.
    pub const DEFAULT: Limits = Limits {
        max_frame_bytes: 16 * MIB,
        max_depth: 64,
        max_container_len: 256 * KIB,
        max_decoded_bytes: 64 * MIB,
        max_method_bytes: 256,
        max_connections: 2048,
        max_strangers: 1024,
        max_calls_per_connection: 4096,
        reserved_calls_per_connection: 64,
        max_calls: 65_536,
        reserved_calls: 4096,
        room_wait: Duration::from_millis(500),
        max_bytes_in_flight: 256 * MIB,
        connection_allowance_bytes: 64 * KIB,
        pause_at_unsent_bytes: MIB,
        max_unsent_bytes: 64 * MIB,
        first_call_timeout: Duration::from_secs(5),
        idle_timeout: Duration::from_secs(600),
        frame_timeout: Duration::from_secs(30),
        write_stall_timeout: Duration::from_secs(30),
        drain_timeout: Duration::from_secs(2),
        max_client_calls: 65_536,
        max_client_unsent_bytes: 32 * MIB,
        client_idle_timeout: Duration::from_secs(300),
        max_idle_peers: 4096,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Limits::DEFAULT
    }
}

/// The time limits of the phases of a call. The defaults are the protocol's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallTimeouts {
    /// Limit for resolving the name and opening the connection.
    pub connect: Duration,
    /// Limit from submitting the call until the kernel has its whole frame.
    pub send: Duration,
    /// Limit from then until the whole reply has arrived.
    pub receive: Duration,
}

impl CallTimeouts {
    /// 1 s, 1 s, 2 s. A slower peer is treated as lost, and the protocol repeats calls.
    pub const DEFAULT: CallTimeouts = CallTimeouts {
        connect: Duration::from_secs(1),
        send: Duration::from_secs(1),
        receive: Duration::from_secs(2),
    };
}

impl Default for CallTimeouts {
    fn default() -> Self {
        CallTimeouts::DEFAULT
    }
}

/// Maximum bytes that one connection reads before it sends replies and lets other tasks run: a few thousand small calls, one or two
/// milliseconds.
pub(super) const TURN_BYTES: usize = 256 * KIB;

/// Free space of a new read buffer: a page or two, enough for several heartbeats.
pub(super) const READ_CHUNK_BYTES: usize = 8 * KIB;

/// Minimum free space for a read. A buffer with less grows. The value is the longest heartbeat, so that a read is worth its system call.
pub(super) const LEAST_READ_BYTES: usize = READ_CHUNK_BYTES / 4;

/// A read buffer with more free space than this is replaced once frames were handled, so that one long frame does not cost its size for the
/// connection's life. That of a stranger always is.
pub(super) const KEEP_BUFFER_BYTES: usize = 64 * KIB;

/// Replies are collected into chunks of about this size before they are written: the size of a socket buffer.
pub(super) const REPLY_CHUNK_BYTES: usize = 64 * KIB;

/// Maximum names that a client pool looks up at a time. Each lookup holds a thread of the runtime's blocking pool until the resolver answers
/// or gives up. The limit is an eighth of that pool's 512 threads, so that a silent resolver leaves the others free.
pub(super) const MAX_LOOKUPS: usize = 64;

/// Interval at which a client checks for overdue calls with a function. It is a twentieth of a call's limit, so calls exceed their limit
/// only slightly, and rare enough that scanning all calls of a link costs nothing.
pub(super) const OVERDUE_CHECK: Duration = Duration::from_millis(100);

/// Expected size of a frame, so that most buffers need not grow: a call that starts a task with short names. Others grow a few times.
pub(super) const USUAL_FRAME_BYTES: usize = 512;

/// Frames that a client passes to the kernel in one write: a hundred heartbeats, far below the kernel's limit of 1,024.
pub(super) const FRAMES_PER_WRITE: usize = 128;

/// Time between two log lines about peers that speak another protocol than Thrift, so that a scanner does not fill the log.
pub(super) const FOREIGN_PAUSE: Duration = Duration::from_secs(60);

/// Time between two log lines about calls that were refused because of who made them, so that strangers do not fill the log.
pub(super) const REFUSAL_PAUSE: Duration = Duration::from_secs(1);

/// The same for lines with the same text, so that a caller that repeats its call does not fill the log.
pub(super) const SAME_REFUSAL_PAUSE: Duration = Duration::from_secs(60);

/// The most texts of such lines that are remembered. Others count as new.
pub(super) const MAX_REFUSALS_KNOWN: usize = 64;

/// Pause after a failed `accept`: long enough not to spin while descriptors are exhausted, and short compared with every timeout.
pub(super) const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Connections that the kernel completes before the server accepts them: those of some thousand peers that connect at the same moment. By
/// default, the kernel permits as many.
pub(super) const LISTEN_BACKLOG: u32 = 4096;

/// TCP keepalive of a server: time of silence before the first probe, then the interval and the number of probes.
pub(super) const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
pub(super) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
pub(super) const KEEPALIVE_PROBES: u32 = 3;

/// Memory of an unanswered call besides its frame: the responder, the name, and the service's own entry.
pub(super) const CALL_OVERHEAD_BYTES: usize = 256;
