//! Views of a worker's newest work request, and why a task is not sent for it, for people.

use std::fmt;
use std::time::Duration;

use brasserie_common::time::format_duration;
use brasserie_common::{Processor, Time, WorkRequestSeq};

use super::{Apps, CreditRequest, Credits, OfType, PlacementResult, TaskClass, TypeDemand};

/// The newest request of a worker in its present state. Displays as a clause that follows the worker's name.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestView {
    pub seq: WorkRequestSeq,
    /// The time since the request came.
    pub age: Duration,
    /// The time for which the request stays valid unless another comes. `None`: it is over.
    pub left: Option<Duration>,
    pub of_types: Vec<RequestedType>,
}

/// The amounts left for one type of processors.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestedType {
    pub processor: Processor,
    pub instances: f64,
    pub instance_secs: f64,
    pub idle: f64,
    /// The tasks that were sent for the request.
    pub sent: u32,
    /// The ready tasks for such processors, whether or not the worker has free slots. `late` of them would miss their deadlines there.
    pub ready: u64,
    pub late: u64,
}

/// The reason for which a task is not sent to a pull worker. Displays as a clause that follows the worker's name.
#[derive(Clone, Debug, PartialEq)]
pub struct NotSent {
    /// The time since the newest request. `None`: the worker announces requests, and has sent none yet.
    age: Option<Duration>,
    processor: Processor,
    why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    NotYet,
    /// The request is over, even if the next one will come soon.
    Over(TaskClass),
    /// The request does not mention the type.
    OtherTypes,
    NotWanted,
    Coming,
    AllSent(u32),
    /// The task may not be queued, and no instance is idle for it.
    NoneIdle,
    MostTasks,
}

impl Credits {
    /// Returns the state of the newest request; `None`: the worker never sent one. `found` is the work available for it.
    pub fn asked(
        &self,
        now: Time,
        mut found: impl FnMut(&Processor) -> PlacementResult,
    ) -> Option<RequestView> {
        let newest = self.newest.as_ref()?;
        let until = newest.good_until().filter(|_| newest.is_good(now));
        let is_good = until.is_some();
        let of_type = |of: &OfType| {
            let found = found(&of.processor);
            let left = |amount: f64| match is_good && newest.tasks_left > 0 {
                true => amount.max(0.0),
                false => 0.0,
            };
            RequestedType {
                processor: of.processor.clone(),
                instances: left(of.amounts.instances),
                instance_secs: left(of.amounts.secs),
                idle: left(of.amounts.idle),
                sent: of.granted,
                ready: found.candidates,
                late: found.late,
            }
        };
        Some(RequestView {
            seq: newest.seq,
            age: newest.age(now),
            left: until.map(|until| until.since(now)),
            of_types: newest.types.iter().map(of_type).collect(),
        })
    }

    /// Returns why no such task is sent there. `None`: one may be sent, or there was no request.
    pub fn why_not_sent(
        &self,
        now: Time,
        processor: &Processor,
        class: TaskClass,
    ) -> Option<NotSent> {
        let why = match &self.newest {
            Some(newest) => newest.why_not_sent(now, processor, class)?,
            None if self.are_used() => Why::NotYet,
            None => return None,
        };
        Some(NotSent {
            age: self.newest.as_ref().map(|newest| newest.age(now)),
            processor: processor.clone(),
            why,
        })
    }
}

impl CreditRequest {
    fn why_not_sent(&self, now: Time, processor: &Processor, class: TaskClass) -> Option<Why> {
        let Some(of_type) = self.of(processor) else {
            return Some(Why::OtherTypes);
        };
        if !self.is_good(now) {
            return Some(Why::Over(class));
        }
        if of_type.amounts.are_left_for(class) {
            return (self.tasks_left == 0).then_some(Why::MostTasks);
        }
        Some(match (of_type.wanted, class) {
            (TypeDemand::Nothing, _) => Why::NotWanted,
            (TypeDemand::Coming, _) => Why::Coming,
            (TypeDemand::Something, TaskClass::Bufferable) => Why::AllSent(of_type.granted),
            (TypeDemand::Something, TaskClass::Immediate) => Why::NoneIdle,
        })
    }
}

/// Rounds a time for people: milliseconds below ten seconds, whole seconds above.
fn shown(span: Duration) -> String {
    let precise = span < Duration::from_secs(10);
    let millis = Duration::from_millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
    let seconds = Duration::from_secs(span.as_secs());
    format_duration(if precise { millis } else { seconds })
}

/// Formats a number with one decimal, unless that is 0.
fn amount(of: f64) -> String {
    let text = format!("{of:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

fn noun(instances: f64) -> &'static str {
    match amount(instances).as_str() {
        "1" => "instance",
        _ => "instances",
    }
}

impl fmt::Display for RequestView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "asked for work {} ago", shown(self.age))?;
        match self.left {
            Some(left) => write!(f, ", and gets for {} more: ", shown(left))?,
            None => f.write_str(", which is over: ")?,
        }
        for (place, of_type) in self.of_types.iter().enumerate() {
            if place > 0 {
                f.write_str("; ")?;
            }
            of_type.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for RequestedType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.processor)?;
        let waits = self.instances > 0.0 || self.instance_secs > 0.0;
        match (waits, self.idle > 0.0) {
            (false, false) => f.write_str("nothing")?,
            (true, idle) => {
                let (secs, instances) = (amount(self.instance_secs), amount(self.instances));
                write!(
                    f,
                    "{secs} s of work, or for {instances} {}",
                    noun(self.instances)
                )?;
                if idle {
                    write!(f, ", {} idle", amount(self.idle))?;
                }
            }
            (false, true) => {
                write!(f, "work for {} idle {}", amount(self.idle), noun(self.idle))?;
            }
        }
        write!(f, " ({} sent, {} ready", self.sent, self.ready)?;
        match self.late {
            0 => f.write_str(")"),
            late => write!(f, ", {late} would be late)"),
        }
    }
}

impl fmt::Display for NotSent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NotSent {
            age,
            processor,
            why,
        } = self;
        if let Some(age) = age {
            write!(f, "asked for work {} ago, and ", shown(*age))?;
        }
        match why {
            Why::NotYet => f.write_str("asks for the work that it wants, and has not yet"),
            Why::Over(TaskClass::Bufferable) => {
                f.write_str("that is over: it asks again when it needs more")
            }
            Why::Over(TaskClass::Immediate) => write!(
                f,
                "that is over: this task may not wait there (`bufferable`), and is sent when it asks for an idle {processor}"
            ),
            Why::OtherTypes => {
                write!(f, "not for {processor}: it does not ask for that type")
            }
            Why::NotWanted => write!(f, "wanted none for {processor}: it has enough"),
            Why::Coming => write!(f, "what it wanted for {processor} is on its way"),
            Why::AllSent(0) => write!(f, "has all that it wanted for {processor}"),
            Why::AllSent(1) => write!(f, "was sent 1 task, all that it wanted for {processor}"),
            Why::AllSent(tasks) => {
                write!(
                    f,
                    "was sent {tasks} tasks, all that it wanted for {processor}"
                )
            }
            Why::NoneIdle => write!(
                f,
                "has no idle {processor} for this task, which may not wait there (`bufferable`)"
            ),
            Why::MostTasks => f.write_str("was sent as many tasks as a request may bring"),
        }
    }
}

impl PlacementResult {
    /// The result for a type that no job uses.
    pub const NOTHING: PlacementResult = PlacementResult {
        candidates: 0,
        late: 0,
        apps: Apps::None,
    };
}
