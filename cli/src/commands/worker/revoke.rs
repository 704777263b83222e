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
///
/// A name of which the scheduler knows no worker is revoked too: the scheduler may have lost its tokens, or another head node may have admitted
/// the worker. The command says so, in case the name is mistyped
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes:
  0  the certificates are revoked, also those of a worker that is not known, and that is on disk
  1  refused, and nothing has changed; or the disk takes nothing, and the revocation is in effect,
     but not on disk yet; or no answer
  2  wrong usage, or a file that cannot be read or used")]
pub(crate) struct RevokeArgs {
    #[command(flatten)]
    ask: AskArgs,
    /// The name of the worker, its shard; or its hash, as `brasserie ca status` shows it where the name is not known.
    name: String,
}

pub(super) fn run(args: &RevokeArgs) -> Result<CommandEnding> {
    let connection = args.ask.connect_for_changes()?;
    let is_known = block_on(connection.revoke_worker(&args.name))??;
    let name = printable(&args.name);
    let text = match is_known {
        true => format!(
            "The certificates of worker `{name}` are revoked. It is refused, and its tasks run elsewhere once it is lost: end it on its machine. To \
             let it join again, start it in its data directory with --join-token and a new token."
        ),
        false => format!(
            "This scheduler knows no worker `{name}`; is the name right? Its certificates are revoked anyway. A worker of this name joins with a new \
             token."
        ),
    };
    args.ask
        .say(&text, &json!({ "revoked": args.name, "known": is_known }))?;
    Ok(CommandEnding::Success)
}
