//! Draws a run: one row for each processor with the schedulers whose tasks it ran, and marks for contacts and late reports.

use std::collections::BTreeMap;

use super::chart::{Svg, colour};
use super::text;
use crate::lanes::Segment;
use crate::outcome::{ContactKind, ContactResult, Outcome};

const WIDTH: f64 = 1200.0;
const LEFT: f64 = 140.0;
const RIGHT: f64 = 1170.0;
const ROW: f64 = 18.0;
const GAP: f64 = 4.0;
/// Maximum number of processors that are drawn.
const MOST_ROWS: usize = 64;
/// Segments of one row and scheduler with a gap below this, in pixels, are drawn as one.
const SEEN: f64 = 0.6;
/// Resolution of contacts: marks per pixel.
const MARKS_PER_PIXEL: f64 = 2.0;

pub fn picture(outcome: &Outcome) -> String {
    let mut drawing = Drawing {
        outcome,
        svg: Svg::new(WIDTH),
        y: 28.0,
    };
    drawing.head();
    drawing.legend();
    drawing.rows();
    drawing.contacts();
    drawing.shares();
    let y = drawing.y + 6.0;
    (drawing.svg).time_axis(LEFT, RIGHT, y, outcome.duration);
    drawing.svg.height = y + 30.0;
    drawing.svg.finish(&outcome.scenario, &outcome.about)
}

struct Drawing<'a> {
    outcome: &'a Outcome,
    svg: Svg,
    /// The lower edge of the drawing so far.
    y: f64,
}

impl Drawing<'_> {
    fn x(&self, at: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * at / self.outcome.duration
    }

    fn head(&mut self) {
        let outcome = self.outcome;
        self.svg.text((16.0, self.y), "title", &outcome.scenario);
        self.y += 20.0;
        let line = text::figures_line(outcome);
        let words = format!(
            "{}, seed {}: {}",
            text::span(outcome.duration),
            outcome.seed,
            line.trim()
        );
        self.svg.text((16.0, self.y), "quiet", &words);
        self.y += 14.0;
    }

    fn legend(&mut self) {
        let mut x = 16.0;
        let mut y = self.y + 4.0;
        let schedulers = self.outcome.schedulers.iter().enumerate();
        let schedulers = schedulers.map(|(place, scheduler)| {
            let got = text::percent(scheduler.got);
            let label = format!("{} (share {}, got {got})", scheduler.name, scheduler.share);
            (Some(place), "", label)
        });
        let others = [
            (None, r#"class="off""#, "cannot compute".to_owned()),
            (None, r#"class="offline""#, "offline".to_owned()),
            (None, r#"class="miss""#, "reported too late".to_owned()),
        ];
        for (scheduler, style, label) in schedulers.chain(others) {
            let length = 28.0 + 7.2 * label.chars().count() as f64;
            if x + length > RIGHT {
                x = 16.0;
                y += 18.0;
            }
            let fill = scheduler.map(|place| format!(r#"fill="{}""#, colour(place)));
            let style = fill.unwrap_or_else(|| style.to_owned());
            if style.contains("miss") {
                self.svg.mark((x + 6.0, y + 10.0), &style);
            } else {
                self.svg.rect((x, y), (12.0, 12.0), &style);
            }
            self.svg.text((x + 17.0, y + 10.5), "", &label);
            x += length;
        }
        self.y = y + 28.0;
    }

    fn rows(&mut self) {
        let timeline = &self.outcome.timeline;
        let shown = timeline.rows.len().min(MOST_ROWS);
        let top = self.y;
        let row_y = |row: usize| top + row as f64 * (ROW + GAP);
        for (row, name) in timeline.rows.iter().take(shown).enumerate() {
            let y = row_y(row);
            let middle = (LEFT - 8.0, y + ROW / 2.0);
            self.svg.text(middle, "row", name);
            let size = (RIGHT - LEFT, ROW);
            self.svg.rect((LEFT, y), size, r#"class="track""#);
        }
        for piece in merged(&timeline.segments, self.outcome.duration) {
            if piece.row < shown {
                let (from, to) = (self.x(piece.from), self.x(piece.to));
                let style = format!(r#"fill="{}""#, colour(piece.scheduler));
                let size = ((to - from).max(0.3), ROW);
                self.svg.rect((from, row_y(piece.row)), size, &style);
            }
        }
        self.y = row_y(shown);
        let height = self.y - top - GAP;
        for (from, to) in timeline.suspended.clone() {
            let (from, to) = (self.x(from), self.x(to));
            let size = (to - from, height);
            self.svg.rect((from, top), size, r#"class="off""#);
        }
        if timeline.rows.len() > shown || timeline.dropped > 0 {
            let more = timeline.rows.len() - shown;
            let words = format!("{more} more rows, {} more pieces", timeline.dropped);
            self.svg.text((LEFT, self.y + 10.0), "quiet", &words);
            self.y += 18.0;
        }
    }

    /// Draws a row for each scheduler with its contacts and late reports. A mark is taller if the contact brought work.
    fn contacts(&mut self) {
        self.y += 6.0;
        let timeline = &self.outcome.timeline;
        for (place, scheduler) in self.outcome.schedulers.iter().enumerate() {
            let (y, size) = (self.y, (RIGHT - LEFT, ROW));
            let name = format!("RPCs {}", short(&scheduler.name));
            self.svg.text((LEFT - 8.0, y + ROW / 2.0), "row", &name);
            self.svg.rect((LEFT, y), size, r#"class="track""#);
            for (from, to) in timeline.offline.clone() {
                let size = (self.x(to) - self.x(from), 3.0);
                let x = self.x(from);
                self.svg
                    .rect((x, y + ROW - 3.0), size, r#"class="offline""#);
            }
            let mut drawn: BTreeMap<(u64, u8), ()> = BTreeMap::new();
            for contact in self
                .outcome
                .contacts
                .iter()
                .filter(|it| it.scheduler == place)
            {
                let x = self.x(contact.at);
                let (rank, height, style) = match (contact.kind, contact.result) {
                    (_, ContactResult::Failed) => (3, ROW, r#"class="miss""#.to_owned()),
                    (ContactKind::Request, ContactResult::Answered(tasks)) if tasks > 0 => {
                        (2, ROW, format!(r#"fill="{}""#, colour(place)))
                    }
                    (ContactKind::Request, _) => {
                        let style = format!(r#"fill="{}" fill-opacity="0.75""#, colour(place));
                        (1, ROW / 2.0, style)
                    }
                    (ContactKind::Report, _) => {
                        let style = format!(r#"fill="{}" fill-opacity="0.6""#, colour(place));
                        (0, ROW / 4.0, style)
                    }
                };
                let pixel = (x * MARKS_PER_PIXEL) as u64;
                if drawn.insert((pixel, rank), ()).is_none() {
                    let corner = (x - 0.4, y + ROW - height);
                    self.svg.rect(corner, (0.8, height), &style);
                }
            }
            for (at, _) in timeline.misses.iter().filter(|(_, whose)| *whose == place) {
                let x = self.x(*at);
                self.svg.mark((x, y + 7.0), r#"class="miss""#);
            }
            self.y += ROW + GAP;
        }
        let words = "RPCs: a full line fetched work, a half one did not, a quarter is a report, a red one was not answered";
        self.svg.text((LEFT, self.y + 9.0), "quiet", words);
        self.y += 18.0;
    }

    /// Draws each scheduler's part of the recent work over time.
    fn shares(&mut self) {
        const HEIGHT: f64 = 90.0;
        let schedulers = &self.outcome.schedulers;
        if schedulers.len() < 2 || self.outcome.series.is_empty() {
            return;
        }
        let (top, bottom) = (self.y + 8.0, self.y + 8.0 + HEIGHT);
        let size = (RIGHT - LEFT, HEIGHT);
        self.svg.rect((LEFT, top), size, r#"class="track""#);
        for (part, label) in [(0.0, "0 %"), (0.5, "50 %"), (1.0, "100 %")] {
            let y = bottom - HEIGHT * part;
            self.svg.text((LEFT - 8.0, y), "row", label);
        }
        self.svg.text((LEFT - 8.0, top + 24.0), "row", "REC of all");
        let shares: f64 = schedulers.iter().map(|it| it.share).sum();
        for (place, scheduler) in schedulers.iter().enumerate() {
            let points = self.outcome.series.iter().map(|sample| {
                let all: f64 = sample.schedulers.iter().map(|it| it.rec).sum();
                let rec = sample.schedulers[place].rec;
                let part = if all > 0.0 { rec / all } else { 0.0 };
                (self.x(sample.at), bottom - HEIGHT * part)
            });
            let points: Vec<(f64, f64)> = points.collect();
            let style = format!(
                r#"fill="none" stroke-width="1.5" stroke="{}""#,
                colour(place)
            );
            self.svg.path(&points, &style);
            if shares > 0.0 {
                let y = bottom - HEIGHT * scheduler.share / shares;
                let style = format!(
                    r#"stroke="{}" stroke-dasharray="4 4" stroke-opacity="0.8""#,
                    colour(place)
                );
                self.svg.line((LEFT, y), (RIGHT, y), &style);
            }
        }
        let words = "REC: what each got lately, of what all got; dashed: what is due by the shares";
        self.svg.text((LEFT, bottom + 13.0), "quiet", words);
        self.y = bottom + 20.0;
    }
}

fn short(name: &str) -> String {
    const MOST: usize = 14;
    match name.chars().count() > MOST {
        true => name.chars().take(MOST - 1).chain(['…']).collect(),
        false => name.to_owned(),
    }
}

/// Sorts the segments by row and time, and joins segments of one row and scheduler that would be indistinguishable.
fn merged(segments: &[Segment], duration: f64) -> Vec<Segment> {
    let pixel = duration / (RIGHT - LEFT);
    let mut sorted = segments.to_vec();
    sorted.sort_by(|one, other| {
        one.row
            .cmp(&other.row)
            .then(one.from.total_cmp(&other.from))
    });
    let mut merged: Vec<Segment> = Vec::new();
    for piece in sorted {
        match merged.last_mut() {
            Some(last)
                if last.row == piece.row
                    && last.scheduler == piece.scheduler
                    && piece.from - last.to < SEEN * pixel
                    && last.to - last.from < 2.0 * pixel =>
            {
                last.to = last.to.max(piece.to);
            }
            Some(_) | None => merged.push(piece),
        }
    }
    // A thin gap marks the end of each long segment.
    let hair = (0.4 * pixel).min(duration / 1e4);
    for piece in &mut merged {
        if piece.to - piece.from > 4.0 * pixel {
            piece.to -= hair;
        }
    }
    merged
}
