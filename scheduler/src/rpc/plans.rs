//! Serves plans: parses a proposed configuration like the config file, and applies it to a copy of the scheduler.

mod wire;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use brasserie_common::Principal;
use brasserie_common::access::Role;
use brasserie_common_config::{Config, ConfigErrors, Format, Parsed, Problem};
use brasserie_scheduler_core::{
    Answer, Plan, Proposal, ProposedInputs, ProposedNodes, Query, WhatIf, has_same_nodes,
};
use brasserie_thrift::generated::brasserie as generated;
use brasserie_thrift::generated::brasserie::{
    BrasseriePlanConfigArgs, BrasseriePlanConfigResult, PlanRefusedException,
};
use brasserie_thrift::rpc::Responder;

use super::changing::Changing;
use crate::audit::{OpenLine, Outcome, RefusalReason};
use crate::files::absent_files;
use crate::inbox::{Inbox, Stopped};
use crate::sources::{Draft, NotBegun, Proposals, first_new_script};

/// Makes plans.
pub(super) struct Plans {
    changing: Changing,
    proposals: Arc<Proposals>,
    /// Whether callers must prove who they are.
    asks_for_proofs: bool,
}

/// The scripts that a caller's draft may run. They run as the scheduler's user, who may do everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DraftScripts {
    Any,
    /// Those of the config in force, with the same arguments.
    InForce,
}

impl DraftScripts {
    fn of(from: &Principal, asks_for_proofs: bool) -> Self {
        match from {
            Principal::Own => DraftScripts::Any,
            Principal::Authenticated(person) if person.role == Role::Admin => DraftScripts::Any,
            Principal::Unauthenticated(_) if !asks_for_proofs => DraftScripts::Any,
            Principal::Authenticated(_)
            | Principal::Unauthenticated(_)
            | Principal::Stranger(_) => DraftScripts::InForce,
        }
    }
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
enum PlanFailure {
    #[error(transparent)]
    NotBegun(#[from] NotBegun),
    #[error("`{0}` is not a format of config files; use json, toml or yaml")]
    Format(String),
    #[error("the folder {0} is relative; give an absolute path")]
    Folder(String),
    #[error(
        "node source {position} would run the script {script} as the user of the scheduler, and the config in force does not run it for the \
         same nodes: an administrator can make this plan"
    )]
    NewScript { position: usize, script: String },
    #[error(
        "the draft names the folder {0}, which is not that of the scheduler's config file: omit it, or ask an administrator for this plan"
    )]
    Elsewhere(String),
    #[error(transparent)]
    Stopped(#[from] Stopped),
    #[error("internal error: the scheduler's answer does not match the request")]
    AnotherAnswer,
    #[error("making the plan failed: {0}")]
    Died(#[from] tokio::task::JoinError),
}

/// The result of a plan request: the plan if the draft is valid, and the problems of the draft.
struct PlanResult {
    /// The config file that the draft would replace.
    file: PathBuf,
    errors: Vec<Problem>,
    warnings: Vec<Problem>,
    /// `None` if the draft has errors.
    plan: Option<Plan>,
}

impl Plans {
    pub(super) fn new(changing: Changing, proposals: Proposals, asks_for_proofs: bool) -> Self {
        Plans {
            changing,
            proposals: Arc::new(proposals),
            asks_for_proofs,
        }
    }

    /// Sends the plan from a separate task.
    pub(super) fn plan(&self, from: Principal, args: BrasseriePlanConfigArgs, to: Responder) {
        let (inbox, _, mut line, place) = match self.changing.begin(&from, &to) {
            Ok(open) => open,
            Err(busy) => return to.fail(busy),
        };
        let proposals = Arc::clone(&self.proposals);
        line.texts(None, Some(String::from_utf8_lossy(&args.text).into()));
        let scripts = DraftScripts::of(&from, self.asks_for_proofs);
        tokio::spawn(async move {
            let _place = place;
            let made = make(&inbox, &proposals, (from, scripts), args).await;
            end(line, &made);
            let (result_value, ex) = match made {
                Ok(made) => (Some(wire::plan(made)), None),
                Err(PlanFailure::Stopped(stopped)) => return to.fail(stopped),
                Err(failure) => {
                    let message = Some(failure.to_string());
                    (None, Some(PlanRefusedException { message }))
                }
            };
            to.reply(&BrasseriePlanConfigResult { result_value, ex });
        });
    }
}

/// Writes the line of a plan into the audit log.
fn end(line: OpenLine, made: &Result<PlanResult, PlanFailure>) {
    match made {
        Ok(_) => line.end(Outcome::Ok, None),
        Err(why @ (PlanFailure::NewScript { .. } | PlanFailure::Elsewhere(_))) => {
            line.refused_caller(RefusalReason::Role, why);
        }
        Err(
            why @ (PlanFailure::Stopped(_) | PlanFailure::AnotherAnswer | PlanFailure::Died(_)),
        ) => line.end(Outcome::Failed, Some(why)),
        Err(why) => line.end(Outcome::Refused, Some(why)),
    }
}

async fn make(
    inbox: &Inbox,
    proposals: &Proposals,
    (from, scripts): (Principal, DraftScripts),
    args: BrasseriePlanConfigArgs,
) -> Result<PlanResult, PlanFailure> {
    let draft = draft(args)?;
    if scripts == DraftScripts::InForce && proposals.is_elsewhere(&draft) {
        let folder = proposals.folder_of(&draft);
        return Err(PlanFailure::Elsewhere(folder.display().to_string()));
    }
    let (format, folder) = (draft.format, proposals.folder_of(&draft));
    let begun = proposals.begin()?;
    let mut made = PlanResult {
        file: begun.file.to_owned(),
        errors: Vec::new(),
        warnings: Vec::new(),
        plan: None,
    };
    let config = match proposals.read(draft).await? {
        Ok(parsed) => {
            made.errors = parsed.job_problems().to_vec();
            let Parsed {
                config, warnings, ..
            } = parsed;
            made.warnings = warnings;
            Arc::new(config)
        }
        Err(ConfigErrors(errors)) => {
            made.errors = errors;
            return Ok(made);
        }
    };
    let nodes = match config_in_force(inbox, from.clone()).await? {
        // The scheduler would not read nodes again.
        Some(before) if has_same_nodes(&before, &config) => ProposedNodes::Kept,
        before => {
            check_scripts(scripts, &config, before.as_deref())?;
            proposals.nodes(&config, folder.clone()).await
        }
    };
    let read = Arc::clone(&config);
    let absent = tokio::task::spawn_blocking(move || absent_files(&read, &folder)).await?;
    let query = Query::InputsForPlan(Arc::clone(&config));
    let Answer::InputsForPlan(inputs) = inbox.query(from.clone(), query).await? else {
        return Err(PlanFailure::AnotherAnswer);
    };
    let inputs = ProposedInputs { absent, ..inputs };
    let Answer::WhatIf(copy) = inbox.query(from, Query::WhatIf).await? else {
        return Err(PlanFailure::AnotherAnswer);
    };
    let proposal = Proposal {
        config,
        nodes,
        inputs,
    };
    let mut plan = try_out(copy, proposal).await?;
    plan.notes.extend(other_format(begun.file, format));
    made.plan = Some(plan);
    drop(begun.room);
    Ok(made)
}

/// Makes the plan on a blocking thread, because it can take seconds and drops a large copy.
async fn try_out(copy: Box<WhatIf>, proposal: Proposal) -> Result<Plan, tokio::task::JoinError> {
    tokio::task::spawn_blocking(move || copy.plan(proposal)).await
}

fn draft(args: BrasseriePlanConfigArgs) -> Result<Draft, PlanFailure> {
    let BrasseriePlanConfigArgs {
        text,
        format,
        folder,
    } = args;
    let format = match format.as_str() {
        "json" => Format::Json,
        "toml" => Format::Toml,
        "yaml" => Format::Yaml,
        _ => return Err(PlanFailure::Format(format)),
    };
    let folder = Some(folder).filter(|folder| !folder.is_empty());
    if let Some(relative) = folder.as_ref().filter(|f| !Path::new(f).is_absolute()) {
        return Err(PlanFailure::Folder(relative.clone()));
    }
    Ok(Draft {
        text,
        format,
        folder: folder.map(PathBuf::from),
    })
}

async fn config_in_force(
    inbox: &Inbox,
    from: Principal,
) -> Result<Option<Arc<Config>>, PlanFailure> {
    match inbox.query(from, Query::Config).await? {
        Answer::Config(before) => Ok(before),
        _ => Err(PlanFailure::AnotherAnswer),
    }
}

/// Errors if the draft would run a script that its caller may not choose.
fn check_scripts(
    scripts: DraftScripts,
    draft: &Config,
    in_force: Option<&Config>,
) -> Result<(), PlanFailure> {
    match (scripts, first_new_script(draft, in_force)) {
        (DraftScripts::InForce, Some((position, script))) => Err(PlanFailure::NewScript {
            position,
            script: script.display().to_string(),
        }),
        (DraftScripts::InForce, None) | (DraftScripts::Any, _) => Ok(()),
    }
}

/// Returns a warning if the name of the config file implies another format than the draft's.
fn other_format(file: &Path, format: Format) -> Option<String> {
    (Format::of_path(file) != format).then(|| {
        format!(
            "the scheduler reads {} in another format because of its file name: start the scheduler with another `--config`",
            file.display()
        )
    })
}
