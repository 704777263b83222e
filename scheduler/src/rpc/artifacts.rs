//! Serves `reportArtifacts`, `requestArtifactSlots` and `releaseArtifactSlots`.

use brasserie_common::artifact_report::{ArtifactsAnswer, ArtifactsReport};
use brasserie_common::text::printable;
use brasserie_common::{DiskGeneration, Principal, SchedulerId, Shard};
use brasserie_scheduler_core::{
    Event, NoSlots, Rejection, Replication, ReservedSlots, SlotPlace, SlotsCall, SlotsRequest,
    WorkerWithSlots,
};
use brasserie_thrift::convert;
use brasserie_thrift::generated::scheduler::{
    ArtifactPlace, ArtifactSlot, ArtifactSlots, ArtifactSlotsRequest, ArtifactSlotsWorker,
    BistroSchedulerReleaseArtifactSlotsArgs, BistroSchedulerReleaseArtifactSlotsResult,
    BistroSchedulerReportArtifactsArgs, BistroSchedulerReportArtifactsResult,
    BistroSchedulerRequestArtifactSlotsArgs, BistroSchedulerRequestArtifactSlotsResult,
    NoArtifactSlotsException,
};
use brasserie_thrift::rpc::Responder;

use super::service::SchedulerService;
use crate::audit::{Outcome, RefusalReason};
use crate::inbox::EventLane;

impl SchedulerService {
    pub(super) fn report_artifacts(
        &self,
        from: Principal,
        args: BistroSchedulerReportArtifactsArgs,
        to: Responder,
    ) {
        if let Err(full) = self.inbox.check(EventLane::Ordinary) {
            return to.fail(full);
        }
        let report = convert::parse::<_, ArtifactsReport>("reportArtifacts.report", args.report);
        let report = match report {
            Ok(report) => Box::new(report),
            Err(error) => return to.reject_arguments(&error),
        };
        if let Err(refusal) = from.check_shard("reportArtifacts", &report.shard) {
            self.audit().not_permitted(&refusal);
            return to.refuse(&refusal);
        }
        let (audit, by, inbox) = (self.audit().clone(), from.clone(), self.inbox.of(&to));
        let deliver = move |reply: Result<Box<ArtifactsAnswer>, Rejection>| match reply {
            Ok(answer) => to.reply(&BistroSchedulerReportArtifactsResult {
                result_value: Some((*answer).into()),
            }),
            Err(rejection) => {
                audit.rejected(&by, "reportArtifacts", &rejection);
                to.fail(rejection);
            }
        };
        let event = |request| Event::ReportArtifacts {
            request,
            from,
            report,
        };
        Self::pass(&inbox, EventLane::Ordinary, deliver, event);
    }

    pub(super) fn request_artifact_slots(
        &self,
        from: Principal,
        args: BistroSchedulerRequestArtifactSlotsArgs,
        to: Responder,
    ) {
        if let Err(full) = self.inbox.check(EventLane::Ordinary) {
            return to.fail(full);
        }
        let refuse = |to: Responder, why: NoSlots| {
            let ex = NoArtifactSlotsException {
                message: Some(why.to_string()),
            };
            to.reply(&BistroSchedulerRequestArtifactSlotsResult {
                result_value: None,
                ex: Some(ex),
            });
        };
        let wanted = match slots_request(args.request) {
            Ok(wanted) => wanted,
            Err(error) => return to.reject_arguments(&error),
        };
        let (inbox, _, mut line, place) = match self.changing().begin(&from, &to) {
            Ok(open) => open,
            Err(busy) => return to.fail(busy),
        };
        let wanted = match wanted {
            Ok(wanted) => Box::new(wanted),
            Err(why) => {
                line.end(Outcome::Refused, Some(&why));
                return refuse(to, why);
            }
        };
        let deliver = move |reply: Result<Box<ReservedSlots>, NoSlots>| {
            let _place = place;
            if let Ok(reserved) = &reply {
                line = line.on("reservation", &reserved.reservation.to_string());
            }
            line.end_as(&reply);
            match reply {
                Ok(reserved) => to.reply(&BistroSchedulerRequestArtifactSlotsResult {
                    result_value: Some(artifact_slots(*reserved)),
                    ex: None,
                }),
                Err(NoSlots::Rejected(rejection)) => to.fail(rejection),
                Err(why) => refuse(to, why),
            }
        };
        let event = |request| {
            Event::Slots(SlotsCall::Request {
                request,
                from,
                wanted,
            })
        };
        Self::pass(&inbox, EventLane::Ordinary, deliver, event);
    }

    pub(super) fn release_artifact_slots(
        &self,
        from: Principal,
        args: BistroSchedulerReleaseArtifactSlotsArgs,
        to: Responder,
    ) {
        if let Err(full) = self.inbox.check(EventLane::Ordinary) {
            return to.fail(full);
        }
        let path = "releaseArtifactSlots.scheduler";
        let scheduler = match convert::parse::<_, SchedulerId>(path, args.scheduler) {
            Ok(scheduler) => scheduler,
            Err(error) => return to.reject_arguments(&error),
        };
        let (inbox, _, line, place) = match self.changing().begin(&from, &to) {
            Ok(open) => open,
            Err(busy) => return to.fail(busy),
        };
        let line = line.on("reservation", &args.reservation.to_string());
        let deliver = move |reply: Result<bool, Rejection>| {
            let _place = place;
            match &reply {
                Ok(false) => line.discard(),
                Err(Rejection::NotOwner(why)) => line.refused_caller(RefusalReason::Owner, why),
                reply => line.end_as(reply),
            }
            match reply {
                Ok(was_open) => to.reply(&BistroSchedulerReleaseArtifactSlotsResult {
                    result_value: Some(was_open),
                }),
                Err(rejection) => to.fail(rejection),
            }
        };
        // No reservation has a negative number.
        let reservation = u64::try_from(args.reservation).unwrap_or(u64::MAX);
        let event = |request| {
            Event::Slots(SlotsCall::Release {
                request,
                from,
                scheduler,
                reservation,
            })
        };
        Self::pass(&inbox, EventLane::Ordinary, deliver, event);
    }
}

/// Parses a request. A wrong number of artifacts is a refusal that the call declares.
fn slots_request(request: ArtifactSlotsRequest) -> Result<Result<SlotsRequest, NoSlots>, String> {
    let asked = request.artifacts.unwrap_or(0);
    let artifacts = u32::try_from(asked).unwrap_or(0);
    if artifacts == 0 || artifacts > SlotsRequest::MOST_ARTIFACTS {
        let artifacts = asked.into();
        return Ok(Err(NoSlots::Artifacts { artifacts }));
    }
    let word = request.replicas.unwrap_or_default();
    let replicas = match &*word {
        "" | "none" => Replication::None,
        "other worker" => Replication::OtherWorker,
        "other rack" => Replication::OtherRack,
        _ => {
            let word = printable(&word);
            return Err(format!(
                "ArtifactSlotsRequest.replicas is \"{word}\"; it may be \"none\", \"other worker\" or \"other rack\""
            ));
        }
    };
    let except = request.except_shards.unwrap_or_default().into_iter();
    // A text that is no name of a shard names no worker.
    let except = except.filter_map(|shard| Shard::try_from(shard).ok());
    let most = request.most_workers.unwrap_or(0);
    Ok(Ok(SlotsRequest {
        artifacts,
        replicas,
        except: except.collect(),
        most_workers: usize::try_from(most).ok().filter(|most| *most > 0),
    }))
}

fn artifact_slots(reserved: ReservedSlots) -> ArtifactSlots {
    let slots = reserved.slots.into_iter();
    let slots = slots.map(|(primary, replica)| ArtifactSlot {
        primary: Some(artifact_place(primary)),
        replica: replica.map(artifact_place),
    });
    let worker = |worker: WorkerWithSlots| ArtifactSlotsWorker {
        shard: Some(worker.shard.as_str().to_owned()),
        place: Some(worker.place.into()),
        generations: Some(worker.disks.into_iter().map(to_bytes).collect()),
    };
    ArtifactSlots {
        scheduler: Some(reserved.scheduler.into()),
        reservation: Some(i64_of(reserved.reservation)),
        reserved_sec: Some(reserved.reserved_for.as_secs_f64().into()),
        bytes_each: Some(i64_of(reserved.bytes_each)),
        workers: Some(reserved.workers.into_iter().map(worker).collect()),
        slots: Some(slots.collect()),
    }
}

fn to_bytes(generation: DiskGeneration) -> Vec<u8> {
    generation.0.to_be_bytes().to_vec()
}

fn i64_of(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn artifact_place(place: SlotPlace) -> ArtifactPlace {
    // An answer names fewer than 2^31 workers.
    let number = |position: usize| i32::try_from(position).unwrap_or(i32::MAX);
    ArtifactPlace {
        worker: Some(number(place.worker)),
        disk: Some(number(place.disk)),
    }
}
