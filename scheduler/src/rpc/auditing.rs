//! Serves `getAuditPage`.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::WallTime;
use brasserie_thrift::generated::brasserie as wire;
use brasserie_thrift::rpc::Responder;
use tokio::sync::Semaphore;

use crate::audit::{Audit, PageQuery, Place};

/// Limit for reading a page from the disk, which takes milliseconds.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves pages of the audit log.
pub(super) struct Auditing {
    audit: Audit,
    /// Permits one read at a time, so that a hanging disk blocks one thread only.
    reads: Arc<Semaphore>,
}

impl Auditing {
    pub(super) fn new(audit: Audit) -> Self {
        Auditing {
            audit,
            reads: Arc::new(Semaphore::new(1)),
        }
    }

    pub(super) fn page(&self, args: wire::BrasserieGetAuditPageArgs, to: Responder) {
        let (audit, reads) = (self.audit.clone(), Arc::clone(&self.reads));
        let query = query(args.query);
        tokio::spawn(async move {
            let read = async {
                // Invariant: nobody closes the semaphore.
                let permit = reads.acquire_owned().await;
                let read = tokio::task::spawn_blocking(move || {
                    let page = audit.page(&query);
                    drop(permit);
                    page
                });
                read.await
            };
            let page = match tokio::time::timeout(READ_TIMEOUT, read).await {
                Ok(Ok(Ok(page))) => page,
                Ok(Ok(Err(error))) => {
                    return to.fail(format!("cannot read the audit log: {error}"));
                }
                Ok(Err(_)) => return to.fail("the scheduler is ending"),
                Err(_) => {
                    return to.fail(format!(
                        "the audit log could not be read within {} s; check the disk of the scheduler's data directory",
                        READ_TIMEOUT.as_secs()
                    ));
                }
            };
            to.reply(&wire::BrasserieGetAuditPageResult {
                result_value: Some(wire::AuditPage {
                    lines: Some(page.lines),
                    read_to: Some(wire::AuditCursor {
                        file: i64::try_from(page.read_to.file).ok(),
                        offset: i64::try_from(page.read_to.offset).ok(),
                    }),
                    has_more: Some(page.has_more),
                }),
            });
        });
    }
}

fn query(asked: wire::AuditQuery) -> PageQuery {
    let number = |number: Option<i64>| u64::try_from(number.unwrap_or_default()).unwrap_or(0);
    PageQuery {
        after: asked.after.map(|after| Place {
            file: number(after.file),
            offset: number(after.offset),
        }),
        since: asked.since_ms.map(WallTime::from_millis),
        until: asked.until_ms.map(WallTime::from_millis),
        who: asked.who,
        what: asked.what,
        refused_only: asked.refused_only.unwrap_or(false),
    }
}
