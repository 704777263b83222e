//! The flags that say how a worker fetches work, and what they become.

use std::time::Duration;

use brasserie_common::time::parse_duration;
use brasserie_worker_core::WorkFetch;
use brasserie_worker_core::work_fetch::{Preemption, Profile};
use clap::{Args, ValueEnum};

/// No buffer and no half-life is meant to be longer.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);

/// How a worker gets its work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum WorkFetchProfile {
    /// It takes what it is sent: as many tasks as there are slots.
    #[default]
    Off,
    /// It asks for as much as it needs, with the waits of a cluster: seconds to a minute.
    Cluster,
    /// The same with the waits of machines that volunteers lend: minutes to a day.
    Volunteer,
}

/// Whether tasks that run stop for more important ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PreemptTasks {
    /// What began runs to its end.
    #[default]
    Off,
    /// They are stopped and go on later; their memory stays taken, and tasks with cards are never stopped. Of a task without control
    /// groups only the process group stops: what has left it runs on.
    Suspend,
}

/// As they are on the command line.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(next_help_heading = "Work fetch")]
pub struct WorkFetchFlags {
    /// Who decides how much work is here: with `off` the scheduler, by its slots for workers; else this worker, which asks for as much as
    /// keeps its processors busy, lets tasks of jobs with `bufferable` wait, and says what it does in `brasserie worker work-fetch`.
    #[arg(long, value_name = "PROFILE", value_enum, default_value_t = WorkFetchProfile::Off)]
    pub work_fetch: WorkFetchProfile,

    /// Work is asked for when there is less than this left for the processors [default: 10s; of volunteers: 144m]
    #[arg(long, value_name = "DURATION", value_parser = parse_span)]
    pub work_buffer_min: Option<Duration>,

    /// ... and then up to this more [default: 20s; of volunteers: 12h]
    #[arg(long, value_name = "DURATION", value_parser = parse_span)]
    pub work_buffer_additional: Option<Duration>,

    /// With several schedulers: what one of them got counts half after this time, when it is reckoned whose turn it is
    /// [default: 1h; of volunteers: 10d]
    #[arg(long, value_name = "DURATION", value_parser = parse_half_life)]
    pub rec_half_life: Option<Duration>,

    /// What a graphics card is worth beside a CPU when it is reckoned what each scheduler got.
    #[arg(long, value_name = "CPUS", default_value = "10", value_parser = parse_weight)]
    pub card_weight: f64,

    /// Whether tasks that run are stopped for such with near deadlines, or for another scheduler's turn.
    #[arg(long, value_name = "WAY", value_enum, default_value_t = PreemptTasks::Off)]
    pub preempt: PreemptTasks,
}

impl Default for WorkFetchFlags {
    /// As without any flag.
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
    /// Flags that were given and say nothing, as the worker does not fetch work.
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

    /// What the core is told; `seed`: of its random numbers.
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
