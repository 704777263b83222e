//! All constants of the policies, in two profiles: for a cluster, and as in BOINC.

use brasserie_common::ReportPolicy;

use super::amounts::DAY;

/// The constants of the policies. Spans are seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Bounds of the backoff after failed requests to a scheduler.
    pub rpc_backoff_min: f64,
    pub rpc_backoff_max: f64,
    /// Number of failures beyond which the exponent of that backoff no longer grows.
    pub rpc_backoff_cap: u32,
    /// Number of consecutive failures after which the scheduler's member list is read again.
    pub list_fetch_after: u32,
    /// Number of failures to read the list after which the next attempt waits for `list_fetch_interval`.
    pub list_fetch_retries: u32,
    pub list_fetch_interval: f64,
    /// Bounds of the backoff of a scheduler and a processor type for which it had nothing.
    pub pair_backoff_min: f64,
    pub pair_backoff_max: f64,
    /// Low water mark: work is fetched when less than this is at the worker ...
    pub work_buffer_min: f64,
    /// ... up to this much more.
    pub work_buffer_additional: f64,
    /// Expected time of a fetch. The low water mark is at least this.
    pub fetch_time: f64,
    /// Minimum time between two rounds of the driver, and time between two checks for work and reports without an event.
    pub driver_period: f64,
    pub fetch_period: f64,
    /// Time between two choices of the running tasks.
    pub schedule_period: f64,
    pub report: ReportPolicy,
    /// A completion is reported this many seconds before its deadline, or half of the time that was left at the completion if that is less;
    /// `report_delay` comes on top. It is reported earlier ...
    pub report_cushion: f64,
    /// ... this long after the completion, ...
    pub report_delay: f64,
    /// ... or when this many completions wait.
    pub report_at_once: usize,
    /// Half-life of the average of a scheduler's received work.
    pub rec_half_life: f64,
    /// Minimum run time of a task before another may take its place.
    pub time_slice: f64,
    pub precedence: Precedence,
    pub buffer: Buffer,
    pub first_asked: FirstAsked,
    /// A scheduler with more runnable tasks than this at the worker is asked for no more.
    pub max_runnable: usize,
    pub task_errors: TaskErrors,
    /// Time that a request lingers at a scheduler, if there is only one.
    pub linger: f64,
}

/// The order of tasks whose deadlines are in no danger, and whose time slices are over or that do not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precedence {
    /// Tasks with more CPUs first, then by the turn of their schedulers, as in BOINC. A running task with one CPU stops after its slice,
    /// and stays stopped for as long as there is work for several CPUs, even of the same scheduler.
    MoreCpus,
    /// Tasks by the turn of their schedulers. Among one scheduler's tasks, started ones come first, then those with more CPUs. No task
    /// overtakes one that has waited longer than the buffer lasts. So without deadlines a task stops only for another scheduler's task, and
    /// no task starves.
    Begun,
}

/// The rule by which schedulers fill the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// One buffer for all: the worker asks only when the whole buffer runs dry. If shares differ, the scheduler with the largest share has
    /// nothing in it for a while, and others get its share.
    Common,
    /// One part for each scheduler with a share, as far as they fit. A scheduler is also asked when its own part runs dry.
    InParts,
}

/// The rule by which the first scheduler to ask is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstAsked {
    /// The scheduler whose turn it is, as in BOINC. After a GPU task, tasks of other schedulers may take the CPU that the next GPU task
    /// needs, and the GPUs stay idle until these end.
    InTurn,
    /// Any scheduler that may have work for idle GPUs; then the scheduler whose turn it is.
    ForIdleCards,
}

/// The task errors that count as failures of their scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskErrors {
    Off,
    /// Errors that are the fault of the worker or the system.
    Infrastructure,
    Any,
}

const MINUTE: f64 = 60.0;
const HOUR: f64 = 60.0 * MINUTE;

impl Profile {
    /// The profile of workers in a managed cluster.
    pub const CLUSTER: Profile = Profile {
        rpc_backoff_min: 1.0,
        rpc_backoff_max: MINUTE,
        rpc_backoff_cap: 10,
        list_fetch_after: 10,
        list_fetch_retries: 3,
        list_fetch_interval: 5.0 * MINUTE,
        pair_backoff_min: 1.0,
        pair_backoff_max: MINUTE,
        work_buffer_min: 10.0,
        work_buffer_additional: 20.0,
        fetch_time: 2.0,
        // Schedulers limit the requests themselves. This period only keeps checks apart between which nothing can have changed.
        driver_period: 0.005,
        fetch_period: 5.0,
        schedule_period: 1.0,
        report: ReportPolicy::Immediate,
        report_cushion: DAY,
        report_delay: HOUR,
        report_at_once: 64,
        rec_half_life: HOUR,
        time_slice: 3.0,
        precedence: Precedence::Begun,
        buffer: Buffer::InParts,
        first_asked: FirstAsked::ForIdleCards,
        // This is twenty seconds of tasks that take eight milliseconds each, on eight processors.
        max_runnable: 20_000,
        task_errors: TaskErrors::Infrastructure,
        linger: 2.0 * MINUTE,
    };

    /// The profile of volunteers' machines, as in BOINC.
    pub const VOLUNTEER: Profile = Profile {
        rpc_backoff_min: MINUTE,
        rpc_backoff_max: 4.0 * HOUR,
        rpc_backoff_cap: 10,
        list_fetch_after: 10,
        list_fetch_retries: 3,
        list_fetch_interval: DAY,
        pair_backoff_min: 10.0 * MINUTE,
        pair_backoff_max: DAY,
        work_buffer_min: 0.1 * DAY,
        work_buffer_additional: 0.5 * DAY,
        fetch_time: 3.0 * MINUTE,
        driver_period: 5.0,
        fetch_period: MINUTE,
        schedule_period: MINUTE,
        report: ReportPolicy::Lazy,
        report_cushion: DAY,
        report_delay: HOUR,
        report_at_once: 64,
        rec_half_life: 10.0 * DAY,
        time_slice: HOUR,
        precedence: Precedence::MoreCpus,
        buffer: Buffer::Common,
        first_asked: FirstAsked::InTurn,
        max_runnable: 1000,
        task_errors: TaskErrors::Any,
        linger: 0.0,
    };

    /// Returns the profile's name for messages.
    pub fn name(&self) -> &'static str {
        if *self == Profile::CLUSTER {
            "cluster"
        } else if *self == Profile::VOLUNTEER {
            "volunteer"
        } else {
            "custom"
        }
    }

    /// Returns the low water mark in seconds: work is fetched if less is at the worker.
    pub fn low_water(&self) -> f64 {
        self.work_buffer_min.max(self.fetch_time)
    }

    /// Returns the high water mark in seconds: work is fetched up to this amount.
    pub fn high_water(&self) -> f64 {
        (self.low_water() + self.work_buffer_additional).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marks_have_floors() {
        let volunteer = Profile::VOLUNTEER;
        assert_eq!(volunteer.low_water(), 8640.0);
        assert_eq!(volunteer.high_water(), 51_840.0);
        let nothing = Profile {
            work_buffer_min: 0.0,
            work_buffer_additional: 0.0,
            ..volunteer
        };
        assert_eq!((nothing.low_water(), nothing.high_water()), (180.0, 180.0));
        let at_once = Profile {
            fetch_time: 0.0,
            ..nothing
        };
        assert_eq!((at_once.low_water(), at_once.high_water()), (0.0, 1.0));
    }

    #[test]
    fn the_rest_of_the_settings_is_as_it_was_decided() {
        let volunteer = Profile::VOLUNTEER;
        // A request ends with its verdicts, as in BOINC.
        assert_eq!(volunteer.linger, 0.0);
        assert_eq!(volunteer.precedence, Precedence::MoreCpus);
        assert_eq!(Profile::CLUSTER.precedence, Precedence::Begun);
        assert_eq!(Profile::CLUSTER.pair_backoff_min, 1.0);
    }

    #[test]
    fn what_is_changed_has_a_name_of_its_own() {
        let changed = Profile {
            linger: 7.0,
            ..Profile::CLUSTER
        };
        let all = [Profile::CLUSTER, Profile::VOLUNTEER, changed];
        assert_eq!(
            all.map(|profile| profile.name()),
            ["cluster", "volunteer", "custom"]
        );
    }
}
