//! Tests that each time has its node once, whatever happens to the machine in between.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::model::{LevelId, ScheduleItem};

const DAY: Duration = Duration::from_secs(86_400);

fn source(text: &str, lifetime: u64) -> AddTime {
    let lifetime = Duration::from_secs(lifetime);
    AddTime {
        parent_level: LevelId(1),
        format: "{time}".to_owned(),
        schedule: vec![ScheduleItem {
            cron: cron(text),
            lifetime,
            enabled_lifetime: lifetime / 2,
            tags: Vec::new(),
        }],
        naming: Default::default(),
    }
}

/// Returns the item as another process restores it.
fn restored(item: &ItemMemory) -> ItemMemory {
    ItemMemory::restore(item.stretches().to_vec(), item.absent_since())
}

/// A scheduler that refreshes its nodes. It restarts before each refresh unless `restarts` is false.
struct Machine {
    source: AddTime,
    memory: ScheduleMemory,
    /// The state that a restart restores.
    record: ScheduleMemory,
    restarts: bool,
    /// The number of items whose record was written.
    written: usize,
    window: Duration,
    zone: Zone,
}

impl Machine {
    fn new(source: AddTime, window: Duration, zone: &str) -> Machine {
        Machine {
            source,
            memory: ScheduleMemory::default(),
            record: ScheduleMemory::default(),
            restarts: true,
            written: 0,
            window,
            zone: Zone::named(zone).unwrap(),
        }
    }

    fn refresh(&mut self, now: i64) -> DueTimes {
        if self.restarts {
            self.memory = self.record.clone();
        }
        let since = Since {
            memory: &self.memory,
            window: self.window,
        };
        let mut next = ScheduleMemory::default();
        let now = WallTime::from_secs(now);
        let due = self
            .source
            .due_since(&since, now, &self.zone, &mut next)
            .unwrap();
        next.remember_absent(&self.memory, now, self.window);
        self.memory = next;
        let changes = self.memory.changes_since(&self.record);
        self.written += changes.changed.len();
        self.record.change(&changes);
        let changes = self.memory.changes_since(&self.record);
        assert!(changes.is_empty(), "{changes:?}");
        for item in self.record.0.values_mut() {
            let kept = restored(item);
            assert_eq!(kept.stretches(), item.stretches());
            assert_eq!(kept.absent_since(), item.absent_since());
            *item = kept;
        }
        due
    }

    fn times(&mut self, now: i64) -> Vec<i64> {
        let due = self.refresh(now);
        due.times.iter().map(|time| time.at.as_secs()).collect()
    }
}

integration_tests_properties::properties! {
    256;

    /// A time is a node from the first refresh that is not before it, for the rest of its lifetime, or for a whole lifetime if nothing is
    /// left. Afterwards it never returns. Clocks that are set back stand still for that.
    #[test]
    fn each_time_lives_once(
        period in 1i64..50,
        lifetime in 1u64..300,
        window in 1u64..400,
        steps in vec((any::<bool>(), any::<bool>(), 0.0..=1.0f64), 1..30),
    ) {
        let every = format!("{{\"epoch\": {{\"period\": {period}}}}}");
        let mut machine = Machine::new(source(&every, lifetime), Duration::from_secs(window), "UTC");
        let (lifetime, reach) = (lifetime as i64, window.max(lifetime) as i64);
        let mut now = 100_000;
        let first = now - lifetime + 1;
        let mut latest = now;
        let mut born: BTreeMap<i64, i64> = BTreeMap::new();
        for (forward, restarts, part) in steps {
            machine.restarts = restarts;
            latest = latest.max(now);
            for at in (first..=latest).filter(|at| at % period == 0) {
                let is_over = at + lifetime <= latest;
                born.entry(at).or_insert(if is_over { latest } else { at });
            }
            let living = born.iter().filter(|(_, born)| latest < *born + lifetime);
            let due = machine.refresh(now);
            let found: Vec<(i64, bool)> = due.times.iter().map(|time| (time.at.as_secs(), time.enabled)).collect();
            // Half of an odd lifetime ends within a second.
            let expected: Vec<(i64, bool)> = living.map(|(at, born)| (*at, 2 * (latest - born) < lifetime)).collect();
            prop_assert_eq!(found, expected);
            let until = due.until.map(WallTime::as_millis);
            prop_assert!(until.is_some_and(|until| until > latest * 1000 && until <= (latest + period) * 1000));
            // The clock moves from the latest moment on, so that no more is missed than is caught up with.
            let reached = (reach as f64 * part) as i64;
            now = if forward { latest + reached } else { latest - reached };
        }
    }
}

#[test]
fn downtime_is_caught_up_with() {
    let three = r#"{"minute": 0, "hour": 3, "dst_fixes": ["skip", "repeat_use_both"]}"#;
    let mut machine = Machine::new(source(three, 3600), DAY * 3, "UTC");
    let day = 20_000 * 86_400;
    let three = day + 3 * 3600;
    assert_eq!(machine.times(three + 10), [three]);
    // Down for two and a half days: the times of two nights, each for an hour from now on.
    let back = three + 216_000;
    let missed = [three + 86_400, three + 2 * 86_400];
    let due = machine.refresh(back);
    assert!(due.times.iter().all(|time| time.enabled));
    assert_eq!(due.until, Some(WallTime::from_secs(back + 1800)));
    assert_eq!(machine.times(back + 3599), missed);
    assert_eq!(machine.times(back + 3600), [0; 0]);
    // The machine was down for longer than is caught up with, so times that are too old never come.
    let later = three + 8 * 86_400 - 60;
    assert_eq!(
        machine.times(later),
        [three + 5 * 86_400, three + 6 * 86_400, three + 7 * 86_400]
    );
    assert_eq!(
        machine.times(later + 70),
        [5, 6, 7, 8].map(|n| three + n * 86_400)
    );
}

#[test]
fn a_clock_that_was_wrong_by_far_is_forgotten() {
    let hourly = r#"{"epoch": {"period": 3600}}"#;
    let mut machine = Machine::new(source(hourly, 600), DAY, "UTC");
    let hour = 500_000 * 3600;
    let years = 10 * 365 * 86_400;
    assert_eq!(machine.times(hour), [hour]);
    assert_eq!(machine.times(hour + years).len(), 24);
    // The clock is right again: the item begins again, and each later time comes once.
    assert_eq!(machine.times(hour + 3700), [hour + 3600]);
    assert_eq!(machine.times(hour + 3500), [hour + 3600], "a little back");
    assert_eq!(machine.times(hour + 7200), [hour + 7200]);
}

#[test]
fn another_zone_gives_no_instant_twice_and_loses_none() {
    let noon = r#"{"minute": 0, "hour": 12, "dst_fixes": ["skip", "repeat_use_both"]}"#;
    let mut machine = Machine::new(source(noon, 7200), DAY, "Asia/Tokyo");
    let day = 20_000 * 86_400;
    let (tokyo, utc) = (day + 3 * 3600, day + 12 * 3600);
    assert_eq!(machine.times(tokyo + 60), [tokyo]);
    // The node of the old zone lives on. The coming noon is another instant.
    machine.zone = Zone::utc();
    assert_eq!(machine.times(tokyo + 120), [tokyo]);
    assert_eq!(machine.times(utc), [utc]);
    // Eastward again: the earlier noon lies in time that has had its nodes.
    machine.zone = Zone::named("Asia/Tokyo").unwrap();
    assert_eq!(machine.times(utc + 60), [utc]);
    assert_eq!(machine.times(tokyo + 86_400), [tokyo + 86_400]);
}

#[test]
fn what_is_remembered_is_bounded() {
    // More than [`MAX_TIMES`] were missed in a week: the newest are given.
    let mut machine = Machine::new(source(r#"{"epoch": {}}"#, 10), DAY * 7, "UTC");
    assert_eq!(machine.times(1_000_000).len(), 10);
    let found = machine.times(1_500_000);
    assert_eq!((found.len(), found[0]), (MAX_TIMES, 1_400_001));
    // The machine travels through time zones.
    let daily = r#"{"minute": 0, "hour": 12, "dst_fixes": ["skip", "repeat_use_both"]}"#;
    let mut machine = Machine::new(source(daily, 30 * 86_400), DAY, "UTC");
    for second in 0..100 {
        machine.zone = Zone::named(["Asia/Tokyo", "UTC"][second % 2]).unwrap();
        machine.refresh(1_000_000 + second as i64);
    }
    let stretches: usize = machine
        .memory
        .0
        .values()
        .map(|item| item.stretches().len())
        .sum();
    assert_eq!(stretches, 16);
}

#[test]
fn impossible_records_are_not_restored() {
    let stretch = |after, up_to| Stretch {
        after: WallTime::from_secs(after),
        up_to: WallTime::from_secs(up_to),
        seen: WallTime::from_secs(up_to),
        zone: Zone::utc(),
    };
    let kept = |stretches: &[Stretch]| {
        let restored = ItemMemory::restore(stretches.to_vec(), None);
        restored.stretches().len()
    };
    assert_eq!(kept(&[stretch(0, 5), stretch(5, 6), stretch(9, 9)]), 3);
    assert_eq!(kept(&[stretch(0, 5), stretch(4, 6), stretch(9, 9)]), 1);
    assert_eq!(kept(&[stretch(5, 4)]), 0);
}

#[test]
fn each_item_has_a_memory_of_its_own() {
    let mut source = source(r#"{"epoch": {"period": 100}}"#, 50);
    source.schedule.push(source.schedule[0].clone());
    source.schedule.push(ScheduleItem {
        cron: cron(
            r#"{"minute": [5, 5, 1], "month": "jan", "day_of_week": {"period": 2}, "time_zone": "utc", "dst_fixes": ["unskip", "repeat_use_only_late"]}"#,
        ),
        ..source.schedule[0].clone()
    });
    let mut machine = Machine::new(source, DAY, "UTC");
    machine.refresh(1_000_000);
    let keys: Vec<&str> = machine.memory.0.keys().map(|key| key.0.as_str()).collect();
    assert_eq!(
        keys,
        [
            "1 epoch=0-9223372036854775:100 \"{time}\" 1",
            "1 epoch=0-9223372036854775:100 \"{time}\" 2",
            "1 minute=1,5 hour=* day_of_week=1-7:2 month=1 year=* unskip repeat_use_only_late UTC \"{time}\" 1",
        ]
    );
    // A missing item is forgotten once it cannot give a time twice any more.
    machine.source.schedule.truncate(1);
    machine.refresh(1_000_001);
    machine.refresh(1_086_400);
    assert_eq!(machine.memory.0.len(), 3);
    machine.refresh(1_086_401);
    assert_eq!(machine.memory.0.len(), 1);
    assert_eq!(machine.record.0.len(), 1);
}

#[test]
fn times_that_are_not_caught_up_with_are_counted_once() {
    let mut machine = Machine::new(source(r#"{"epoch": {"period": 60}}"#, 60), DAY, "UTC");
    let given_up = |due: DueTimes| {
        due.given_up
            .iter()
            .map(GivenUp::to_string)
            .collect::<Vec<_>>()
    };
    let start = 1_000_020;
    assert_eq!(given_up(machine.refresh(start)), [""; 0]);
    // Two hours more than a day.
    let back = start + 26 * 3600;
    assert_eq!(
        given_up(machine.refresh(back)),
        [
            "120 missed times of item 1 of the schedule get no node: only the newest 100000 missed times of the last 24h get one"
        ]
    );
    assert_eq!(given_up(machine.refresh(back + 1)), [""; 0]);
    let mut machine = Machine::new(source(r#"{"epoch": {}}"#, 10), DAY * 7, "UTC");
    machine.refresh(start);
    let due = machine.refresh(start + 500_000);
    assert_eq!(
        (due.times.len(), due.given_up[0].times),
        (MAX_TIMES, MAX_TIMES)
    );
}

/// Times that pass while no configuration has an item are not missed, and earlier times are not given again.
#[test]
fn an_item_that_comes_back_goes_on() {
    let gone = AddTime {
        schedule: Vec::new(),
        ..source("{\"epoch\": {\"period\": 60}}", 90)
    };
    let there = source("{\"epoch\": {\"period\": 60}}", 90);
    let mut machine = Machine::new(there.clone(), DAY, "UTC");
    let start = 1_000_020;
    machine.refresh(start);
    // Down for ten minutes: late times live from now on.
    assert_eq!(machine.times(start + 600).len(), 10);
    machine.source = gone.clone();
    assert_eq!(machine.times(start + 601), [0; 0]);
    machine.source = there.clone();
    assert_eq!(machine.times(start + 602).len(), 10, "the same ones");
    machine.source = gone;
    assert_eq!(machine.times(start + 603), [0; 0]);
    machine.source = there;
    let back = machine.times(start + 3600);
    assert_eq!(back, [start + 3540, start + 3600]);
    // The clock is set back by an hour, and times that were given are not given again.
    assert_eq!(machine.times(start + 1800), back);
}

/// An item without times for hours is not written at each refresh.
#[test]
fn a_record_is_written_only_when_it_changes() {
    let daily = r#"{"minute": 0, "hour": 12, "dst_fixes": ["skip", "repeat_use_both"]}"#;
    let mut machine = Machine::new(source(daily, 3600), DAY, "UTC");
    machine.restarts = false;
    let noon = 20_000 * 86_400 + 12 * 3600;
    for second in 7200..7800 {
        machine.refresh(noon + second);
    }
    assert_eq!(machine.written, 2, "the first, and what lay behind too far");
    // The first refresh after a long silence, the next noon, and the moment of disabling.
    for (second, written) in [(-2, 3), (-1, 3), (0, 4), (1, 4), (1800, 5), (1801, 5)] {
        machine.refresh(noon + 86_400 + second);
        assert_eq!(machine.written, written, "{second}");
    }
}
