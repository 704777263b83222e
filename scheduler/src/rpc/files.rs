//! Serves `putFile`, `removeFile` and `getFilePage`. The transfers of files are in `files/serving.rs`.

use brasserie_common::{Artifact, Principal};
use brasserie_scheduler_core::{Answer, FileList, FileOrigin, FilePage, ListedFile, Query};
use brasserie_thrift::convert;
use brasserie_thrift::generated::brasserie as wire;
use brasserie_thrift::rpc::Responder;
use serde_json::json;

use super::artifact_pages::{count, holder};
use crate::audit::{Audit, Outcome, RefusalReason};
use crate::files::{Files, Put, PutProgress, PutRefusal};
use crate::inbox::{Inbox, Stopped};

/// The most jobs that a refusal names.
const MAX_NAMED: usize = 5;

impl Files {
    pub(super) fn put_file(
        &self,
        (from, audit): (Principal, &Audit),
        args: wire::BrasseriePutFileArgs,
        to: Responder,
    ) {
        let artifact = convert::parse::<_, Artifact>("putFile.artifact", args.artifact);
        let artifact = match artifact {
            Ok(artifact) => artifact,
            Err(error) => return to.reject_arguments(&error),
        };
        let Ok(offset) = u64::try_from(args.offset) else {
            return to.reject_arguments("putFile.offset is below 0");
        };
        let mut line = audit.call(&from, to.method()).on("file", &args.name);
        line.changed(
            None,
            Some(json!({ "digest": artifact.id.to_string(), "bytes": artifact.size })),
        );
        let part = (args.upload, offset);
        let put = Put::new((args.name, artifact), part, args.bytes).by(from);
        let own = self.clone();
        tokio::task::spawn_blocking(move || {
            let put = own.put(put);
            match &put {
                // A file has a line when it is complete or refused, and none for its pieces.
                Ok(PutProgress::Wants { .. }) | Err(PutRefusal::Busy) => line.discard(),
                Err(PutRefusal::NotOwner(why)) => line.refused_caller(RefusalReason::Owner, why),
                put => line.end_as(put),
            }
            let (result_value, ex) = match put {
                Ok(progress) => (Some(upload(progress)), None),
                Err(refusal) => (None, Some(refused(&refusal))),
            };
            to.reply(&wire::BrasseriePutFileResult { result_value, ex });
        });
    }

    pub(super) fn remove_file(
        &self,
        inbox: Inbox,
        (from, audit): (Principal, &Audit),
        args: wire::BrasserieRemoveFileArgs,
        to: Responder,
    ) {
        let own = self.clone();
        let line = audit.call(&from, to.method()).on("file", &args.name);
        tokio::spawn(async move {
            let wire::BrasserieRemoveFileArgs { name, force } = args;
            let (files, by, of) = (own.clone(), from.clone(), name.clone());
            // The names are locked while they are written to disk.
            let checked = tokio::task::spawn_blocking(move || files.check_owner(&by, &of));
            match checked.await {
                Ok(Ok(())) => {}
                Ok(Err(why)) => {
                    line.refused_caller(RefusalReason::Owner, &why);
                    return reply_removed(to, Err(why.to_string()));
                }
                Err(_) => return to.fail("the scheduler is ending"),
            }
            let readers = match force {
                true => None,
                false => match readers(&inbox, from.clone(), &name).await {
                    Ok(readers) => readers,
                    Err(stopped) => return to.fail(stopped),
                },
            };
            if let Some(readers) = readers {
                line.end(Outcome::Refused, Some(&readers));
                return reply_removed(to, Err(readers));
            }
            tokio::task::spawn_blocking(move || {
                let removed = own.remove(&from, &name).and_then(|was_there| match was_there {
                    true => Ok(()),
                    false => Err(format!(
                        "no file was uploaded under the name `{name}`: `brasserie artifact list` shows the files"
                    )),
                });
                line.end_as(&removed);
                reply_removed(to, removed);
            });
        });
    }
}

fn upload(progress: PutProgress) -> wire::FileUpload {
    let (upload, offset, done) = match progress {
        PutProgress::Wants { upload, offset } => (upload, offset, false),
        PutProgress::Done { size } => (0, size, true),
    };
    wire::FileUpload {
        upload: Some(upload),
        offset: count(offset),
        done: Some(done),
    }
}

fn refused(refusal: &PutRefusal) -> wire::FileRefusedException {
    wire::FileRefusedException {
        message: Some(refusal.to_string()),
        busy: Some(*refusal == PutRefusal::Busy),
    }
}

fn reply_removed(to: Responder, removed: Result<(), String>) {
    let ex = removed.err().map(|message| wire::FileRefusedException {
        message: Some(message),
        busy: None,
    });
    to.reply(&wire::BrasserieRemoveFileResult { ex });
}

/// Returns why an uploaded file must not be removed.
async fn readers(inbox: &Inbox, from: Principal, name: &str) -> Result<Option<String>, Stopped> {
    let list = FileList {
        name: Some(name.to_owned()),
        after: None,
        limit: 1,
    };
    let Answer::Files(page) = inbox.query(from, Query::Files(list)).await? else {
        return Ok(None);
    };
    let mut files = page.files.into_iter();
    let file = files.find(|file| file.origin == FileOrigin::Uploaded && file.jobs_total > 0);
    Ok(file.map(|file| {
        let jobs = file.jobs.iter().take(MAX_NAMED);
        let jobs: Vec<String> = jobs.map(|job| format!("`{job}`")).collect();
        let others = match file.jobs_total - jobs.len() {
            0 => String::new(),
            others => format!(" and {others} others"),
        };
        format!(
            "the file `{name}` is an input of {}{others}, whose tasks would wait for it, also those that run again: change or delete the jobs first, or use --force",
            jobs.join(", ")
        )
    }))
}

/// Reads the request for a page.
pub(super) fn list(args: wire::BrasserieGetFilePageArgs) -> FileList {
    FileList {
        name: Some(args.name).filter(|name| !name.is_empty()),
        after: Some(args.after).filter(|after| !after.is_empty()),
        limit: usize::try_from(args.limit)
            .ok()
            .filter(|limit| *limit > 0)
            .unwrap_or(usize::MAX),
    }
}

pub(super) fn page(page: FilePage) -> wire::FilePage {
    wire::FilePage {
        files: Some(page.files.into_iter().map(file).collect()),
        has_more: Some(page.has_more),
        cluster: Some(page.namespace.as_str().to_owned()),
    }
}

fn file(file: ListedFile) -> wire::ListedFile {
    let (artifact, problem) = match file.content {
        Ok(artifact) => (Some(artifact.into()), None),
        Err(why) => (None, Some(why)),
    };
    let jobs = file.jobs.iter();
    wire::ListedFile {
        name: Some(file.name.to_string()),
        origin: Some(file.origin.as_str().to_owned()),
        artifact,
        problem,
        jobs: Some(jobs.map(|job| job.as_str().to_owned()).collect()),
        jobs_total: count(file.jobs_total),
        copies: count(file.copies),
        holders: Some(file.holders.into_iter().map(holder).collect()),
    }
}
