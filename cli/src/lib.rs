//! The `brasserie` program as a library, so that tests can run it without a stale build.
