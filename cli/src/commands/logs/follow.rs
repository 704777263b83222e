//! Selects the new lines of a page for `--follow`, and the start of the next page.
//!
//! Lines of one worker arrive ordered by time. Over all workers the order differs: a worker that is slow or was unreachable has lines older
//! than those already shown. So each round reads the last [`OVERLAP`] again, and starts earlier while a worker does not answer. Each
//! worker's ids only increase. Thus a line is new exactly if its id is above the last one of its worker.

use std::collections::BTreeMap;

use brasserie_thrift::generated::common::{LogLine, LogLines};

/// Range that each round reads again, in line ids: two seconds, the bound for the difference of synchronized clocks and for the delay of
/// lines in a worker.
const OVERLAP: i64 = 2 << 32;
/// Rounds for which the start stays because a worker does not answer. At two rounds a second this is the minute after which a worker counts
/// as lost. Each such round reads all later lines of the other workers again.
const ROUNDS_HELD: u32 = 120;
/// Rounds for which the start stays after the scheduler was unreachable. A scheduler that returns does not know workers without a heartbeat
/// yet, and half a minute is several heartbeats.
const ROUNDS_AFTER_TROUBLE: u32 = 60;
/// A value that is no line id: the id of a notice, or the end of the pages.
const NONE: i64 = -1;

/// The position of a follower.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    /// The last id seen of each worker.
    seen: BTreeMap<String, i64>,
    /// The start of the next round; `None`: the oldest line.
    start: Option<i64>,
    /// The id up to which all workers that answered have been read.
    reached: Option<i64>,
    /// The number of consecutive rounds in which a worker did not answer.
    held: u32,
    /// The number of rounds for which the start stays, whichever workers answer.
    wary: u32,
    answers: RoundAnswers,
}

/// The workers that have answered in this round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RoundAnswers {
    #[default]
    OfAll,
    /// A notice says that some workers have not answered.
    OfSome,
}

/// The new lines and notices of a page.
#[derive(Debug, Default)]
pub(super) struct NewLines {
    pub lines: Vec<LogLine>,
    pub notices: Vec<String>,
    /// The start of the rest of the round; `None`: there is no more.
    pub next: Option<i64>,
}

/// How a round ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoundEnd {
    /// The next round starts later, or waits for workers that did not answer.
    Usual,
    /// Some workers have not answered for too long. Their lines of that time may never be shown.
    GaveUp,
}

impl Cursor {
    /// Returns the start of a round, in the wire's format.
    pub(super) fn start(&self) -> i64 {
        self.start.unwrap_or(NONE)
    }

    /// Returns whether the cursor has taken no line yet.
    pub(super) fn is_new_to_all(&self) -> bool {
        self.seen.is_empty()
    }

    /// Takes a page of a round that started at `from`.
    pub(super) fn take(&mut self, from: i64, page: LogLines) -> NewLines {
        let mut news = NewLines {
            next: page.next_line_id.filter(|next| *next != NONE),
            ..NewLines::default()
        };
        self.reached = self.reached.max(Some(from).filter(|from| *from != NONE));
        for line in page.lines.unwrap_or_default() {
            let id = line.line_id.unwrap_or(NONE);
            if id == NONE {
                self.answers = RoundAnswers::OfSome;
                news.notices.extend(line.line);
                continue;
            }
            self.reached = self.reached.max(Some(id));
            if self.is_new(&line, id) {
                news.lines.push(line);
            }
        }
        news
    }

    /// Takes a page of the descending search for the newest lines, before the first round. All its lines are new.
    pub(super) fn take_newest(&mut self, page: LogLines) -> NewLines {
        let mut news = NewLines {
            next: page.next_line_id.filter(|next| *next != NONE),
            ..NewLines::default()
        };
        for line in page.lines.unwrap_or_default() {
            let id = line.line_id.unwrap_or(NONE);
            if id == NONE {
                news.notices.extend(line.line);
                continue;
            }
            self.reached = self.reached.max(Some(id));
            // The first line of a worker in this order is its newest.
            let shard = line.worker_shard.clone().unwrap_or_default();
            self.seen.entry(shard).or_insert(id);
            news.lines.push(line);
        }
        news
    }

    /// Returns whether a descending search has passed everything that the first round will read again.
    pub(super) fn covers(&self, next: i64) -> bool {
        self.reached.is_some_and(|newest| next < newest - OVERLAP)
    }

    /// Notes that the scheduler was unreachable.
    pub(super) fn troubled(&mut self) {
        self.wary = ROUNDS_AFTER_TROUBLE;
    }

    /// Ends a round after all its pages were taken.
    pub(super) fn end_round(&mut self) -> RoundEnd {
        let waits =
            self.wary > 0 || (self.answers == RoundAnswers::OfSome && self.held < ROUNDS_HELD);
        self.wary = self.wary.saturating_sub(1);
        let gave_up = self.answers == RoundAnswers::OfSome && self.held == ROUNDS_HELD;
        self.held = match self.answers {
            RoundAnswers::OfAll => 0,
            RoundAnswers::OfSome => self.held.saturating_add(1),
        };
        self.answers = RoundAnswers::OfAll;
        if !waits {
            let start = self.reached.map(|reached| (reached - OVERLAP).max(0));
            self.start = self.start.max(start);
        }
        match gave_up {
            true => RoundEnd::GaveUp,
            false => RoundEnd::Usual,
        }
    }

    fn is_new(&mut self, line: &LogLine, id: i64) -> bool {
        let shard = line.worker_shard.clone().unwrap_or_default();
        match self.seen.get_mut(&shard) {
            Some(seen) if id <= *seen => false,
            Some(seen) => {
                *seen = id;
                true
            }
            None => {
                self.seen.insert(shard, id);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1 << 32;

    fn line(shard: &str, id: i64) -> LogLine {
        LogLine {
            line_id: Some(id),
            worker_shard: Some(shard.to_owned()),
            ..LogLine::default()
        }
    }

    fn notice(text: &str) -> LogLine {
        LogLine {
            line_id: Some(NONE),
            line: Some(text.to_owned()),
            ..LogLine::default()
        }
    }

    /// Runs one round of one page, and returns the new ids.
    fn round(cursor: &mut Cursor, lines: Vec<LogLine>) -> (Vec<i64>, RoundEnd) {
        let page = LogLines {
            lines: Some(lines),
            next_line_id: Some(NONE),
        };
        let news = cursor.take(cursor.start(), page);
        let ids = news.lines.iter().filter_map(|line| line.line_id).collect();
        (ids, cursor.end_round())
    }

    #[test]
    fn what_is_read_again_is_shown_once() {
        let mut cursor = Cursor::default();
        let first = vec![line("a", 10 * SECOND), line("b", 10 * SECOND + 5)];
        let ids = round(&mut cursor, first.clone()).0;
        assert_eq!(ids, [10 * SECOND, 10 * SECOND + 5]);
        assert_eq!(cursor.start(), 8 * SECOND + 5, "two seconds are read again");
        let mut again = first;
        again.push(line("a", 10 * SECOND + 5));
        assert_eq!(
            round(&mut cursor, again).0,
            [10 * SECOND + 5],
            "an id is one worker's own"
        );
    }

    #[test]
    fn a_line_of_a_slow_worker_comes_late_but_comes() {
        let mut cursor = Cursor::default();
        round(&mut cursor, vec![line("a", 10 * SECOND)]);
        let late = vec![line("b", 9 * SECOND), line("a", 10 * SECOND)];
        assert_eq!(round(&mut cursor, late).0, [9 * SECOND]);
    }

    #[test]
    fn a_worker_that_does_not_answer_is_waited_for() {
        let mut cursor = Cursor::default();
        round(&mut cursor, vec![line("a", 10 * SECOND)]);
        let start = cursor.start();
        for i in 1..100 {
            let lines = vec![notice("worker b: timed out"), line("a", (10 + i) * SECOND)];
            let (ids, ending) = round(&mut cursor, lines);
            assert_eq!((ids, ending), (vec![(10 + i) * SECOND], RoundEnd::Usual));
            assert_eq!(cursor.start(), start, "b may have written since");
        }
        let (ids, _) = round(&mut cursor, vec![line("b", 11 * SECOND)]);
        assert_eq!(ids, [11 * SECOND]);
        assert_eq!(cursor.start(), 107 * SECOND, "all have answered");
    }

    #[test]
    fn a_scheduler_that_comes_back_may_not_know_all_workers_yet() {
        let mut cursor = Cursor::default();
        round(&mut cursor, vec![line("a", 10 * SECOND)]);
        cursor.troubled();
        for i in 1..50 {
            round(&mut cursor, vec![line("a", (10 + i) * SECOND)]);
        }
        let (ids, _) = round(&mut cursor, vec![line("b", 11 * SECOND)]);
        assert_eq!((ids, cursor.start()), (vec![11 * SECOND], 8 * SECOND));
        for _ in 0..ROUNDS_AFTER_TROUBLE {
            round(&mut cursor, Vec::new());
        }
        assert_eq!(cursor.start(), (59 - 2) * SECOND);
    }

    #[test]
    fn the_wait_for_a_worker_ends_and_says_so() {
        let mut cursor = Cursor::default();
        round(&mut cursor, vec![line("a", 10 * SECOND)]);
        let mut endings = Vec::new();
        for i in 0..200 {
            let lines = vec![notice("lost: b"), line("a", (11 + i) * SECOND)];
            endings.push(round(&mut cursor, lines).1);
        }
        let told = endings.iter().filter(|ending| **ending == RoundEnd::GaveUp);
        assert_eq!(told.count(), 1, "once, not each round");
        assert_eq!(cursor.start(), (210 - 2) * SECOND);
    }

    #[test]
    fn nothing_older_than_the_newest_lines_is_shown() {
        let mut cursor = Cursor::default();
        let page = |lines, next| LogLines {
            lines: Some(lines),
            next_line_id: Some(next),
        };
        let newest = vec![line("a", 10 * SECOND), line("b", 9 * SECOND)];
        assert_eq!(
            cursor.take_newest(page(newest, 9 * SECOND - 1)).lines.len(),
            2
        );
        assert!(
            !cursor.covers(9 * SECOND - 1),
            "the first round would read more"
        );
        let older = vec![line("c", 8 * SECOND), line("a", 7 * SECOND)];
        assert_eq!(cursor.take_newest(page(older, 6 * SECOND)).lines.len(), 2);
        assert!(cursor.covers(6 * SECOND));
        cursor.end_round();
        assert_eq!(cursor.start(), 8 * SECOND);
        let again = vec![
            line("c", 8 * SECOND),
            line("b", 9 * SECOND),
            line("c", 9 * SECOND),
        ];
        assert_eq!(round(&mut cursor, again).0, [9 * SECOND]);
    }

    #[test]
    fn pages_without_matches_lead_on() {
        let mut cursor = Cursor::default();
        let page = |next| LogLines {
            lines: Some(Vec::new()),
            next_line_id: Some(next),
        };
        let news = cursor.take(NONE, page(50 * SECOND));
        assert_eq!(news.next, Some(50 * SECOND));
        assert_eq!(cursor.take(50 * SECOND, page(NONE)).next, None);
        cursor.end_round();
        assert_eq!(
            cursor.start(),
            48 * SECOND,
            "what was searched is not searched again"
        );
    }
}
