//! Parses a cron item's JSON to its set of instants. Like Bistro, it refuses unknown keys and values.

use jiff::civil::Date;

use super::search::LAST_YEAR;
use super::zone::suggest_zone;
use super::{Cron, Days, Repeated, Selector, Skipped, StandardCron, Zone};
use crate::keys::{Key, Shape, TEXTS};
use crate::problem::nearest;
use crate::read::{At, Notes, suggest};
use crate::tree::{Value, quote};

/// The shape of an item of either kind.
pub(crate) const CRON: Shape =
    Shape::Either(&[Shape::Fields(EPOCH_KEYS), Shape::Fields(STANDARD_KEYS)]);
const EPOCH_KEYS: &[Key] = &[Key::required(
    "epoch",
    Shape::Either(&[EPOCH.shape(), Shape::List(&EPOCH.shape()), RANGE]),
    "Selected Unix seconds, in place of the other fields.",
)];
const STANDARD_KEYS: &[Key] = &[
    Key::required(
        "minute",
        Shape::Either(&[MINUTE.shape(), Shape::List(&MINUTE.shape()), RANGE]),
        "The minutes, 0 to 59.",
    ),
    Key::new(
        "hour",
        Shape::Either(&[HOUR.shape(), Shape::List(&HOUR.shape()), RANGE]),
        "The hours, 0 to 23.",
    ),
    Key::new(
        "day_of_month",
        Shape::Either(&[
            DAY_OF_MONTH.shape(),
            Shape::List(&DAY_OF_MONTH.shape()),
            RANGE,
        ]),
        "The days of the month, 1 to 31.",
    ),
    Key::new(
        "day_of_week",
        NAMED,
        "The days of the week, 1 (Sunday) to 7, or names.",
    ),
    Key::new("month", NAMED, "The months, 1 to 12, or names."),
    Key::new(
        "year",
        Shape::Either(&[YEAR.shape(), Shape::List(&YEAR.shape()), RANGE]),
        "The years, 1969 to 9999.",
    ),
    Key::required(
        "dst_fixes",
        Shape::List(&Shape::Words(fix_names)),
        "Two words: one for times that clocks skip, one for times that clocks repeat.",
    ),
    Key::new(
        "time_zone",
        Shape::Name,
        "The time zone, by its name in the IANA list.",
    ),
];
const NAMED: Shape = Shape::Either(&[Shape::Name, TEXTS, RANGE]);
const RANGE: Shape = Shape::Fields(RANGE_KEYS);
const RANGE_KEYS: &[Key] = &[
    Key::new("start", Shape::Name, "The first value."),
    Key::new("end", Shape::Name, "The last value, included."),
    Key::new(
        "period",
        Shape::Integer(1, EPOCH.most - EPOCH.least - 1),
        "The step from one value to the next.",
    ),
];

const EXAMPLE: &str = r#"as in {"minute": 0, "hour": 3, "dst_fixes": ["unskip", "repeat_use_only_early"]} or {"epoch": {"period": 3600}}"#;

/// The allowed values of a field.
struct Field {
    least: i64,
    most: i64,
    /// Full names, beginning with that of `least`; the first three letters suffice. Empty for numbers only.
    names: &'static [&'static str],
}

impl Field {
    const fn numbers(least: i64, most: i64) -> Field {
        Field {
            least,
            most,
            names: &[],
        }
    }

    const fn shape(&self) -> Shape {
        Shape::Integer(self.least, self.most)
    }
}

/// The seconds that fit a wall clock of 64-bit milliseconds.
const EPOCH: Field = Field::numbers(0, i64::MAX / 1000);
const MINUTE: Field = Field::numbers(0, 59);
const HOUR: Field = Field::numbers(0, 23);
const DAY_OF_MONTH: Field = Field::numbers(1, 31);
const YEAR: Field = Field::numbers(1969, LAST_YEAR);
const MONTH: Field = Field {
    least: 1,
    most: 12,
    names: &[
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ],
};
const DAY_OF_WEEK: Field = Field {
    least: 1,
    most: 7,
    names: &[
        "sunday",
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
    ],
};

pub(crate) fn cron(at: &At, notes: &mut Notes) -> Option<Cron> {
    if at.as_object().is_none() {
        notes.error(at.expected("an object").help(EXAMPLE));
        return None;
    }
    let Some(epoch) = at.get("epoch") else {
        return standard(at, notes).map(|cron| Cron::Standard(Box::new(cron)));
    };
    let refused = refuse_keys(at, EPOCH_KEYS, "`epoch` stands alone", notes);
    let seconds = selector(Some(&epoch), &EPOCH, notes);
    seconds.filter(|_| !refused).map(Cron::Epoch)
}

fn standard(at: &At, notes: &mut Notes) -> Option<StandardCron> {
    let refused = refuse_keys(at, STANDARD_KEYS, "unknown key", notes);
    let minute = at.required("minute", EXAMPLE, notes);
    let minute = minute.and_then(|at| selector(Some(&at), &MINUTE, notes));
    let hour = selector(at.get("hour").as_ref(), &HOUR, notes);
    let days = days(at, notes);
    let month = selector(at.get("month").as_ref(), &MONTH, notes);
    let year = selector(at.get("year").as_ref(), &YEAR, notes);
    let help = "what becomes of times that clocks skip or repeat, as in [\"unskip\", \"repeat_use_only_early\"]";
    let fixes = at.required("dst_fixes", help, notes);
    let fixes = fixes.and_then(|at| dst_fixes(&at, notes));
    let zone = match at.get("time_zone") {
        None => None,
        Some(at) => Some(time_zone(&at, notes)?),
    };
    let (skipped, repeated) = fixes?;
    let cron = StandardCron {
        minute: minute?,
        hour: hour?,
        days: days?,
        month: month?,
        year: year?,
        skipped,
        repeated,
        zone,
    };
    if refused {
        return None;
    }
    if cron.first_day(Date::ZERO).is_none() {
        notes.warning(at.problem("no day of the calendar is like that, so this is never"));
    }
    Some(cron)
}

/// Reports each key that is not in `known`, always as an error. Returns whether there was one.
fn refuse_keys(at: &At, known: &[Key], what: &str, notes: &mut Notes) -> bool {
    let mut refused = false;
    for entry in at
        .entries()
        .filter(|e| known.iter().all(|k| k.name != e.key()))
    {
        refused = true;
        if notes.error_is_kept() {
            let problem = entry.key_problem(what).value(quote(entry.key()));
            notes.error(problem.help(suggest(entry.key(), known.iter().map(|k| k.name))));
        }
    }
    refused
}

fn days(at: &At, notes: &mut Notes) -> Option<Days> {
    let (of_month, of_week) = (at.get("day_of_month"), at.get("day_of_week"));
    match (of_month, of_week) {
        (Some(of_month), Some(of_week)) => {
            notes.error(
                of_week
                    .key_problem("an item selects days of the month or of the week, not both")
                    .help("remove one; two items of a schedule are days of either kind"),
            );
            selector(Some(&of_month), &DAY_OF_MONTH, notes);
            selector(Some(&of_week), &DAY_OF_WEEK, notes);
            None
        }
        (None, Some(of_week)) => selector(Some(&of_week), &DAY_OF_WEEK, notes).map(Days::OfWeek),
        (of_month, None) => selector(of_month.as_ref(), &DAY_OF_MONTH, notes).map(Days::OfMonth),
    }
}

/// Reads a value, an array of values or a range; a missing value selects all.
fn selector(at: Option<&At>, field: &Field, notes: &mut Notes) -> Option<Selector> {
    let everything = Selector::everything(field.least, field.most);
    let Some(at) = at else {
        return Some(everything);
    };
    match &at.node.value {
        Value::Object(_) => range(at, field, notes),
        Value::Array(_) => {
            let errors_before = notes.errors.len();
            let values: Vec<i64> = at
                .items()
                .filter_map(|item| value(&item, field, notes))
                .collect();
            (notes.errors.len() == errors_before).then(|| everything.of_values(values))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Unread => {
            value(at, field, notes).map(|value| everything.of_values(vec![value]))
        }
    }
}

fn range(at: &At, field: &Field, notes: &mut Notes) -> Option<Selector> {
    let refused = refuse_keys(at, RANGE_KEYS, "unknown key", notes);
    let start = at.get("start").map(|at| value(&at, field, notes));
    let end_at = at.get("end");
    let end = end_at.as_ref().map(|at| value(at, field, notes));
    // Bistro has this limit: the longest conceivable step is refused.
    let longest = field.most - field.least - 1;
    let period = at.get("period").map(|at| at.integer(1..=longest, notes));
    let start = start.unwrap_or(Some(field.least))?;
    let end = end.unwrap_or(Some(field.most))?;
    let period = period.unwrap_or(Some(1))?;
    if start > end {
        let at = end_at.as_ref().unwrap_or(at);
        notes.error(
            at.problem(format!("the range from {start} to {end} is empty"))
                .help("ranges do not go round: list the values, as in [22, 23, 0, 1]"),
        );
        return None;
    }
    let everything = Selector::everything(field.least, field.most);
    (!refused).then(|| everything.of_range(start, end, period))
}

fn value(at: &At, field: &Field, notes: &mut Notes) -> Option<i64> {
    let numbers = format!("an integer from {} to {}", field.least, field.most);
    let (kind, allowed) = match field.names.first() {
        None => ("an integer", numbers),
        Some(first) => (
            "an integer or a name",
            format!("{numbers}, or a name, as in {} or {first}", &first[..3]),
        ),
    };
    match &at.node.value {
        Value::Number(number) => match number.as_i64() {
            Some(value) if (field.least..=field.most).contains(&value) => Some(value),
            Some(_) => {
                let text = format!("{} is out of range", at.node);
                notes.error(at.problem(text).help(allowed));
                None
            }
            None => {
                notes.error(at.expected(kind).help(allowed));
                None
            }
        },
        Value::String(word) if word.contains(['*', '/', ',']) => {
            let help = r#"every value: leave the key out; every fifth: {"period": 5}; several: [0, 30]; some in a row: {"start": 1, "end": 5}"#;
            notes.error(at.expected(kind).help(help));
            None
        }
        Value::String(word) if !field.names.is_empty() => {
            let found = field.names.iter().position(|name| {
                name.eq_ignore_ascii_case(word) || name[..3].eq_ignore_ascii_case(word)
            });
            let Some(position) = found else {
                let help = match nearest(word, field.names.iter().copied()) {
                    Some(known) => format!("did you mean `{known}`?"),
                    None => allowed,
                };
                notes.error(at.expected(kind).help(help));
                return None;
            };
            i64::try_from(position).ok().map(|p| field.least + p)
        }
        Value::Null
        | Value::Bool(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_)
        | Value::Unread => {
            notes.error(at.expected(kind).help(allowed));
            None
        }
    }
}

#[derive(Clone, Copy)]
enum Fix {
    Skipped(Skipped),
    Repeated(Repeated),
}

fn fixes() -> Vec<(&'static str, Fix)> {
    let skips = Skipped::ALL.map(|policy| (policy.as_str(), Fix::Skipped(policy)));
    let repeats = Repeated::ALL.map(|policy| (policy.as_str(), Fix::Repeated(policy)));
    skips.into_iter().chain(repeats).collect()
}

fn fix_names() -> Vec<&'static str> {
    fixes().into_iter().map(|(word, _)| word).collect()
}

/// Reads a word for skipped times and a word for repeated times.
fn dst_fixes(at: &At, notes: &mut Notes) -> Option<(Skipped, Repeated)> {
    if !at.expect_array("words", notes) {
        return None;
    }
    let errors_before = notes.errors.len();
    let words = fixes();
    let (mut skipped, mut repeated) = (None, None);
    for item in at.items() {
        let is_second = match item.choice(&words, notes) {
            Some(Fix::Skipped(policy)) => skipped.replace(policy).is_some(),
            Some(Fix::Repeated(policy)) => repeated.replace(policy).is_some(),
            None => false,
        };
        if is_second {
            let text = "an earlier word of this list has decided that";
            notes.error(item.problem(text).help("keep one of them"));
        }
    }
    if notes.errors.len() > errors_before {
        return None;
    }
    if skipped.is_none() {
        let text = "it does not say what becomes of times that clocks skip";
        notes.error(at.problem(text).help("add `skip` or `unskip`"));
    }
    if repeated.is_none() {
        let text = "it does not say what becomes of times that clocks repeat";
        let help = "add `repeat_use_both`, `repeat_use_only_early` or `repeat_use_only_late`";
        notes.error(at.problem(text).help(help));
    }
    Some((skipped?, repeated?))
}

fn time_zone(at: &At, notes: &mut Notes) -> Option<Zone> {
    let name = at.string(notes)?;
    let zone = Zone::named(&name);
    if zone.is_none() && notes.error_is_kept() {
        let text = format!("there is no time zone {}", quote(&name));
        notes.error(at.problem(text).help(suggest_zone(&name)));
    }
    zone
}
