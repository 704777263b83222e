//! `brasserie context`: adds, chooses, lists and removes contexts, which name the schedulers of clusters and the user's tokens.

use std::path::PathBuf;

use anyhow::Result;
use brasserie_common_identity::Token;
use brasserie_common_runtime::NetworkExposure;
use clap::Subcommand;
use serde_json::json;

use crate::CommandEnding;
use crate::access;
use crate::addresses::{scheduler_address, scheduler_peer};
use crate::connection::{Connection, block_on};
use crate::contexts::{Context, Contexts, context_name};
use crate::destination::{Destination, token_at_socket};
use crate::failure::Failure;
use crate::output::{print, print_json, printable, table};

/// Keep the addresses and your tokens of several clusters, and choose the one that commands call.
///
/// Contexts are in $XDG_CONFIG_HOME/brasserie/contexts.toml, which nobody else may read. A token names the authority of its cluster, so a
/// command shows it to no other scheduler. `--context NAME` and BRASSERIE_CONTEXT choose another context for one command.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes:
  0  done
  1  `add`: the scheduler gave no answer or refused the token, and nothing is kept
  2  wrong usage, no such context, or a file that cannot be read or used")]
pub(crate) struct ContextArgs {
    #[command(subcommand)]
    command: ContextCommand,
}

#[derive(Debug, Subcommand)]
enum ContextCommand {
    /// Add a context, after its scheduler has accepted the token. The first one is in use from then on.
    #[command(after_help = "\
Try it:
  brasserie context add prod --scheduler head:6789 --token-file token
  ssh head brasserie token create --role viewer | brasserie context add prod --scheduler head:6789 --token-file -
  brasserie context use prod")]
    Add(AddArgs),
    /// Make commands without `--scheduler` and `--context` call the scheduler of this context.
    Use(NameArgs),
    /// List the contexts, without their tokens.
    List(ListArgs),
    /// Remove a context. Its token stays valid: see `brasserie token revoke`.
    Rm(NameArgs),
}

#[derive(Debug, clap::Args)]
struct AddArgs {
    /// The name of the context.
    #[arg(value_parser = context_name)]
    name: String,
    /// The address of the scheduler; several with commas between them: the first one that listens is called.
    #[arg(long, value_name = "HOST:PORT", required = true, value_delimiter = ',', value_parser = scheduler_address)]
    scheduler: Vec<String>,
    /// The file with your token, whose mode is 0600, or - for a line of standard input, which a terminal does not show. A scheduler that
    /// asks for no proof needs none, nor does a local socket.
    #[arg(long, value_name = "FILE|-")]
    token_file: Option<PathBuf>,
    /// Replace the context of this name, if there is one and the scheduler accepts the new one.
    #[arg(long)]
    replace: bool,
    /// Allow calls in plain text to a scheduler of another machine that asks for no proof. Use it only if you trust everybody on that
    /// network: nothing proves who answers there. Later commands with this context need no such flag.
    #[arg(long)]
    insecure_network: bool,
}

#[derive(Debug, clap::Args)]
struct NameArgs {
    /// The name of the context.
    name: String,
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    /// Print one JSON document instead of a table.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &ContextArgs) -> Result<CommandEnding> {
    match &args.command {
        ContextCommand::Add(args) => add(args)?,
        ContextCommand::Use(args) => choose(&args.name)?,
        ContextCommand::List(args) => list(args)?,
        ContextCommand::Rm(args) => remove(&args.name)?,
    }
    Ok(CommandEnding::Success)
}

fn add(args: &AddArgs) -> Result<()> {
    let name = &args.name;
    check_name(&Contexts::read()?, args)?;
    let mut peers = args.scheduler.iter().filter_map(|at| scheduler_peer(at));
    let has_socket = peers.any(|peer| peer.is_local());
    if has_socket && args.token_file.is_some() {
        return Err(token_at_socket().into());
    }
    let token = args
        .token_file
        .as_deref()
        .map(access::read_token)
        .transpose()?;
    let exposure = NetworkExposure::of(args.insecure_network);
    let context = asked(args.scheduler.clone(), token, exposure)?;
    let role = match (&context.role, has_socket) {
        (Some(role), _) => format!(", where you are {}", printable(role)),
        (None, true) => ", whose local socket knows you by your user".to_owned(),
        (None, false) => ", which asks for no proof".to_owned(),
    };
    let cluster = printable(context.cluster.as_deref().unwrap_or_default());
    let is_used = Contexts::change(|contexts| {
        // Another command may have added one while the scheduler was asked.
        check_name(contexts, args)?;
        contexts.all.insert(name.clone(), context);
        Ok(contexts.in_use.get_or_insert_with(|| name.clone()) == name)
    })?;
    let used = match is_used {
        true => "It is in use.".to_owned(),
        false => format!("To use it: brasserie context use {name}"),
    };
    print(&format!(
        "The context `{name}` is for the cluster {cluster}{role}. {used}\n"
    ))
}

/// Errors if there is a context of this name, which the command may not replace.
fn check_name(contexts: &Contexts, args: &AddArgs) -> Result<()> {
    let name = &args.name;
    if !contexts.all.contains_key(name) || args.replace {
        return Ok(());
    }
    let taken = Failure::usage(format!("there is a context `{name}` already, which stays"));
    Err(taken
        .remedy("Choose another name, or replace the context with --replace")
        .into())
}

/// Asks the scheduler which cluster it has, and who the holder of the token is there.
fn asked(
    schedulers: Vec<String>,
    token: Option<Token>,
    exposure: NetworkExposure,
) -> Result<Context> {
    let destination = Destination {
        addresses: schedulers,
        token,
        exposure,
    };
    let connection = Connection::to_destination(&destination)?;
    let caller = block_on(connection.caller())??;
    let cluster = block_on(connection.bounded_status())??.cluster_id;
    let Destination {
        addresses, token, ..
    } = destination;
    Ok(Context {
        schedulers: addresses,
        token,
        cluster,
        role: caller.and_then(|caller| caller.role),
    })
}

fn choose(name: &str) -> Result<()> {
    let context = Contexts::change(|contexts| {
        contexts.in_use = Some(name.to_owned());
        contexts.named(name)
    })?;
    let at = printable(&context.schedulers.join(","));
    print(&format!("Commands now call the scheduler at {at}.\n"))
}

fn list(args: &ListArgs) -> Result<()> {
    let contexts = Contexts::read()?;
    let is_used = |name: &str| contexts.in_use.as_deref() == Some(name);
    if args.json {
        let all = contexts.all.iter().map(|(name, context)| {
            json!({
                "name": name,
                "schedulers": context.schedulers,
                "cluster": context.cluster,
                "role": context.role,
                "in_use": is_used(name),
            })
        });
        return print_json(&json!({ "contexts": all.collect::<Vec<_>>() }));
    }
    let text = |text: &Option<String>| printable(text.as_deref().unwrap_or("-"));
    let rows = contexts.all.iter().map(|(name, context)| {
        vec![
            printable(name),
            printable(&context.schedulers.join(",")),
            text(&context.cluster),
            text(&context.role),
            if is_used(name) { "yes" } else { "" }.to_owned(),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let columns = ["name", "schedulers", "cluster", "role", "in use"];
    print(&table(&columns, &rows))
}

fn remove(name: &str) -> Result<()> {
    Contexts::change(|contexts| {
        contexts.named(name)?;
        contexts.all.remove(name);
        contexts.in_use.take_if(|used| used.as_str() == name);
        Ok(())
    })?;
    print(&format!("The context `{}` is removed.\n", printable(name)))
}
