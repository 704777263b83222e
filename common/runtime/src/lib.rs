//! The small pieces that every program needs around its core: clock, telemetry, shutdown, files.
