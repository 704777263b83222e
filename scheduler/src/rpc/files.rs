//! Serves `putFile`, `removeFile` and `getFilePage`. The transfers of files are in `files/serving.rs`.

use brasserie_common::{Artifact, Principal};
use brasserie_scheduler_core::{Answer, FileList, FileOrigin, FilePage, ListedFile, Query};
use brasserie_thrift::convert;
use brasserie_thrift::generated::brasserie as wire;
use brasserie_thrift::rpc::Responder;
use serde_json::json;
use tokio::runtime::Handle;

use super::artifact_pages::{count, holder};
use super::changing::Changing;
use crate::audit::{Outcome, RefusalReason};
use crate::files::{Files, Put, PutProgress, PutRefusal};
use crate::inbox::{Inbox, Stopped};

/// The most jobs that a refusal names.
const MAX_NAMED: usize = 5;

/// Serves the calls that change the uploaded files.
pub(super) struct FileChanges {
    files: Files,
    inbox: Inbox,
    changing: Changing,
}

impl FileChanges {
    pub(super) fn new(files: Files, inbox: Inbox, changing: Changing) -> Self {
        FileChanges {
            files,
            inbox,
            changing,
        }
    }

    pub(super) fn put(&self, from: Principal, args: wire::BrasseriePutFileArgs, to: Responder) {
        let artifact = convert::parse::<_, Artifact>("putFile.artifact", args.artifact);
        let artifact = match artifact {
            Ok(artifact) => artifact,
            Err(error) => return to.reject_arguments(&error),
        };
        let Ok(offset) = u64::try_from(args.offset) else {
            return to.reject_arguments("putFile.offset is below 0");
        };
        // The pieces of an upload that has begun have no lines.
        if args.upload == 0
            && let Err(why) = self.changing.check(&from, &to)
        {
            return to.fail(why);
        }
        let files = self.files.clone();
        self.changing.make(from, to, move |from, line, to| {
            let mut line = line.on("file", &args.name);
            line.changed(
                None,
                Some(json!({ "digest": artifact.id.to_string(), "bytes": artifact.size })),
            );
            let part = (args.upload, offset);
            let put = Put::new((args.name, artifact), part, args.bytes).by(from);
            let put = files.put(put, || to.is_expelled());
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

    pub(super) fn remove(
        &self,
        from: Principal,
        args: wire::BrasserieRemoveFileArgs,
        to: Responder,
    ) {
        let (files, inbox, runtime) = (self.files.clone(), self.inbox.clone(), Handle::current());
        self.changing.make(from, to, move |from, line, to| {
            let wire::BrasserieRemoveFileArgs { name, force } = args;
            let line = line.on("file", &name);
            if let Err(why) = files.check_owner(&from, &name) {
                line.refused_caller(RefusalReason::Owner, &why);
                return reply_removed(to, Err(why.to_string()));
            }
            let readers = match force {
                true => None,
                false => match runtime.block_on(readers(&inbox, from.clone(), &name)) {
                    Ok(readers) => readers,
                    Err(stopped) => return to.fail(stopped),
                },
            };
            if let Some(readers) = readers {
                line.end(Outcome::Refused, Some(&readers));
                return reply_removed(to, Err(readers));
            }
            let removed = files.remove(&from, &name, || to.is_expelled());
            let removed = removed.and_then(|was_there| match was_there {
                true => Ok(()),
                false => Err(format!(
                    "no file was uploaded under the name `{name}`: `brasserie artifact list` shows the files"
                )),
            });
            line.end_as(&removed);
            reply_removed(to, removed);
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
