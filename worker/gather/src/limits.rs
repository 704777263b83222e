//! The limits and times of the fetching of artifacts, with their defaults.

use std::time::Duration;

use super::types::ByteCount;

/// Limits and times of one [`Gather`](super::Gather).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatherLimits {
    /// The most requests in flight. Transfers of tiny artifacts do not count: see `throttle_threshold`.
    pub transfers: usize,
    /// The most replicas in flight. Above zero, as is the next limit.
    pub replicas: usize,
    /// The most replicas in flight while tasks wait for artifacts.
    pub replicas_beside_inputs: usize,
    /// The time from a failed replica until the next attempt.
    pub replica_retry: Duration,
    /// The most bytes of one request. Its first artifact may be larger.
    pub message: ByteCount,
    /// The most bytes of all requests in flight; none for no limit. A single artifact may be larger if nothing else is in flight.
    pub incoming: Option<ByteCount>,
    /// The sum of bytes in flight from which on `transfers` applies.
    pub throttle_threshold: ByteCount,
    /// The size that counts for an artifact of unknown size.
    pub unknown_size: ByteCount,
    /// The time from a busy answer until the next request to the same peer. Also the least time between an answered query for the holders
    /// of an artifact and the next one. Longer than zero.
    pub busy_mark: Duration,
    pub busy_jitter: BusyJitter,
    /// The time from the loss of the last holder to the first query.
    pub first_query: Duration,
    /// The time between further queries, which should be the period of heartbeats. Also the time after which a query without an answer
    /// counts as lost. Longer than zero.
    pub query_period: Duration,
    /// The time without any holder after which the tasks of an artifact fail.
    pub missing_timeout: Duration,
}

/// Whether busy marks have a random length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BusyJitter {
    #[default]
    Off,
    /// Three to five quarters of the length, so that requesters which were refused together do not return together.
    Quarter,
}

impl Default for GatherLimits {
    fn default() -> Self {
        GatherLimits {
            // One worker opens this many connections at most.
            transfers: 50,
            // A third of the transfers, so that those of inputs can begin at once.
            replicas: 16,
            // Few enough to leave the network and the disks to inputs.
            replicas_beside_inputs: 4,
            // The period of reports. Their answers repeat the request, and may name other holders.
            replica_retry: Duration::from_secs(10),
            // One busy or failed peer holds up this much at most.
            message: ByteCount(50_000_000),
            // The caller knows its memory; a tenth of it is usual.
            incoming: None,
            // Smaller sums cost mostly round trips, which overlap.
            throttle_threshold: ByteCount(10_000_000),
            // An unknown size delays no request, and still counts.
            unknown_size: ByteCount(1024),
            // A peer with 10 Gbit/s sends three full messages in this time, so it has probably become free, and each requester costs it at
            // most seven refusals a second.
            busy_mark: Duration::from_millis(150),
            busy_jitter: BusyJitter::Off,
            // The first query may find the holder whose report was under way when the task came.
            first_query: Duration::from_secs(1),
            // The default period of heartbeats.
            query_period: Duration::from_secs(15),
            // Twenty queries: the producer of the artifact may run again meanwhile, or a lost holder return.
            missing_timeout: Duration::from_secs(300),
        }
    }
}
