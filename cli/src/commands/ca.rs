//! `brasserie ca`: shows the authority of a cluster, and replaces it.

use std::fmt::Write as _;

use anyhow::Result;
use brasserie_common::text::counted;
use brasserie_thrift::generated::brasserie::AuthorityStatus;
use clap::Subcommand;
use serde_json::{Value, json};

use crate::CommandEnding;
use crate::connection::{AskArgs, block_on};
use crate::failure::Failure;
use crate::output::{date, print, print_json, printable, with_flag};

/// The most workers that the text names.
const MOST_NAMED: usize = 20;

/// Show the authority of a cluster, which signs all its certificates, or replace it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes:
  0  shown; `rotate`: the step is done and on disk
  1  refused, and nothing has changed; or the step is in force, and the message says what the disk has not taken; or the
     scheduler gave no answer, and `brasserie ca status` shows the result
  2  wrong usage, or a file that cannot be read or used")]
pub(crate) struct CaArgs {
    #[command(subcommand)]
    command: CaCommand,
}

#[derive(Debug, Subcommand)]
enum CaCommand {
    /// Show the authority, when it expires, and which workers still have certificates of a former one.
    Status(AskArgs),
    /// Replace the authority, in two steps, without the end of any task.
    ///
    /// The first step creates another authority. From then on the certificates of both are accepted. Workers renew theirs within seconds,
    /// or some minutes if there are thousands; those that are away do so when they are back. Tokens go on working. `brasserie ca status` shows
    /// which workers are missing.
    ///
    /// The second step, --finish, ends the trust in the former authority. Tokens that were created before the first step are refused then: give
    /// their holders new ones. `brasserie token list` names them. The scheduler's own file identity/admin.token is already up to date.
    ///
    /// HTTPS clients that trust a copy of identity/authority.pem need a new copy between the two steps.
    #[command(after_help = "\
Replace the authority:
  brasserie ca rotate             accepts both
  brasserie ca status             shows which workers have not renewed yet
  brasserie ca rotate --finish    accepts the new one alone")]
    Rotate(RotateArgs),
}

#[derive(Debug, clap::Args)]
struct RotateArgs {
    #[command(flatten)]
    ask: AskArgs,
    /// Accept the certificates of the new authority alone. Refused while workers have valid ones of the former.
    #[arg(long)]
    finish: bool,
    /// Finish also if workers have valid certificates of the former authority. They have to join again.
    #[arg(long, requires = "finish")]
    force: bool,
}

pub(crate) fn run(args: &CaArgs) -> Result<CommandEnding> {
    match &args.command {
        CaCommand::Status(args) => status(args),
        CaCommand::Rotate(args) => rotate(args),
    }
}

fn status(args: &AskArgs) -> Result<CommandEnding> {
    let status = block_on(args.connect()?.authority())??;
    match args.json {
        true => print_json(&document(&status))?,
        false => print(&shown(&status, &args.scheduler.flag())?)?,
    }
    Ok(CommandEnding::Success)
}

fn rotate(args: &RotateArgs) -> Result<CommandEnding> {
    let connection = args.ask.connect_for_changes()?;
    let status = block_on(connection.rotate_authority(args.finish, args.force))??;
    let done = match args.finish {
        true => {
            "The former authority is not trusted any more. Tokens from before the rotation are refused, also your own one if it is not the \
             scheduler's identity/admin.token: replace those that \
             `brasserie token list` names. HTTPS clients (curl --cacert) need the present identity/authority.pem.\n"
        }
        false => {
            "A new authority is in force, and the former one is still accepted. Workers renew their certificates within seconds, or some \
             minutes if there are thousands; when `brasserie ca status` shows that all have, finish with `brasserie ca rotate --finish`\nBefore that, \
             give HTTPS clients (curl --cacert) the present identity/authority.pem of the scheduler. A token that you have shown for this, other than \
             the scheduler's own identity/admin.token, names the former authority and ends with --finish: create and store a new one now: \
             `brasserie token create --role admin`\n"
        }
    };
    match args.ask.json {
        true => print_json(&document(&status))?,
        false => {
            let flag = args.ask.scheduler.flag();
            let done = with_flag(done, &flag);
            print(&format!("{done}\n{}", shown(&status, &flag)?))?;
        }
    }
    Ok(CommandEnding::Success)
}

/// Formats the authority. `flag` names the scheduler to another command.
fn shown(status: &AuthorityStatus, flag: &str) -> Result<String> {
    let unknown = || Failure::new("the scheduler's answer about its authority is not complete");
    let (domain, hash) = (status.cluster.as_ref(), status.hash.as_ref());
    let (domain, hash) = (domain.ok_or_else(unknown)?, hash.ok_or_else(unknown)?);
    let expires = status.expires_ms.unwrap_or_default().div_euclid(1000);
    let mut text = format!(
        "trust domain  {}\nauthority     {}\nexpires       {}\n",
        printable(domain),
        printable(hash),
        date(expires)
    );
    if status.former.is_none() {
        text.push_str(&shut_out(status));
    } else if let Some(former) = &status.former {
        // Writing to a text cannot fail.
        let _ = writeln!(text, "replaces      {}", printable(former));
        let names = status.behind.iter().flatten().take(MOST_NAMED);
        let names: Vec<String> = names.map(|name| printable(name).to_string()).collect();
        let count = u64::try_from(status.behind_count.unwrap_or_default()).unwrap_or_default();
        let count = count.max(names.len() as u64);
        let behind = counted(count, "worker");
        let have = if count == 1 { "has" } else { "have" };
        let _ = match (count, names.is_empty()) {
            (0, true) => writeln!(
                text,
                "\nAll workers have certificates of the new authority: `brasserie ca rotate --finish{flag}` ends the trust in the former one"
            ),
            (_, true) => writeln!(
                text,
                "\n{behind} {have} certificates of the former authority"
            ),
            (_, false) => writeln!(
                text,
                "\n{behind} {have} certificates of the former authority, among them: {}",
                names.join(", ")
            ),
        };
    }
    Ok(text)
}

/// Names the workers that the end of a rotation by force has shut out; an empty text if there is none.
fn shut_out(status: &AuthorityStatus) -> String {
    let names = status.behind.iter().flatten().take(MOST_NAMED);
    let names: Vec<String> = names.map(|name| printable(name).to_string()).collect();
    let count = u64::try_from(status.behind_count.unwrap_or_default()).unwrap_or_default();
    match names.is_empty() {
        true => String::new(),
        false => format!(
            "\n{} shut out, to join again with --join-token and a new token, among them: {}\n",
            counted(count.max(names.len() as u64), "worker"),
            names.join(", ")
        ),
    }
}

fn document(status: &AuthorityStatus) -> Value {
    json!({
        "trust_domain": status.cluster,
        "hash": status.hash,
        "expires_ms": status.expires_ms,
        "former": status.former,
        "behind": status.behind,
        "behind_count": status.behind_count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_that_are_behind_are_counted_also_without_their_names() {
        let shown = |names: &[&str], count| {
            let behind = names.iter().map(|name| (*name).to_owned());
            let status = AuthorityStatus {
                cluster: Some("c".to_owned()),
                hash: Some("h".to_owned()),
                expires_ms: Some(0),
                former: Some("f".to_owned()),
                behind: Some(behind.collect()),
                behind_count: count,
            };
            let text = shown(&status, "").expect("it is complete");
            text.lines().last().unwrap_or_default().to_owned()
        };
        assert!(shown(&[], Some(0)).starts_with("All workers have"));
        let former = "certificates of the former authority";
        assert_eq!(shown(&[], Some(3)), format!("3 workers have {former}"));
        let one = format!("1 worker has {former}, among them: w1");
        for count in [Some(1), None] {
            assert_eq!(shown(&["w1"], count), one);
        }
    }
}
