//! Branches that no world can reach.

/// Branches that no world of this simulator can take. Either no core gives this answer to this call, or the branch needs a size or a peer
/// that is not simulated.
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
        // A dying worker also serves this call: a run that will never start is never unsure.
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
