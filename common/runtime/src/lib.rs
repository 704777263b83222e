//! Common parts of all shells: the clock, telemetry, shutdown, files, addresses, the service manager.

pub mod clock;
pub mod files;
mod log_format;
pub mod log_writer;
pub mod net;
pub mod service_manager;
pub mod shutdown;
pub mod telemetry;

pub use clock::Clock;
pub use files::{DataDir, DataDirError, FileChange, FileError, FileId, PinnedFile};
pub use log_format::LogFormat;
pub use net::{AddressError, ListenAddress, NetworkExposure, parse_peer};
pub use service_manager::{NotifyError, ServiceManager, Watchdog};
pub use shutdown::{Shutdown, signal_name};
pub use telemetry::{TelemetryError, Verbosity};
