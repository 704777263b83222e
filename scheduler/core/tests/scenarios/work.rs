//! Work requests and their replies.

use std::fmt::Write as _;

use brasserie_common::{
    KnownTask, Principal, Processor, WorkDemand, WorkReply, WorkRequest, WorkRequestSeq, WorkTerms,
};
use brasserie_scheduler_core::Event;

use crate::transcript::{Words, show_duration};
use crate::world::{Asked, World};

impl World {
    pub fn hear_work_request(&mut self, w: &mut Words<'_>) -> Result<(), String> {
        let worker = w.word("a worker")?;
        let mut demand = WorkDemand::none(Processor::Cpu, 1.0);
        let mut request = WorkRequest {
            worker: self.names.find_worker(worker)?,
            scheduler: self.core()?.id(),
            seq: WorkRequestSeq(0),
            demands: Vec::new(),
            known: None,
            linger: std::time::Duration::ZERO,
            low_water: 0.0,
            cards: Default::default(),
        };
        let mut rides = false;
        while let Some(word) = w.next() {
            match word {
                "seq" => request.seq = WorkRequestSeq(w.number("a number")?),
                "secs" => demand.instance_secs = w.number("seconds")?,
                "instances" => demand.instances = w.number("instances")?,
                "idle" => demand.idle = w.number("instances")?,
                "delay" => demand.estimated_delay = w.number("seconds")?,
                "linger" => request.linger = w.duration("how long")?,
                "to" => request.scheduler = self.names.find_scheduler(w.word("a scheduler")?)?,
                "rides" => rides = true,
                "knows" => {
                    let mut known = Vec::new();
                    while let Some(run) = w.next() {
                        let task = self.tasks.get(run).ok_or("no such run")?;
                        known.push(KnownTask {
                            invocation: task.invocation,
                            remaining: None,
                            deadline: None,
                        });
                    }
                    request.known = Some(known);
                }
                other => return Err(format!("`{other}` is nothing of a request")),
            }
        }
        request.demands.push(demand);
        let text = format!("request {} of {worker}", request.seq.0);
        let asked = (!rides).then(|| self.ask(Asked::Other { text }));
        self.event(Event::RequestWork {
            request: asked,
            from: Principal::Own,
            work: Box::new(request),
        })
    }
}

pub fn reply_text(reply: &WorkReply) -> String {
    let mut text = format!("request {}:", reply.seq.0);
    for (processor, verdict) in &reply.verdicts {
        let _ = write!(text, " {processor} {verdict:?}");
    }
    if !reply.request_delay.is_zero() {
        let delay = show_duration(reply.request_delay);
        let _ = write!(text, ", next not before {delay}");
    }
    text
}

/// Returns the terms of a task; empty for tasks that were sent without a work request.
pub fn terms_text(work: &WorkTerms) -> String {
    let mut text = String::new();
    if let Some(seq) = work.request {
        let _ = write!(text, ", for request {}", seq.0);
    }
    if work.bufferable {
        text.push_str(", may wait");
    }
    text
}
