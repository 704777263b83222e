//! Time zones by name, from the compiled-in list.

use std::fmt;

use jiff::tz::{TimeZone, TimeZoneDatabase};

use crate::problem::nearest;

/// A zone of the IANA list. Independent of the zones installed or set on this machine.
#[derive(Clone, PartialEq, Eq)]
pub struct Zone {
    name: String,
    rules: TimeZone,
}

impl Zone {
    pub fn utc() -> Zone {
        Zone {
            name: "UTC".to_owned(),
            rules: TimeZone::UTC,
        }
    }

    /// Returns the zone of a name such as `Europe/Berlin`; case is ignored.
    pub fn named(name: &str) -> Option<Zone> {
        let rules = TimeZoneDatabase::bundled().get(name).ok()?;
        // The zone for unknown time has no name.
        let name = rules.iana_name()?.to_owned();
        Some(Zone { name, rules })
    }

    /// Returns the name in the spelling of the list.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn rules(&self) -> &TimeZone {
        &self.rules
    }
}

/// Formats the name alone: the rules follow from it, and are long.
impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Zone").field(&self.name).finish()
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Returns the help for a name that is not on the list.
pub(super) fn suggest_zone(name: &str) -> String {
    let database = TimeZoneDatabase::bundled();
    let known: Vec<String> = database.available().map(|n| n.to_string()).collect();
    let known = known.iter().map(String::as_str);
    // People know the city, but often not its continent on the list.
    let is_city = |zone: &&str| {
        let city = zone.rsplit('/').next().unwrap_or(zone);
        city.eq_ignore_ascii_case(&name.replace(' ', "_"))
    };
    match known.clone().find(is_city).or_else(|| nearest(name, known)) {
        Some(known) => format!("did you mean `{known}`?"),
        None => "a name of the IANA list, as in Europe/Berlin or UTC".to_owned(),
    }
}
