//! Law `bindings_go_forward`: A worker is never bound back to an earlier scheduler instance, and never set free.
//!
//! Source: thrift/PROTOCOL.md, R13 and R14. An old instance that takes a worker back starts tasks that the new one has already started.

use std::collections::BTreeMap;

use brasserie_common::{SchedulerId, Time, WorkerId};

use super::{Law, Violation};
use crate::event_log::Happening;
use crate::view::World;

const NAME: &str = "bindings_go_forward";

#[derive(Default)]
pub struct BindingsGoForward {
    newest: BTreeMap<WorkerId, SchedulerId>,
}

impl Law for BindingsGoForward {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A worker is never bound back to an earlier scheduler instance, and never set free."
    }

    fn observe(
        &mut self,
        _when: Time,
        happening: &Happening,
        _world: &World<'_>,
    ) -> Result<(), Violation> {
        match *happening {
            Happening::WorkerBound { worker, to, .. } => {
                let before = self.newest.get(&worker).copied();
                if to < before {
                    let name = |id: Option<SchedulerId>| {
                        id.map_or("nobody".to_owned(), |id| id.to_string())
                    };
                    return Err(Violation::new(
                        NAME,
                        format_args!(
                            "worker {worker} goes back from scheduler {} to {}",
                            name(before),
                            name(to)
                        ),
                    ));
                }
                if let Some(to) = to {
                    self.newest.insert(worker, to);
                }
            }
            Happening::WorkerStopped { worker, .. } => {
                self.newest.remove(&worker);
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
    #[test]
    fn forward_only() {
        let mut trial = Trial::of(BindingsGoForward::default());
        trial.sees(bound(1, 1)).sees(bound(1, 3)).sees(bound(2, 1));
        trial.breaks(bound(1, 2), "goes back");
    }
}
