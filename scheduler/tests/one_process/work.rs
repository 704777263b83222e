//! Tests work requests over real Thrift, by a separate call and with a heartbeat.

use brasserie_common::{
    MachinePortLock, Processor, SchedulerId, ServiceAddress, Shard, WorkDemand, WorkReply,
    WorkRequest, WorkRequestSeq, WorkVerdict, WorkerDescription, WorkerId, WorkerSetId,
};
use brasserie_thrift::convert;
use brasserie_thrift::generated::common::{BistroWorker, WorkRequest as WireRequest};
use brasserie_thrift::generated::scheduler::{
    BistroSchedulerProcessHeartbeatArgs, BistroSchedulerProcessHeartbeatResult,
    BistroSchedulerRequestWorkArgs, BistroSchedulerRequestWorkResult,
};

use crate::{Client, Place};

const WORKER: WorkerId = WorkerId(brasserie_common::InstanceId {
    start_time: 1_700_000_000,
    rand: 5,
});

fn request(seq: u64) -> WorkRequest {
    let cpus = WorkDemand {
        instance_secs: 60.0,
        instances: 2.0,
        idle: 2.0,
        ..WorkDemand::none(Processor::Cpu, 4.0)
    };
    let cards = WorkDemand::none(Processor::named("H100"), 1.0);
    WorkRequest {
        worker: WORKER,
        scheduler: SchedulerId::default(),
        seq: WorkRequestSeq(seq),
        demands: vec![cpus, cards],
        known: Some(Vec::new()),
        linger: std::time::Duration::from_secs(120),
        low_water: 10.0,
        cards: Default::default(),
    }
}

/// Returns the reply to a request that came too early and was not served.
fn put_off(seq: u64) -> WorkReply {
    WorkReply {
        seq: WorkRequestSeq(seq),
        verdicts: vec![(Processor::Cpu, WorkVerdict::Deferred)],
        request_delay: std::time::Duration::from_secs(1),
        no_apps: Vec::new(),
        next_contact: None,
    }
}

#[tokio::test]
async fn a_wish_of_a_stranger_or_without_sense_is_refused() {
    let place = Place::new();
    let scheduler = place.start().await;
    let client = Client::of(&scheduler);
    let args = BistroSchedulerRequestWorkArgs {
        request: request(7).into(),
    };
    let text = client
        .refusal::<_, BistroSchedulerRequestWorkResult>("requestWork", &args)
        .await;
    assert!(text.contains("but this is"), "{text}");
    let args = BistroSchedulerRequestWorkArgs {
        request: WireRequest {
            seq: Some(-1),
            ..args.request
        },
    };
    let text = client
        .refusal::<_, BistroSchedulerRequestWorkResult>("requestWork", &args)
        .await;
    assert!(
        text.contains("requestWork.request.seq: -1 is not"),
        "{text}"
    );
    scheduler.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_wish_of_a_new_worker_is_put_off_and_a_senseless_one_loses_no_heartbeat() {
    let place = Place::new();
    let scheduler = place.start().await;
    let client = Client::of(&scheduler);
    let description = WorkerDescription {
        shard: Shard::try_from("w").unwrap(),
        machine_lock: MachinePortLock {
            hostname: "localhost".into(),
            port: 1,
        },
        // Nothing listens on this port.
        address: ServiceAddress {
            host: "127.0.0.1".into(),
            port: 9,
        },
        id: WORKER,
        heartbeat_period: std::time::Duration::from_secs(1),
        protocol_version: brasserie_common::worker::PROTOCOL_VERSION,
        ..WorkerDescription::default()
    };
    let sound = |scheduler| WorkRequest {
        scheduler,
        ..request(3)
    };
    let senseless = |scheduler| WireRequest {
        worker: None,
        ..sound(scheduler).into()
    };
    let mut known = SchedulerId::default();
    for (row, expected) in [None, None, Some(3), Some(3)].into_iter().enumerate() {
        let work_request = match row {
            1 => Some(senseless(known)),
            2 => Some(sound(known).into()),
            _ => None,
        };
        let args = BistroSchedulerProcessHeartbeatArgs {
            w: BistroWorker {
                work_request,
                ..description.clone().into()
            },
            worker_set_id: WorkerSetId::default().into(),
        };
        let result: BistroSchedulerProcessHeartbeatResult =
            client.call("processHeartbeat", &args).await;
        let response = result.result_value.unwrap();
        assert_eq!(response.worker_state, Some(0), "it is there, and NEW");
        let reply = response.work_verdict;
        let reply = reply.map(|reply| convert::parse("reply", reply).unwrap());
        assert_eq!(reply, expected.map(put_off), "row {row}");
        known = convert::parse("scheduler", response.id.unwrap()).unwrap();
    }
    // A repeated request by a separate call counts as the same request. A later request gets the same answer as long as the worker is NEW.
    for seq in [3, 4] {
        let request = WorkRequest {
            scheduler: known,
            ..request(seq)
        };
        let args = BistroSchedulerRequestWorkArgs {
            request: request.into(),
        };
        let result: BistroSchedulerRequestWorkResult = client.call("requestWork", &args).await;
        let reply: WorkReply = convert::parse("reply", result.result_value.unwrap()).unwrap();
        assert_eq!(reply, put_off(seq));
    }
    scheduler.shutdown().await.unwrap();
}
