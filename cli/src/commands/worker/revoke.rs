//! `brasserie worker revoke`: ends the certificates of a worker.

use anyhow::Result;
use serde_json::json;

use crate::CommandEnding;
use crate::connection::{AskArgs, block_on};
use crate::output::printable;

/// End the certificates of a worker at once, because its key may be known to others.
///
/// Its connections close, and it can neither call the scheduler nor renew. The scheduler loses the worker as one that is silent, and its
/// tasks run elsewhere. To let it join again, create a token for it (brasserie token create --role worker --shard NAME), and start it in
/// its data directory with --join-token and that token
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes:
  0  the certificates are revoked, and that is on disk
  1  refused, or there is no such worker, and nothing has changed; or the disk takes nothing, and the revocation is in effect,
     but not on disk yet; or no answer
  2  wrong usage, or a file that cannot be read or used")]
pub(crate) struct RevokeArgs {
    #[command(flatten)]
    ask: AskArgs,
    /// The name of the worker, its shard.
    name: String,
}

pub(super) fn run(args: &RevokeArgs) -> Result<CommandEnding> {
    let connection = args.ask.connect_for_changes()?;
    block_on(connection.revoke_worker(&args.name))??;
    let name = printable(&args.name);
    args.ask.say(
        &format!(
            "The certificates of worker `{name}` are revoked. It is refused, and its tasks run elsewhere once it is lost: end it on its machine. To \
             let it join again, start it in its data directory with --join-token and a new token."
        ),
        &json!({ "revoked": args.name }),
    )?;
    Ok(CommandEnding::Success)
}
