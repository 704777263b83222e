//! `brasserie worker`: a look at workers themselves.

mod work_fetch;

use anyhow::Result;
use clap::Subcommand;

use crate::Ending;

/// Look at what single workers know and do.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show whom a worker asks for work, for how much, and why it asks nobody.
    WorkFetch(work_fetch::Args),
}

pub(crate) fn run(args: &Args) -> Result<Ending> {
    match &args.command {
        Command::WorkFetch(args) => work_fetch::run(args),
    }
}
