//! Serves `getAuditPage`.

use std::time::Duration;

use brasserie_common::WallTime;
use brasserie_thrift::generated::brasserie as wire;
use brasserie_thrift::rpc::Responder;

use crate::audit::{Audit, PageQuery, Place};
use crate::turns::Turns;

/// Limit for reading a page from the disk, which takes milliseconds.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves pages of the audit log.
pub(super) struct Auditing {
    audit: Audit,
    /// Permits one read at a time, so that a hanging disk blocks one thread, or two with one for the local socket.
    reads: Turns,
}

impl Auditing {
    pub(super) fn new(audit: Audit) -> Self {
        Auditing {
            audit,
            reads: Turns::new(1),
        }
    }

    pub(super) fn page(&self, args: wire::BrasserieGetAuditPageArgs, to: Responder) {
        let place = match self.reads.place(&to.principal()) {
            Ok(place) => place,
            Err(busy) => return to.fail(busy),
        };
        let (audit, query) = (self.audit.clone(), query(args.query));
        tokio::spawn(async move {
            let read = async {
                let turn = place.turn().await;
                match to.is_gone() {
                    true => Ok(None),
                    false => turn.compute(move || audit.page(&query)).await.map(Some),
                }
            };
            let page = match tokio::time::timeout(READ_TIMEOUT, read).await {
                Ok(Ok(None)) => return,
                Ok(Ok(Some(Ok(page)))) => page,
                Ok(Ok(Some(Err(error)))) => {
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
