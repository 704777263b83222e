//! The supervisor's looks at orphans: when, and what waits for their death.

use std::sync::Arc;
use std::time::Instant;

use nix::sys::signal::Signal;

use super::Supervisor;
use super::ends::LINGER;
use crate::process::ProcessExit;
use crate::process::events::Event;
use crate::process::runner::TaskNumber;
use crate::process::strays::{Found, LOOK, Orphans, ROUND};
use crate::process::task::Stage;

impl Supervisor {
    /// At this time at the latest.
    pub(super) fn look_again(&mut self, at: Instant) {
        if self.config.orphans == Orphans::Adopt {
            let sooner = self.look_at.map_or(at, |due| due.min(at));
            self.look_at = Some(sooner);
        }
    }

    pub(super) fn look_around(&mut self, now: Instant) {
        self.look_at = None;
        let found = self.strays.look(&self.tasks, None, self.inbox.next());
        match found {
            Found::Killed => self.look_again(now + ROUND),
            Found::Tolerated => self.look_again(now + LOOK),
            Found::Nothing if self.tasks.is_empty() => {}
            Found::Nothing => self.look_again(now + LOOK),
        }
        for number in std::mem::take(&mut self.held) {
            self.finish_if_over(number);
        }
    }

    /// Whether the end of a task that is over has to wait: something that it left behind is still dying.
    pub(super) fn held_by_strays(&mut self, number: TaskNumber) -> bool {
        if self.config.orphans == Orphans::Leave {
            return false;
        }
        let found = self
            .strays
            .look(&self.tasks, Some(number), self.inbox.next());
        let now = Instant::now();
        if found == Found::Killed {
            self.look_again(now + ROUND);
        }
        let left = self.strays.of(number);
        let Some(task) = self.tasks.get_mut(&number).filter(|_| left > 0) else {
            return false;
        };
        // The rest of its group first: it must not start others meanwhile.
        task.signal_group(Signal::SIGKILL);
        let is_first = task.held_until.is_none();
        let until = *task.held_until.get_or_insert(now + LINGER);
        let stage = std::mem::replace(&mut task.stage, Stage::Swept);
        let exit = task.exit_of_zombie().unwrap_or(ProcessExit::Unknown);
        let (key, tag) = (Arc::clone(&task.key), task.tag.clone());
        if stage == Stage::Running {
            let message = exit.to_string();
            self.log(&key, &tag, Event::ProcessExited { message: &message });
        }
        let goes_on = now < until;
        if is_first || !goes_on {
            let message = match goes_on {
                true => {
                    format!("{left} of its processes had left its process group; they are killed")
                }
                false => format!("{left} processes that it left behind do not die"),
            };
            self.log(&key, &tag, Event::StraysKilled { message: &message });
        }
        if goes_on {
            self.held.push(number);
        }
        goes_on
    }
}
