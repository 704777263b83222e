//! Parses the preferences of the node source `add_time`: a child of each node of a level for each time of a schedule.

use crate::children::{PARENT_LEVEL, check_format, parent_level};
use crate::coerce::set;
use crate::cron::{CRON, MAX_TIMES, cron};
use crate::keys::{Key, Shape, TEXTS};
use crate::model::{AddTime, Config, NodeNaming, ScheduleItem};
use crate::read::{At, Notes};

pub(crate) const KEYS: &[Key] = &[
    PARENT_LEVEL,
    Key::new(
        "format",
        Shape::Name,
        "The name of a node, with the placeholders `{parent}` and `{time}`.",
    ),
    Key::new(
        "schedule",
        Shape::List(&Shape::Fields(ITEM_KEYS)),
        "The items of the schedule.",
    ),
];
const ITEM_KEYS: &[Key] = &[
    Key::required(
        "cron",
        CRON,
        "The times: Unix seconds, or fields of a calendar.",
    ),
    Key::required(
        "lifetime",
        Shape::Duration,
        "The time for which a node exists, from its own time on.",
    ),
    Key::new(
        "enabled_lifetime",
        Shape::Duration,
        "The part of the lifetime during which new tasks start.",
    ),
    Key::new(
        "tags",
        TEXTS,
        "The tags of the nodes, for `tag_whitelist` of filters.",
    ),
];
const PLACEHOLDERS: &[&str] = &["parent", "time"];

pub(crate) fn parse(
    prefs: &At,
    naming: NodeNaming,
    config: &Config,
    notes: &mut Notes,
) -> Option<AddTime> {
    prefs.check_keys(KEYS, notes);
    let parent_level = parent_level(prefs, config, notes);
    let mut format = "{parent}:{time}".to_owned();
    if let Some(at) = prefs.get("format") {
        set(&mut format, at.string(notes));
        check_format(&at, &format, PLACEHOLDERS, "time", notes);
    }
    let schedule = schedule(prefs, notes);
    Some(AddTime {
        parent_level: parent_level?,
        format,
        schedule: schedule?,
        naming,
    })
}

fn schedule(prefs: &At, notes: &mut Notes) -> Option<Vec<ScheduleItem>> {
    let at = prefs.get("schedule");
    if at
        .as_ref()
        .is_none_or(|a| a.as_array().is_some_and(<[_]>::is_empty))
    {
        notes.warning(
            prefs
                .key_problem("its schedule is empty, so it gives no node")
                .help("name items in `schedule`, each with `cron` and `lifetime`"),
        );
    }
    let Some(at) = at else {
        return Some(Vec::new());
    };
    if !at.expect_array("schedule items", notes) {
        return None;
    }
    // Reads all items first, so that each reports its mistakes.
    let items: Vec<Option<ScheduleItem>> = at.items().map(|at| item(&at, notes)).collect();
    items.into_iter().collect()
}

fn item(at: &At, notes: &mut Notes) -> Option<ScheduleItem> {
    if !at.expect_object(notes) {
        return None;
    }
    at.check_keys(ITEM_KEYS, notes);
    let when = at.required(
        "cron",
        "when: an item by `epoch`, or by `minute` and so on",
        notes,
    );
    let cron = when.and_then(|at| cron(&at, notes));
    let help = "how long a time stays a node, as in 3600 or 2h";
    let lifetime_at = at.required("lifetime", help, notes);
    let lifetime = lifetime_at.as_ref().and_then(|at| at.duration(notes));
    let enabled_lifetime = match at.get("enabled_lifetime") {
        None => lifetime,
        Some(at) => at.duration(notes),
    };
    let tags = match at.get("tags") {
        None => Some(Vec::new()),
        Some(at) => at.strings(notes),
    };
    let lifetime_at = lifetime_at?;
    if lifetime.is_some_and(|lifetime| lifetime.is_zero()) {
        notes.error(lifetime_at.problem("the lifetime is zero").help(help));
        return None;
    }
    let item = ScheduleItem {
        cron: cron?,
        lifetime: lifetime?,
        enabled_lifetime: enabled_lifetime?,
        tags: tags?,
    };
    if item.has_too_many_times() {
        let text = format!("more than {MAX_TIMES} times fall within this lifetime");
        notes.error(
            lifetime_at
                .problem(text)
                .help("shorten it, or select fewer times"),
        );
        return None;
    }
    Some(item)
}
