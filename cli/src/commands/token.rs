//! `brasserie token`: creates, lists and revokes the tokens with which workers join and people prove who they are.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use anyhow::Result;
use brasserie_common::access::TokenNumber;
use brasserie_common::time::parse_duration;
use brasserie_thrift::generated::brasserie::{TokenStatus, TokenTerms};
use clap::{Subcommand, ValueEnum};
use serde_json::{Value, json};

use crate::CommandEnding;
use crate::connection::{AskArgs, block_on};
use crate::failure::Failure;
use crate::output::{complain, date, print, print_json, printable, table};

/// The life of a token for joining: long enough to walk to another machine.
const JOIN_LIFE: Duration = Duration::from_secs(30 * 60);
/// The life of a token for people.
const PERSON_LIFE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Create, list and revoke tokens: with one a worker joins the cluster, with another a person proves who they are.
///
/// Only schedulers that listen on other addresses than loopback ask for proofs. Such a scheduler keeps the token of its administrator in
/// DIR/identity/admin.token: on its machine, `--token-file DIR` uses it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes:
  0  the token is created or ended, and that is on disk; or the list is printed
  1  one of these, as the message says:
     - The scheduler has refused the call, and nothing has changed.
     - The scheduler gave no answer. `brasserie token list` shows the result.
     - The scheduler's disk takes nothing. A revocation is in effect then, but not on disk yet.
  2  wrong usage, terms that no token may have, or a file that cannot be read or used")]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Create a token, and print it this once.
    #[command(after_help = "\
Let one worker join within half an hour, and give it the token on standard input:
  brasserie token create --role worker | ssh w7 brasserie-worker --scheduler head:6789 --data-dir DIR --join-token -

Let a colleague submit jobs for a year, and keep the token in a file that nobody else may read:
  (umask 077; brasserie token create --role submitter --owner ana --ttl 365d > token)

Let her jobs run as the user `batch`, too, and as `ana` with the group `data`:
  brasserie token create --role submitter --owner ana --run-as batch --run-as ana:data

The token alone is on standard output. Its number and its end are on standard error.")]
    Create(CreateArgs),
    /// List the tokens that have not expired and are not used up. Their secrets are not kept.
    ///
    /// The number of a token is also in the audit log: `brasserie audit --who NUMBER` shows what its holder has done, and `--what NUMBER` its
    /// creation and its end.
    List(ListArgs),
    /// End a token at once, also for the connections that have used it. Workers that have joined with it stay: see `brasserie worker revoke`.
    Revoke(RevokeArgs),
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TokenRole {
    /// Joins as a worker
    Worker,
    /// Does everything, and creates tokens
    Admin,
    /// Changes all jobs, and gives orders to workers
    Operator,
    /// Sees everything, and changes the jobs of its owner
    Submitter,
    /// Sees everything
    Viewer,
}

#[derive(Debug, clap::Args)]
struct CreateArgs {
    #[command(flatten)]
    ask: AskArgs,
    /// The role of the holder, which says what it may do
    #[arg(long, value_name = "ROLE")]
    role: TokenRole,
    /// How long the token is valid [default: 30m for workers, 30d for people]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    ttl: Option<Duration>,
    /// How many workers may join with it [default: 1]
    #[arg(long, value_name = "NUMBER")]
    uses: Option<i32>,
    /// The only worker that may join with it.
    #[arg(long, value_name = "NAME")]
    shard: Option<String>,
    /// The owner of the jobs that a submitter changes: those that were submitted first with a token of this owner. Several tokens may have
    /// one owner.
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    /// An account that jobs which a submitter submits with this token may name as `user` and `group`, besides that of the settings; may be
    /// given several times. Other tokens of the owner have their own accounts. A job that names none runs as the user of the settings, or else as
    /// that of the worker, which is root if the worker runs as root: set a user in the settings before you give out such tokens.
    #[arg(long, value_name = "USER[:GROUP]")]
    run_as: Vec<String>,
    /// A text that `brasserie token list` shows with the token, such as its holder or its purpose.
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    #[command(flatten)]
    ask: AskArgs,
    /// Also tokens with which no further worker may join.
    #[arg(long)]
    all: bool,
}

#[derive(Debug, clap::Args)]
struct RevokeArgs {
    #[command(flatten)]
    ask: AskArgs,
    /// The number of the token, as `brasserie token list` shows it.
    number: String,
}

pub(crate) fn run(args: &TokenArgs) -> Result<CommandEnding> {
    match &args.command {
        TokenCommand::Create(args) => create(args),
        TokenCommand::List(args) => list(args),
        TokenCommand::Revoke(args) => revoke(args),
    }
}

fn create(args: &CreateArgs) -> Result<CommandEnding> {
    let is_join = matches!(args.role, TokenRole::Worker);
    let usual = if is_join { JOIN_LIFE } else { PERSON_LIFE };
    let life = args.ttl.unwrap_or(usual);
    let role = args
        .role
        .to_possible_value()
        .map(|role| role.get_name().to_owned());
    let terms = TokenTerms {
        role,
        seconds: i64::try_from(life.as_secs()).ok(),
        uses: is_join.then(|| args.uses.unwrap_or(1)),
        shard: args.shard.clone(),
        owner: args.owner.clone(),
        run_as: (!args.run_as.is_empty()).then(|| args.run_as.clone()),
        note: args.note.clone(),
    };
    if !is_join && args.uses.is_some() {
        return Err(Failure::usage("--uses is for tokens of workers".to_owned()).into());
    }
    let connection = args.ask.connect_for_changes()?;
    let created = block_on(connection.create_token(terms))??;
    let token = created.token.unwrap_or_default();
    let status = created.status.unwrap_or_default();
    match args.ask.json {
        true => print_json(&json!({ "token": token, "status": document(&status) }))?,
        // The token alone, so that a pipe can pass it on.
        false => {
            print(&format!("{token}\n"))?;
            let number = printable(&status.number.unwrap_or_default());
            let expires = moment(status.expires_ms);
            complain!("The token has the number {number}, and is valid until {expires}.");
        }
    }
    if let Some(mode) = exposed_output() {
        complain!(
            "brasserie: the token is in a file whose mode is {mode:04o}, so other users may read it. Run `chmod 600` on the file; after `umask 077`, \
             a shell creates files with this mode"
        );
    }
    Ok(CommandEnding::Success)
}

/// Returns the mode of the file that is standard output if other users may use it; `None` if it is a pipe or a terminal.
fn exposed_output() -> Option<u32> {
    let output = std::io::stdout().as_fd().try_clone_to_owned().ok()?;
    let found = File::from(output).metadata().ok()?;
    let mode = found.mode() & 0o7777;
    (found.is_file() && mode & 0o077 != 0).then_some(mode)
}

fn list(args: &ListArgs) -> Result<CommandEnding> {
    let mut tokens = block_on(args.ask.connect()?.tokens())??;
    let known = tokens.len();
    if !args.all {
        tokens.retain(|token| token.uses_left != Some(0));
    }
    if args.ask.json {
        print_json(&json!({ "tokens": tokens.iter().map(document).collect::<Vec<_>>() }))?;
        return Ok(CommandEnding::Success);
    }
    print(&shown(&tokens))?;
    let hidden = known - tokens.len();
    if hidden > 0 {
        complain!("Tokens that are used up, which --all shows: {hidden}");
    }
    Ok(CommandEnding::Success)
}

fn shown(tokens: &[TokenStatus]) -> String {
    let rows = tokens.iter().map(|token| {
        let terms = token.terms.clone().unwrap_or_default();
        let of = terms.owner.or(terms.shard).unwrap_or_default();
        let left = token.uses_left.map(|left| match (left, terms.uses) {
            (0, _) => "none: used up".to_owned(),
            (left, Some(uses)) => format!("{left} of {uses}"),
            (left, None) => left.to_string(),
        });
        let expires = moment(token.expires_ms);
        let expires = match token.authority.as_deref() {
            Some("former") => format!("{expires}, or with `ca rotate --finish`"),
            Some("replaced") => "refused: its authority was replaced".to_owned(),
            Some(_) | None => expires,
        };
        vec![
            token.number.clone().unwrap_or_default(),
            terms.role.unwrap_or_default(),
            of,
            terms.run_as.unwrap_or_default().join(" "),
            terms.note.unwrap_or_default(),
            left.unwrap_or_default(),
            moment(token.created_ms),
            token.created_by.clone().unwrap_or_else(|| "-".to_owned()),
            expires,
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let headers = [
        "number",
        "role",
        "of",
        "runs as",
        "note",
        "uses left",
        "created",
        "created by",
        "expires",
    ];
    table(&headers, &rows)
}

/// Formats a time in milliseconds since the epoch; `-` if it is not known.
fn moment(milliseconds: Option<i64>) -> String {
    match milliseconds {
        Some(milliseconds) if milliseconds > 0 => date(milliseconds / 1000),
        Some(_) | None => "-".to_owned(),
    }
}

fn revoke(args: &RevokeArgs) -> Result<CommandEnding> {
    if TokenNumber::from_text(&args.number).is_none() {
        // The text may be a secret, so no line repeats it.
        let why = "this is no number of a token, which has 16 hex digits at most";
        let remedy = "`brasserie token list` shows the numbers";
        return Err(Failure::usage(why).remedy(remedy).into());
    }
    let connection = args.ask.connect_for_changes()?;
    block_on(connection.revoke_token(&args.number))??;
    let number = printable(&args.number);
    args.ask.say(
        &format!("The token {number} is revoked."),
        &json!({ "revoked": args.number }),
    )?;
    Ok(CommandEnding::Success)
}

fn document(token: &TokenStatus) -> Value {
    let terms = token.terms.clone().unwrap_or_default();
    json!({
        "number": token.number,
        "role": terms.role,
        "shard": terms.shard,
        "owner": terms.owner,
        "run_as": terms.run_as,
        "note": terms.note,
        "created_ms": token.created_ms,
        "created_by": token.created_by,
        "expires_ms": token.expires_ms,
        "uses": terms.uses,
        "uses_left": token.uses_left,
        "authority": token.authority,
    })
}
