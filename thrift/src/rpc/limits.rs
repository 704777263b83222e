//! Every bound and every timeout of the Thrift transport, each with the reason for its size.

use std::time::Duration;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// What a peer can make us hold, and for how long.
///
/// One value serves a whole server or a whole client pool. The defaults suit a scheduler with a thousand workers; tests
/// shrink single fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest frame, in either direction. 16 MiB holds a page of every list that the services return (lists are paged)
    /// and is what other Thrift implementations accept by default.
    pub max_frame_bytes: usize,
    /// Deepest nesting of structs. Our deepest message nests 6; 64 is what other Thrift implementations accept, and 64
    /// stack frames of generated code fit into any thread's stack many times over.
    pub max_depth: usize,
    /// Most elements in one list, set or map. The longest real one is a worker's list of running tasks, at 100 bytes each
    /// at most 160 thousand in a frame; the next power of two leaves room.
    pub max_container_len: usize,
    /// Most memory that decoding one message may claim, by the estimates in `protocol`: one byte on the wire can otherwise
    /// become a struct of several hundred bytes. 64 MiB is a worker's answer with fifty thousand running tasks of five
    /// structs each.
    pub max_decoded_bytes: usize,
    /// Longest method name. Our longest has 27 bytes, and an exception repeats the name.
    pub max_method_bytes: usize,
    /// Most open connections of a server, and at most half of the descriptors that the process may have. A new connection takes the
    /// place of the oldest idle stranger; if there is none, it is closed at once, so that its peer backs off instead of waiting. A
    /// thousand workers, and as many clients.
    pub max_connections: usize,
    /// Most unanswered calls on one connection; beyond it the connection is not read for `room_wait`. At 100,000 calls a second,
    /// 4,096 calls cover 40 ms of answering time, longer than one durable write takes.
    pub max_calls_per_connection: usize,
    /// Unanswered calls beyond `max_calls_per_connection` that only health calls may use. A peer has one or two of them under way.
    pub reserved_calls_per_connection: usize,
    /// Most unanswered calls on all connections: sixteen connections' worth. An unanswered call costs about half a KiB.
    pub max_calls: usize,
    /// Unanswered calls beyond `max_calls` that only health calls may use: two for each of `max_connections`.
    pub reserved_calls: usize,
    /// Time for which a connection without room for its calls is not read. After it the server reads on, refuses ordinary calls at
    /// once and serves health calls from the reserve. A quarter of the two seconds for which peers wait for the reply to a heartbeat.
    pub room_wait: Duration,
    /// Most bytes held for all connections beyond `connection_allowance_bytes` each: unfinished frames, frames of
    /// unanswered calls and unsent replies. Sixteen frames of the longest kind; beyond it no connection above its allowance
    /// is read.
    pub max_bytes_in_flight: usize,
    /// Bytes that each connection may hold whatever the others hold, so that peers with huge frames cannot starve the
    /// heartbeats of others. A heartbeat has under 2 KiB.
    pub connection_allowance_bytes: usize,
    /// Unsent replies of one connection at which it is no longer read: the peer does not read either. Four times what a
    /// socket buffer usually holds.
    pub pause_at_unsent_bytes: usize,
    /// Unsent replies of one connection at which it is closed: four of the longest frames beyond which even a slow reader
    /// would wait longer than its own timeout.
    pub max_unsent_bytes: usize,
    /// Time from the opening of a connection until the first byte of its first call. Peers open a connection because they have a
    /// call to send, so that a few lost packets are the only good reason for a delay.
    pub first_call_timeout: Duration,
    /// Silence after which a server closes a connection without calls in flight. Heartbeats come every few seconds, so ten
    /// minutes mean that nobody is there.
    pub idle_timeout: Duration,
    /// Time for one frame from its first byte to its last: 16 MiB at 5 Mbit/s, rounded up. It frees what peers hold who
    /// send a byte now and then.
    pub frame_timeout: Duration,
    /// Time without any progress in sending replies, after which the peer counts as stuck. Clients give up after seconds.
    pub write_stall_timeout: Duration,
    /// Time for unanswered calls to be answered when the server shuts down or the peer has closed its side: clients wait
    /// two seconds for a reply, so that nobody waits for later ones.
    pub drain_timeout: Duration,
    /// Most calls on one client connection that wait to be sent or answered; more are `NotSent`. As many as a server takes
    /// in all.
    pub max_client_calls: usize,
    /// Most unsent bytes on one client connection; more are `NotSent`. Two of the longest frames: one leaving, one next.
    pub max_client_unsent_bytes: usize,
    /// Silence after which a client closes a connection: half the server's, so that a client rarely writes to a connection
    /// that the server is just closing.
    pub client_idle_timeout: Duration,
    /// Peers that a pool remembers before it drops those without a connection: four schedulers' worth of workers.
    pub max_idle_peers: usize,
}

impl Limits {
    /// The defaults, as a constant.
    pub const DEFAULT: Limits = Limits {
        max_frame_bytes: 16 * MIB,
        max_depth: 64,
        max_container_len: 256 * KIB,
        max_decoded_bytes: 64 * MIB,
        max_method_bytes: 256,
        max_connections: 2048,
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

/// How long a client waits in each part of a call. The defaults are the protocol's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Resolving the name and opening the connection.
    pub connect: Duration,
    /// From handing the call over until the kernel has its whole frame.
    pub send: Duration,
    /// From then until the whole reply is here.
    pub receive: Duration,
}

impl Timeouts {
    /// 1 s, 1 s, 2 s: a peer that needs longer is treated as lost anyway, and calls are repeated by the protocol.
    pub const DEFAULT: Timeouts = Timeouts {
        connect: Duration::from_secs(1),
        send: Duration::from_secs(1),
        receive: Duration::from_secs(2),
    };
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts::DEFAULT
    }
}

/// Most bytes that one connection reads before it sends replies and lets others run: a few thousand small calls, a
/// millisecond or two.
pub(super) const TURN_BYTES: usize = 256 * KIB;

/// Free space that a read asks for at least: a page or two, several heartbeats.
pub(super) const READ_CHUNK_BYTES: usize = 8 * KIB;

/// A read buffer larger than this is given back once it is empty, so that one long frame does not cost its size for the
/// connection's life.
pub(super) const KEEP_BUFFER_BYTES: usize = 64 * KIB;

/// Replies are collected into pieces of about this size before they are written: a socket buffer's worth.
pub(super) const REPLY_CHUNK_BYTES: usize = 64 * KIB;

/// How often a client looks for calls whose time is over and whose end a function waits for: a twentieth of what they may take, so that
/// hardly any takes longer, and so seldom that looking at all of a link's calls costs nothing.
pub(super) const OVERDUE_CHECK: Duration = Duration::from_millis(100);

/// What a frame is expected to hold, so that its buffer need not grow step by step: a call that starts a task with short names. Others
/// grow a few times.
pub(super) const USUAL_FRAME_BYTES: usize = 512;

/// Frames that a client hands to the kernel in one write: a hundred heartbeats, far below the kernel's limit of 1,024.
pub(super) const FRAMES_PER_WRITE: usize = 128;

/// Time between two log lines about peers that speak another protocol than Thrift, so that a scanner does not fill the log.
pub(super) const FOREIGN_PAUSE: Duration = Duration::from_secs(60);

/// Pause after a failed `accept`: long enough not to spin while descriptors are exhausted, short against every timeout.
pub(super) const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// After so long without a byte, the kernel asks a server's peer whether it is there, so often, and then closes the connection.
pub(super) const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
pub(super) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
pub(super) const KEEPALIVE_PROBES: u32 = 3;

/// What an unanswered call costs besides its frame: the responder, the name, the service's own entry.
pub(super) const CALL_OVERHEAD_BYTES: usize = 256;
