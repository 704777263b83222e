//! Law `granted_was_sent`: Who tells a worker that so many tasks were sent for its request has sent as many for it, and they count as
//! running.
//!
//! Source: thrift/PROTOCOL.md, Requests for work. The law `running_before_sent` checks that the tasks count as running.

use std::collections::BTreeMap;

use brasserie_common::{SchedulerId, Time, WorkRequestSeq, WorkVerdict, WorkerId};

use super::{Law, Violation};
use crate::event_log::Happening;
use crate::view::World;

const NAME: &str = "granted_was_sent";

type Asked = (SchedulerId, WorkerId, WorkRequestSeq);

#[derive(Default)]
pub struct GrantedWasSent {
    sent: BTreeMap<Asked, u32>,
    /// Answers of this turn.
    told: Vec<(Asked, u32)>,
}

impl Law for GrantedWasSent {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "Who tells a worker that so many tasks were sent for its request has sent as many for it, and they count as running."
    }

    fn observe(
        &mut self,
        _when: Time,
        happening: &Happening,
        _world: &World<'_>,
    ) -> Result<(), Violation> {
        match happening {
            Happening::SentAsWork {
                scheduler,
                worker,
                run: _,
                terms,
            } => {
                if let Some(seq) = terms.request {
                    *self.sent.entry((*scheduler, *worker, seq)).or_default() += 1;
                }
            }
            Happening::WorkTold {
                scheduler,
                worker,
                seq,
                verdicts,
                ..
            } => {
                let granted = verdicts.iter().filter_map(|(_, verdict)| match verdict {
                    WorkVerdict::Granted(tasks) => Some(*tasks),
                    _ => None,
                });
                let granted = granted.reduce(|a, b| a.saturating_add(b));
                let asked = (*scheduler, *worker, *seq);
                self.told.extend(granted.map(|tasks| (asked, tasks)));
            }
            Happening::SchedulerTurn { .. } => {
                for (asked, told) in std::mem::take(&mut self.told) {
                    let sent = self.sent.get(&asked).copied().unwrap_or(0);
                    if told == 0 || told > sent {
                        let (scheduler, worker, seq) = asked;
                        let text = format_args!(
                            "scheduler {scheduler} tells worker {worker} of {told} tasks for request {}, and has sent {sent}",
                            seq.0
                        );
                        return Err(Violation::new(NAME, text));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    use brasserie_common::{Processor, WorkTerms};

    fn told(tasks: u32) -> Happening {
        Happening::WorkTold {
            place: crate::event_log::SchedulerPlace(0),
            scheduler: sid(1),
            worker: wid(1),
            seq: WorkRequestSeq(7),
            verdicts: vec![(Processor::Cpu, WorkVerdict::Granted(tasks))],
        }
    }

    fn sent_for(seq: u64) -> Happening {
        Happening::SentAsWork {
            scheduler: sid(1),
            worker: wid(1),
            run: run(1),
            terms: WorkTerms {
                request: Some(WorkRequestSeq(seq)),
                ..WorkTerms::default()
            },
        }
    }

    #[test]
    fn only_what_was_sent_for_the_request_counts() {
        let mut trial = Trial::of(GrantedWasSent::default());
        // The order of the answer and the task does not matter.
        trial.sees(told(1)).sees(sent_for(7)).sees(scheduler_turn());
        trial.sees(sent_for(6)).sees(told(2));
        trial.breaks(scheduler_turn(), "of 2 tasks for request 7, and has sent 1");
    }
}
