//! Serves plans: parses a proposed configuration like the config file, and applies it to a copy of the scheduler.

mod wire;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use brasserie_common::Principal;
use brasserie_common_config::{Config, ConfigErrors, Format, Parsed, Problem};
use brasserie_scheduler_core::{
    Answer, Plan, Proposal, ProposedInputs, ProposedNodes, Query, WhatIf, has_same_nodes,
};
use brasserie_thrift::generated::brasserie as generated;
use brasserie_thrift::generated::brasserie::{
    BrasseriePlanConfigArgs, BrasseriePlanConfigResult, PlanRefusedException,
};
use brasserie_thrift::rpc::Responder;

use crate::files::absent_files;
use crate::inbox::{Inbox, Stopped};
use crate::sources::{Draft, NotBegun, Proposals};

/// Makes plans.
pub(super) struct Plans {
    inbox: Inbox,
    proposals: Arc<Proposals>,
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
    pub(super) fn new(inbox: Inbox, proposals: Proposals) -> Self {
        Plans {
            inbox,
            proposals: Arc::new(proposals),
        }
    }

    /// Sends the plan from a separate task.
    pub(super) fn plan(&self, from: Principal, args: BrasseriePlanConfigArgs, to: Responder) {
        let (inbox, proposals) = (self.inbox.clone(), Arc::clone(&self.proposals));
        tokio::spawn(async move {
            let (result_value, ex) = match make(&inbox, &proposals, from, args).await {
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

async fn make(
    inbox: &Inbox,
    proposals: &Proposals,
    from: Principal,
    args: BrasseriePlanConfigArgs,
) -> Result<PlanResult, PlanFailure> {
    let draft = draft(args)?;
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
    let nodes = match same_sources(inbox, from.clone(), &config).await? {
        true => ProposedNodes::Kept,
        false => proposals.nodes(&config, folder.clone()).await,
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

/// Returns whether the configuration has the same node sources as the current one, so that the scheduler would not read nodes again.
async fn same_sources(
    inbox: &Inbox,
    from: Principal,
    config: &Config,
) -> Result<bool, PlanFailure> {
    match inbox.query(from, Query::Config).await? {
        Answer::Config(before) => Ok(before.is_some_and(|before| has_same_nodes(&before, config))),
        _ => Err(PlanFailure::AnotherAnswer),
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
