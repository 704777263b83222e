//! What cannot be seen from any world.

/// Branches that no world of this simulator can take: by the cores nobody gives such an answer to such a call, or it needs a size or a
/// peer that is not simulated.
pub(super) const OUT_OF_REACH: &[(&str, &[&str])] = &[
    (
        "heartbeat rejected",
        &[
            "wrong scheduler",
            "unknown shard",
            "wrong worker",
            "still NEW",
            "pool full",
            "superseded",
            "unknown run",
            "not running",
            "kill failed",
            "empty name",
            "store fails",
            "repeated",
        ],
    ),
    (
        "status rejected",
        &[
            "protocol version",
            "shard taken",
            "stale instance",
            "identity changed",
            "pool full",
            "not running",
            "kill failed",
            "empty name",
            "asked to die",
        ],
    ),
    (
        "getRunningTasks",
        &[
            "refused: old sequence",
            "refused: duplicate",
            "refused: busy",
            "refused: draining",
            "refused: unspecified",
        ],
    ),
    ("runTask", &["refused: unspecified"]),
    (
        "healthcheck",
        &[
            "refused: old sequence",
            "refused: busy",
            "refused: unspecified",
        ],
    ),
    (
        // A worker that dies serves it too: what will never run is never unsure.
        "notifyIfTasksNotRunning",
        &[
            "refused: unhealthy",
            "refused: duplicate",
            "refused: busy",
            "refused: draining",
            "refused: unspecified",
        ],
    ),
    (
        "requestSuicide",
        &[
            "refused: old sequence",
            "refused: duplicate",
            "refused: busy",
            "refused: draining",
            "refused: unspecified",
        ],
    ),
    (
        "killTask",
        &[
            "refused: old sequence",
            "refused: duplicate",
            "refused: busy",
            "refused: draining",
        ],
    ),
    ("end of the initial wait", &["other"]),
    ("status acknowledged", &["other"]),
];
