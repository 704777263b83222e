//! Reports of stores of artifacts, and their answers.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::artifact_report::{
    ArtifactCopy, ArtifactCounters, ArtifactsAnswer, ArtifactsReport, DiskCondition, DiskMedium,
    DiskReport, InputPeer, ListingNumber, ListingPage, ListingWanted, WaitingRun,
};
use brasserie_common::{Artifact, ArtifactHolder, ArtifactId, SetDigest, TaskKey};

use super::artifact::{exactly, generation, id, namespace, position, rack, to_bytes};
use super::{
    FieldProblem, WireError, host, not_negative, optional, parse_list, parse_name, required,
    saturating_i32, saturating_i64, to_wire_list,
};
use crate::generated::common as wire_common;
use crate::generated::scheduler as wire;

fn bytes(path: &str, number: Option<i64>) -> Result<u64, WireError> {
    not_negative(path, number.unwrap_or(0))
}

fn micros(path: &str, number: Option<i64>) -> Result<Duration, WireError> {
    bytes(path, number).map(Duration::from_micros)
}

/// Rounds up to microseconds, so that a known time is never zero, which stands for an unknown one.
pub fn known_micros(time: Duration) -> Option<i64> {
    let micros = time.as_nanos().div_ceil(1000);
    (micros > 0).then(|| i64::try_from(micros).unwrap_or(i64::MAX))
}

fn after(path: &str, bytes: Option<Vec<u8>>) -> Result<Option<ArtifactId>, WireError> {
    bytes.map(|bytes| id(path, bytes)).transpose()
}

impl TryFrom<wire::ArtifactDisk> for DiskReport {
    type Error = WireError;

    fn try_from(disk: wire::ArtifactDisk) -> Result<Self, WireError> {
        let (medium, state) = (
            disk.medium.unwrap_or_default(),
            disk.state.unwrap_or_default(),
        );
        let states = "\"healthy\", \"read error\", \"io hang\" or \"high usage\"";
        Ok(DiskReport {
            generation: generation("ArtifactDisk.generation", disk.generation)?,
            digest: SetDigest::from_be_bytes(exactly("ArtifactDisk.digest", disk.digest)?),
            artifacts: bytes("ArtifactDisk.artifacts", disk.artifacts)?,
            medium: DiskMedium::parse(&medium).ok_or_else(|| {
                let problem = FieldProblem::unknown_word(&medium, "\"ssd\" or \"hdd\"");
                WireError::new("ArtifactDisk.medium", problem)
            })?,
            total: bytes("ArtifactDisk.totalBytes", disk.total_bytes)?,
            used: bytes("ArtifactDisk.usedBytes", disk.used_bytes)?,
            usable: bytes("ArtifactDisk.usableBytes", disk.usable_bytes)?,
            condition: DiskCondition::parse(&state).ok_or_else(|| {
                WireError::new(
                    "ArtifactDisk.state",
                    FieldProblem::unknown_word(&state, states),
                )
            })?,
            problem: disk.problem.map(Into::into),
            flush_time: micros("ArtifactDisk.flushMicros", disk.flush_micros)?,
            fetch_time: micros("ArtifactDisk.fetchMicros", disk.fetch_micros)?,
        })
    }
}

impl From<DiskReport> for wire::ArtifactDisk {
    fn from(disk: DiskReport) -> Self {
        wire::ArtifactDisk {
            generation: to_bytes(disk.generation),
            digest: Some(disk.digest.to_be_bytes().to_vec()),
            artifacts: Some(saturating_i64(disk.artifacts)),
            medium: Some(disk.medium.as_str().to_owned()),
            total_bytes: Some(saturating_i64(disk.total)),
            used_bytes: Some(saturating_i64(disk.used)),
            usable_bytes: Some(saturating_i64(disk.usable)),
            state: Some(disk.condition.as_str().to_owned()),
            problem: disk.problem.map(|problem| problem.to_string()),
            flush_micros: known_micros(disk.flush_time),
            fetch_micros: known_micros(disk.fetch_time),
        }
    }
}

impl TryFrom<wire::ArtifactCopy> for ArtifactCopy {
    type Error = WireError;

    fn try_from(copy: wire::ArtifactCopy) -> Result<Self, WireError> {
        Ok(ArtifactCopy {
            generation: generation("ArtifactCopy.generation", copy.generation)?,
            id: id("ArtifactCopy.id", copy.id.unwrap_or_default())?,
        })
    }
}

impl From<ArtifactCopy> for wire::ArtifactCopy {
    fn from(copy: ArtifactCopy) -> Self {
        wire::ArtifactCopy {
            generation: to_bytes(copy.generation),
            id: Some(copy.id.0.to_vec()),
            size: None,
        }
    }
}

/// A copy with its number of bytes.
struct StoredCopy(ArtifactCopy, u64);

impl TryFrom<wire::ArtifactCopy> for StoredCopy {
    type Error = WireError;

    fn try_from(copy: wire::ArtifactCopy) -> Result<Self, WireError> {
        let size = bytes("ArtifactCopy.size", copy.size)?;
        Ok(StoredCopy(copy.try_into()?, size))
    }
}

impl From<StoredCopy> for wire::ArtifactCopy {
    fn from(StoredCopy(copy, size): StoredCopy) -> Self {
        wire::ArtifactCopy {
            size: Some(saturating_i64(size)),
            ..copy.into()
        }
    }
}

impl TryFrom<wire::ListingWanted> for ListingWanted {
    type Error = WireError;

    fn try_from(wanted: wire::ListingWanted) -> Result<Self, WireError> {
        let number = bytes("ListingWanted.listing", wanted.listing)?;
        Ok(ListingWanted {
            generation: generation("ListingWanted.generation", wanted.generation)?,
            listing: ListingNumber(number),
            after: after("ListingWanted.after", wanted.after)?,
        })
    }
}

impl From<ListingWanted> for wire::ListingWanted {
    fn from(wanted: ListingWanted) -> Self {
        wire::ListingWanted {
            generation: to_bytes(wanted.generation),
            listing: Some(saturating_i64(wanted.listing.0)),
            after: wanted.after.map(|id| id.0.to_vec()),
        }
    }
}

impl TryFrom<wire::ArtifactListing> for ListingPage {
    type Error = WireError;

    fn try_from(page: wire::ArtifactListing) -> Result<Self, WireError> {
        let copies = page.copies.unwrap_or_default().into_iter().map(|copy| {
            let id = id("ArtifactListing.copies.id", copy.id.unwrap_or_default())?;
            Ok((id, bytes("ArtifactListing.copies.size", copy.size)?))
        });
        let artifacts = copies.collect::<Result<Vec<_>, WireError>>()?;
        let number = bytes("ArtifactListing.listing", page.listing)?;
        Ok(ListingPage {
            wanted: ListingWanted {
                generation: generation("ArtifactListing.generation", page.generation)?,
                listing: ListingNumber(number),
                after: after("ArtifactListing.after", page.after)?,
            },
            artifacts,
            is_last: page.is_last.unwrap_or(false),
        })
    }
}

impl From<ListingPage> for wire::ArtifactListing {
    fn from(page: ListingPage) -> Self {
        let copies = page
            .artifacts
            .into_iter()
            .map(|(id, size)| wire::ArtifactCopy {
                generation: None,
                id: Some(id.0.to_vec()),
                size: Some(saturating_i64(size)),
            });
        wire::ArtifactListing {
            generation: to_bytes(page.wanted.generation),
            listing: Some(saturating_i64(page.wanted.listing.0)),
            after: page.wanted.after.map(|id| id.0.to_vec()),
            copies: Some(copies.collect()),
            is_last: Some(page.is_last),
        }
    }
}

/// Parses a count of 32 bits.
fn count(path: &str, number: Option<i32>) -> Result<u32, WireError> {
    let value = number.unwrap_or(0);
    u32::try_from(value).map_err(|_| {
        let problem = FieldProblem::OutOfRange {
            value: value.into(),
            allowed: "0 or more",
        };
        WireError::new(path, problem)
    })
}

impl TryFrom<wire::InputPeer> for InputPeer {
    type Error = WireError;

    fn try_from(peer: wire::InputPeer) -> Result<Self, WireError> {
        Ok(InputPeer {
            address: required("InputPeer.address", peer.address)?,
            hostname: host("InputPeer.hostname", peer.hostname.unwrap_or_default())?,
            busy_answers: count("InputPeer.busyAnswers", peer.busy_answers)?,
        })
    }
}

impl From<InputPeer> for wire::InputPeer {
    fn from(peer: InputPeer) -> Self {
        wire::InputPeer {
            address: Some(peer.address.into()),
            hostname: Some(peer.hostname.to_string()),
            busy_answers: Some(saturating_i32(peer.busy_answers)),
        }
    }
}

impl TryFrom<wire::WaitingRun> for WaitingRun {
    type Error = WireError;

    fn try_from(run: wire::WaitingRun) -> Result<Self, WireError> {
        Ok(WaitingRun {
            task: TaskKey {
                job: parse_name("WaitingRun.job", run.job.unwrap_or_default())?,
                node: parse_name("WaitingRun.node", run.node.unwrap_or_default())?,
            },
            invocation: required("WaitingRun.invocation", run.invocation)?,
            artifacts: count("WaitingRun.artifacts", run.artifacts)?,
            present: count("WaitingRun.present", run.present)?,
            missing_bytes: bytes("WaitingRun.missingBytes", run.missing_bytes)?,
            peers: parse_list("WaitingRun.peers", run.peers.unwrap_or_default())?,
        })
    }
}

impl From<WaitingRun> for wire::WaitingRun {
    fn from(run: WaitingRun) -> Self {
        wire::WaitingRun {
            job: Some(run.task.job.into()),
            node: Some(run.task.node.into()),
            invocation: Some(run.invocation.into()),
            artifacts: Some(saturating_i32(run.artifacts)),
            present: Some(saturating_i32(run.present)),
            missing_bytes: Some(saturating_i64(run.missing_bytes)),
            peers: Some(to_wire_list(run.peers)),
        }
    }
}

impl TryFrom<wire::ArtifactCounters> for ArtifactCounters {
    type Error = WireError;

    fn try_from(counters: wire::ArtifactCounters) -> Result<Self, WireError> {
        Ok(ArtifactCounters {
            transfers_taken: bytes("ArtifactCounters.transfersTaken", counters.transfers_taken)?,
            transfers_served: bytes(
                "ArtifactCounters.transfersServed",
                counters.transfers_served,
            )?,
            bytes_taken: bytes("ArtifactCounters.bytesTaken", counters.bytes_taken)?,
            bytes_served: bytes("ArtifactCounters.bytesServed", counters.bytes_served)?,
            busy_given: bytes("ArtifactCounters.busyGiven", counters.busy_given)?,
            busy_received: bytes("ArtifactCounters.busyReceived", counters.busy_received)?,
            inputs_present: bytes("ArtifactCounters.inputsPresent", counters.inputs_present)?,
            transfers_failed: bytes(
                "ArtifactCounters.transfersFailed",
                counters.transfers_failed,
            )?,
        })
    }
}

impl From<ArtifactCounters> for wire::ArtifactCounters {
    fn from(counters: ArtifactCounters) -> Self {
        wire::ArtifactCounters {
            transfers_taken: Some(saturating_i64(counters.transfers_taken)),
            transfers_served: Some(saturating_i64(counters.transfers_served)),
            bytes_taken: Some(saturating_i64(counters.bytes_taken)),
            bytes_served: Some(saturating_i64(counters.bytes_served)),
            busy_given: Some(saturating_i64(counters.busy_given)),
            busy_received: Some(saturating_i64(counters.busy_received)),
            inputs_present: Some(saturating_i64(counters.inputs_present)),
            transfers_failed: Some(saturating_i64(counters.transfers_failed)),
        }
    }
}

impl TryFrom<wire::ArtifactsReport> for ArtifactsReport {
    type Error = WireError;

    fn try_from(report: wire::ArtifactsReport) -> Result<Self, WireError> {
        let stored = report.stored.unwrap_or_default();
        let stored: Vec<StoredCopy> = parse_list("ArtifactsReport.stored", stored)?;
        let wanted = report.wanted.unwrap_or_default().into_iter();
        let wanted = wanted.map(|bytes| id("ArtifactsReport.wanted", bytes));
        Ok(ArtifactsReport {
            shard: parse_name("ArtifactsReport.shard", report.shard.unwrap_or_default())?,
            worker: required("ArtifactsReport.worker", report.worker)?,
            namespace: report
                .cluster
                .map(|text| namespace("ArtifactsReport.cluster", &text))
                .transpose()?,
            rack: report
                .rack
                .map(|name| rack("ArtifactsReport.rack", name))
                .transpose()?,
            disks: parse_list("ArtifactsReport.disks", report.disks.unwrap_or_default())?,
            stored: stored.into_iter().map(|copy| (copy.0, copy.1)).collect(),
            gone: parse_list("ArtifactsReport.gone", report.gone.unwrap_or_default())?,
            listings: parse_list(
                "ArtifactsReport.listings",
                report.listings.unwrap_or_default(),
            )?,
            wanted: wanted.collect::<Result<_, _>>()?,
            waiting: parse_list(
                "ArtifactsReport.waiting",
                report.waiting.unwrap_or_default(),
            )?,
            counters: optional("ArtifactsReport.counters", report.counters)?,
        })
    }
}

impl From<ArtifactsReport> for wire::ArtifactsReport {
    fn from(report: ArtifactsReport) -> Self {
        let stored = report.stored.into_iter();
        let stored = stored.map(|(copy, size)| StoredCopy(copy, size).into());
        wire::ArtifactsReport {
            shard: Some(report.shard.into()),
            worker: Some(report.worker.into()),
            cluster: report
                .namespace
                .map(|namespace| namespace.as_str().to_owned()),
            rack: report.rack.map(|rack| rack.to_string()),
            disks: Some(to_wire_list(report.disks)),
            stored: Some(stored.collect()),
            gone: Some(to_wire_list(report.gone)),
            listings: Some(to_wire_list(report.listings)),
            wanted: Some(report.wanted.into_iter().map(|id| id.0.to_vec()).collect()),
            waiting: unless_empty(to_wire_list(report.waiting)),
            counters: report.counters.map(Into::into),
        }
    }
}

/// Leaves out an empty list, as programs without the field do.
fn unless_empty<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

impl TryFrom<wire::ArtifactsAnswer> for ArtifactsAnswer {
    type Error = WireError;

    fn try_from(answer: wire::ArtifactsAnswer) -> Result<Self, WireError> {
        let holders = answer.holders.unwrap_or_default();
        let holders: Vec<ArtifactHolder> = parse_list("ArtifactsAnswer.holders", holders)?;
        let holders_at = |path: &str, places: Option<Vec<i32>>| {
            let places = places.unwrap_or_default().into_iter();
            places
                .map(|number| Ok(holders[position(path, number, holders.len())?].clone()))
                .collect::<Result<Vec<_>, WireError>>()
        };
        let wanted = answer.wanted.unwrap_or_default().into_iter().map(|one| {
            let id = id("ArtifactsAnswer.wanted.id", one.id.unwrap_or_default())?;
            let of = holders_at("ArtifactsAnswer.wanted.holders", one.holders)?;
            Ok((id, of))
        });
        let replicate = answer.replicate.unwrap_or_default().into_iter().map(|one| {
            let artifact = required("ArtifactsAnswer.replicate.artifact", one.artifact)?;
            let of = holders_at("ArtifactsAnswer.replicate.holders", one.holders)?;
            Ok((artifact, of))
        });
        let replicate = replicate.collect::<Result<Vec<(Artifact, _)>, WireError>>()?;
        let wanted = wanted.collect::<Result<_, WireError>>()?;
        let lost = answer.lost.unwrap_or_default().into_iter();
        let lost = lost.map(|lost| id("ArtifactsAnswer.lost", lost));
        Ok(ArtifactsAnswer {
            namespace: namespace(
                "ArtifactsAnswer.cluster",
                &answer.cluster.unwrap_or_default(),
            )?,
            listings: parse_list(
                "ArtifactsAnswer.listings",
                answer.listings.unwrap_or_default(),
            )?,
            unwanted: parse_list(
                "ArtifactsAnswer.unwanted",
                answer.unwanted.unwrap_or_default(),
            )?,
            wanted,
            replicate,
            lost: lost.collect::<Result<_, WireError>>()?,
        })
    }
}

impl From<ArtifactsAnswer> for wire::ArtifactsAnswer {
    /// Writes each holder once: a thousand artifacts often have the same few.
    fn from(answer: ArtifactsAnswer) -> Self {
        let mut places: BTreeMap<ArtifactHolder, i32> = BTreeMap::new();
        let mut holders: Vec<wire_common::ArtifactHolder> = Vec::new();
        let mut places_of = |of: Vec<ArtifactHolder>| {
            let place_of = |holder: ArtifactHolder| {
                let next = saturating_i32(holders.len());
                let place = *places.entry(holder.clone()).or_insert(next);
                if place == next {
                    holders.push(holder.into());
                }
                place
            };
            Some(of.into_iter().map(place_of).collect())
        };
        let wanted = answer.wanted.into_iter();
        let wanted = wanted.map(|(id, of)| wire::ArtifactHolders {
            id: Some(id.0.to_vec()),
            holders: places_of(of),
        });
        let wanted = wanted.collect();
        let replicate = answer.replicate.into_iter();
        let replicate = replicate.map(|(artifact, of)| wire::ArtifactReplica {
            artifact: Some(artifact.into()),
            holders: places_of(of),
        });
        let replicate = unless_empty(replicate.collect());
        let lost = answer.lost.iter().map(|id| id.0.to_vec());
        let lost = unless_empty(lost.collect());
        wire::ArtifactsAnswer {
            cluster: Some(answer.namespace.as_str().to_owned()),
            listings: Some(to_wire_list(answer.listings)),
            unwanted: Some(to_wire_list(answer.unwanted)),
            wanted: Some(wanted),
            holders: Some(holders),
            replicate,
            lost,
        }
    }
}
