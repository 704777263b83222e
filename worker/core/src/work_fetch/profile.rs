//! Every constant of the policies, in two settings: for a cluster, and as the volunteers' system has them.

use brasserie_common::ReportPolicy;

use super::amounts::DAY;

/// The constants. Spans are seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Of the wait after failed requests to a scheduler.
    pub rpc_backoff_min: f64,
    pub rpc_backoff_max: f64,
    /// The exponent of that wait grows no more beyond so many failures.
    pub rpc_backoff_cap: u32,
    /// So many failures in a row, and the list of the scheduler's members is read again.
    pub list_fetch_after: u32,
    /// So many failures to read the list, and `list_fetch_interval` passes before the next.
    pub list_fetch_retries: u32,
    pub list_fetch_interval: f64,
    /// Of the wait of a scheduler and a processor type for which it had nothing.
    pub pair_backoff_min: f64,
    pub pair_backoff_max: f64,
    /// Work is fetched when less than this is there...
    pub work_buffer_min: f64,
    /// ... up to this more.
    pub work_buffer_additional: f64,
    /// What a fetch takes itself: `work_buffer_min` is no less.
    pub fetch_time: f64,
    /// How often it is looked at whom to talk to, and, unless somebody asks for it, whether to fetch work or to report.
    pub driver_period: f64,
    pub fetch_period: f64,
    /// How often it is chosen what runs.
    pub schedule_period: f64,
    pub report: ReportPolicy,
    /// A completion is reported this many seconds before its deadline, or half of the time that was left at the completion if that is less;
    /// `report_delay` comes on top. It is reported earlier ...
    pub report_cushion: f64,
    /// ... so long after its end, ...
    pub report_delay: f64,
    /// ... or with so many others.
    pub report_at_once: usize,
    /// Of what a scheduler got.
    pub rec_half_life: f64,
    /// What began runs so long before another may take its place.
    pub time_slice: f64,
    pub precedence: Precedence,
    pub buffer: Buffer,
    pub first_asked: FirstAsked,
    /// A scheduler with more tasks that can run is asked for no more.
    pub max_runnable: usize,
    pub task_errors: TaskErrors,
    /// How long a request stays good at a scheduler, if there is only one.
    pub linger: f64,
}

/// Who goes before whom of those whose deadlines are in no danger, and whose time slices are over or that do not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precedence {
    /// Who wants more CPUs, then whose turn it is: as the volunteers' system has it. What runs on one CPU stops after its slice, and stays
    /// stopped, for as long as there is work for several, be it of the same scheduler.
    MoreCpus,
    /// Whose scheduler's turn it is. Of one scheduler's tasks what has begun, then what wants more CPUs, except that who has waited for longer
    /// than the buffer lasts lets nobody pass any more: without deadlines nothing stops but for another scheduler, and nobody starves.
    Begun,
}

/// Whose work the buffer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// Anybody's: nobody is asked before all of it runs dry. Where shares differ, the one with the largest has nothing in it for a while,
    /// and others get what is its.
    Common,
    /// Each scheduler's that has a share, as far as there is room: it is asked as well when its own part runs dry.
    InParts,
}

/// Who is asked first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstAsked {
    /// Whose turn it is: as the volunteers' system has it. Where a task with cards has ended, others may take the CPU that the next one
    /// needs, and the cards are idle until they are done.
    InTurn,
    /// Whoever may have work for cards that are idle; then whose turn it is.
    ForIdleCards,
}

/// Which errors of tasks count as failures of their scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskErrors {
    Off,
    /// Those that the worker or the system is to blame for.
    Infrastructure,
    Any,
}

const MINUTE: f64 = 60.0;
const HOUR: f64 = 60.0 * MINUTE;

impl Profile {
    /// Of workers that somebody runs for many.
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
        // How often it may be asked is for a scheduler to say, and what a look costs for whoever looks: this only keeps looks apart at
        // which nothing can have changed.
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
        // Twenty seconds of tasks that take eight milliseconds each on eight processors.
        max_runnable: 20_000,
        task_errors: TaskErrors::Infrastructure,
        linger: 2.0 * MINUTE,
    };

    /// Of machines that volunteers lend, as BOINC has them.
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

    /// For people.
    pub fn name(&self) -> &'static str {
        if *self == Profile::CLUSTER {
            "cluster"
        } else if *self == Profile::VOLUNTEER {
            "volunteer"
        } else {
            "custom"
        }
    }

    /// Below this work is fetched.
    pub fn low_water(&self) -> f64 {
        self.work_buffer_min.max(self.fetch_time)
    }

    /// Up to this.
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
        // A request ends with its verdicts, as an RPC of the volunteers' system does.
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
