//! The command-line flags for work fetch, and their conversion to options of the core.

use std::time::Duration;

use brasserie_common::time::parse_duration;
use brasserie_worker_core::{Preemption, Profile, WorkFetch};
use clap::{Args, ValueEnum};

/// The longest accepted work buffer or half-life.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);

/// The way in which a worker gets its work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum WorkFetchProfile {
    /// The scheduler sends tasks up to the worker's slots, and short ones ahead of them; the worker requests nothing.
    #[default]
    Off,
    /// The worker requests the work that it needs, with the waits of a cluster: seconds to a minute.
    Cluster,
    /// The same with the waits for machines that volunteers lend: minutes to a day.
    Volunteer,
}

/// Whether running tasks stop for more important ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PreemptTasks {
    /// A task that has started runs to its end.
    #[default]
    Off,
    /// Tasks are stopped and continue later. Their memory stays taken, and tasks with GPUs are never stopped. A task without control
    /// groups is stopped by its process group: a process that has left the group runs on.
    Suspend,
}

/// The flags as they are on the command line.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(next_help_heading = "Work fetch")]
pub struct WorkFetchFlags {
    /// Whether this worker requests its work. With `off` the scheduler sends tasks by its slots for workers. With the others this worker
    /// requests enough work to keep its processors busy and queues tasks of jobs with `bufferable`. `brasserie worker work-fetch` shows
    /// its decisions.
    #[arg(long, value_name = "PROFILE", value_enum, default_value_t = WorkFetchProfile::Off)]
    pub work_fetch: WorkFetchProfile,

    /// Request work when the processors have less than this left to do [default: 10s; of volunteers: 144m]
    #[arg(long, value_name = "DURATION", value_parser = parse_span)]
    pub work_buffer_min: Option<Duration>,

    /// Request this much more than --work-buffer-min [default: 20s; of volunteers: 12h]
    #[arg(long, value_name = "DURATION", value_parser = parse_span)]
    pub work_buffer_additional: Option<Duration>,

    /// Half-life of past work, when the worker computes which of several schedulers is next [default: 1h; of volunteers: 10d]
    #[arg(long, value_name = "DURATION", value_parser = parse_half_life)]
    pub rec_half_life: Option<Duration>,

    /// The weight of a GPU, in CPUs, in the computation of the work that each scheduler got.
    #[arg(long, value_name = "CPUS", default_value = "10", value_parser = parse_weight)]
    pub card_weight: f64,

    /// Whether running tasks are stopped for tasks with near deadlines, or for another scheduler's turn.
    #[arg(long, value_name = "WAY", value_enum, default_value_t = PreemptTasks::Off)]
    pub preempt: PreemptTasks,
}

impl Default for WorkFetchFlags {
    /// Returns the values that apply without any flag.
    fn default() -> Self {
        WorkFetchFlags {
            work_fetch: WorkFetchProfile::Off,
            work_buffer_min: None,
            work_buffer_additional: None,
            rec_half_life: None,
            card_weight: WorkFetch::new(Profile::CLUSTER, 0).card_weight,
            preempt: PreemptTasks::Off,
        }
    }
}

impl WorkFetchFlags {
    /// Returns the flags that were given and have no effect, because the worker does not fetch work.
    pub(crate) fn without_effect(&self) -> Vec<&'static str> {
        let usual = WorkFetchFlags::default();
        let given = [
            ("--work-buffer-min", self.work_buffer_min.is_some()),
            (
                "--work-buffer-additional",
                self.work_buffer_additional.is_some(),
            ),
            ("--rec-half-life", self.rec_half_life.is_some()),
            ("--card-weight", self.card_weight != usual.card_weight),
            ("--preempt", self.preempt != usual.preempt),
        ];
        let is_off = self.work_fetch == WorkFetchProfile::Off;
        let given = given.into_iter().filter(|(_, given)| is_off && *given);
        given.map(|(flag, _)| flag).collect()
    }

    /// Returns the core's options, or `None` if the worker does not fetch work. `seed` is the seed of the core's random numbers.
    pub(crate) fn for_core(&self, seed: u64) -> Option<WorkFetch> {
        let profile = match self.work_fetch {
            WorkFetchProfile::Off => return None,
            WorkFetchProfile::Cluster => Profile::CLUSTER,
            WorkFetchProfile::Volunteer => Profile::VOLUNTEER,
        };
        let or = |given: Option<Duration>, usual| given.map_or(usual, |d| d.as_secs_f64());
        let profile = Profile {
            work_buffer_min: or(self.work_buffer_min, profile.work_buffer_min),
            work_buffer_additional: or(self.work_buffer_additional, profile.work_buffer_additional),
            rec_half_life: or(self.rec_half_life, profile.rec_half_life),
            ..profile
        };
        Some(WorkFetch {
            card_weight: self.card_weight,
            preemption: match self.preempt {
                PreemptTasks::Off => Preemption::Off,
                PreemptTasks::Suspend => Preemption::Suspend,
            },
            ..WorkFetch::new(profile, seed)
        })
    }
}

fn parse_span(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Ok(span) if span > LONGEST => Err("at most 3650d are allowed".to_owned()),
        Ok(span) => Ok(span),
        Err(error) => Err(error.to_string()),
    }
}

fn parse_half_life(text: &str) -> Result<Duration, String> {
    match parse_span(text)? {
        span if span.is_zero() => Err("it must be above 0".to_owned()),
        span => Ok(span),
    }
}

fn parse_weight(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(weight) if weight > 0.0 && weight <= 1e6 => Ok(weight),
        Ok(_) | Err(_) => Err("it must be a number above 0, and at most a million".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        flags: WorkFetchFlags,
    }

    fn flags(line: &[&str]) -> Result<WorkFetchFlags, String> {
        let line = ["worker"].iter().chain(line);
        let read = <Line as clap::Parser>::try_parse_from(line);
        read.map(|line| line.flags)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn no_flag_is_no_work_fetch() {
        assert_eq!(flags(&[]).expect("usable").for_core(1), None);
    }

    #[test]
    fn what_has_no_effect_is_named() {
        let line = ["--preempt", "suspend", "--work-buffer-min", "5s"];
        let without = |line: &[&str]| flags(line).expect("usable").without_effect();
        assert_eq!(without(&line), ["--work-buffer-min", "--preempt"]);
        assert_eq!(
            without(&["--rec-half-life", "5s", "--card-weight", "3"]),
            ["--rec-half-life", "--card-weight"]
        );
        assert_eq!(without(&[]), [""; 0]);
        let line = [&line[..], &["--work-fetch", "cluster"]].concat();
        assert_eq!(without(&line), [""; 0]);
    }

    #[test]
    fn a_profile_is_changed_where_it_is_said() {
        let cluster = flags(&["--work-fetch", "cluster"]).expect("usable");
        assert_eq!(
            cluster.for_core(1),
            Some(WorkFetch::new(Profile::CLUSTER, 1))
        );
        let other = [
            "--work-fetch",
            "volunteer",
            "--work-buffer-min",
            "1m",
            "--work-buffer-additional",
            "0s",
            "--rec-half-life",
            "20s",
            "--card-weight",
            "2.5",
            "--preempt",
            "suspend",
        ];
        let other = flags(&other).expect("usable").for_core(2).expect("on");
        assert_eq!(other.card_weight, 2.5);
        assert_eq!(other.preemption, Preemption::Suspend);
        let profile = Profile {
            work_buffer_min: 60.0,
            work_buffer_additional: 0.0,
            rec_half_life: 20.0,
            ..Profile::VOLUNTEER
        };
        assert_eq!(other.profile, profile);
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (flag, value, said) in [
            (
                "--work-fetch",
                "on",
                "possible values: off, cluster, volunteer",
            ),
            ("--work-buffer-min", "4000d", "at most 3650d"),
            ("--rec-half-life", "0s", "above 0"),
            ("--card-weight", "0", "above 0"),
            ("--card-weight", "nan", "above 0"),
            ("--preempt", "kill", "possible values: off, suspend"),
        ] {
            let refused = flags(&[flag, value]).expect_err("refused");
            assert!(refused.contains(said), "{flag} {value}: {refused}");
        }
    }
}
