//! The store of output: its threads, and the handles of runs.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use super::queue::{RunOutput, SharedOutput, Written};
use super::retention::Keeping;
use super::writer;
use super::{OutputConfig, Stream, Streams};

/// The output files of one worker's tasks. Dropping it writes the remaining output and ends its threads.
pub(crate) struct OutputStore {
    shared: Arc<SharedOutput>,
    threads: Vec<JoinHandle<()>>,
}

impl OutputStore {
    pub(crate) fn open(config: OutputConfig) -> io::Result<Self> {
        let shared = Arc::new(SharedOutput::new(Keeping::new(config)?));
        let (writing, keeping) = (Arc::clone(&shared), Arc::clone(&shared));
        let mut store = OutputStore {
            shared,
            threads: Vec::new(),
        };
        store.start("output-writer", move || writer::run(&writing))?;
        store.start("output-keeper", move || keeping.keeping.run())?;
        Ok(store)
    }

    fn start(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = std::thread::Builder::new().name(name.to_owned());
        self.threads.push(thread.spawn(work)?);
        Ok(())
    }

    /// Returns a handle for a run with these files. `told` receives finished files on the writer's thread.
    pub(crate) fn run(
        &self,
        files: Streams<PathBuf>,
        told: impl Fn(Stream, &Written) + Send + Sync + 'static,
    ) -> RunOutput {
        self.shared.run(files, told)
    }

    #[cfg(test)]
    pub(super) fn waiting_bytes(&self) -> usize {
        self.shared.waiting_bytes()
    }

    /// Prevents the writer from writing, as a slow disk would.
    #[cfg(test)]
    pub(super) fn hold_writer(&self) -> impl Drop + '_ {
        self.shared.keeping.hold()
    }
}

impl Drop for OutputStore {
    fn drop(&mut self) {
        self.shared.close();
        for thread in self.threads.drain(..) {
            // A thread that panicked printed the reason where it happened.
            let _ = thread.join();
        }
    }
}
