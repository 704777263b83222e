//! `brasserie worker`: what workers know and do, and the operator's word that one is dead.

mod forget;
mod work_fetch;

use anyhow::Result;
use clap::Subcommand;

use crate::Ending;

/// Look at what single workers know and do, or declare one dead.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show whom a worker asks for work, for how much, and why it asks nobody.
    ///
    /// It is the worker's own picture of this moment, which nothing changes by being looked at. Without SHARD, the only worker that the
    /// scheduler knows is shown; of several, a line for each of their schedulers: who asks whom for what, and when the next request may
    /// come.
    WorkFetch(work_fetch::Args),
    /// Declare a worker dead that will never return, so that nothing waits for it any more.
    Forget(forget::Args),
}

pub(crate) fn run(args: &Args) -> Result<Ending> {
    match &args.command {
        Command::WorkFetch(args) => work_fetch::run(args),
        Command::Forget(args) => forget::run(args),
    }
}
