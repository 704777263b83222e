//! Finds the machine's time zone, for schedules that name none.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use brasserie_common_config::Zone;
use brasserie_common_runtime::files;

/// The machine's setting of its zone: a link into the zone data.
const LOCALTIME: &str = "/etc/localtime";
/// The file with the zone's name on some machines, above all those whose `LOCALTIME` is a copy.
const TIMEZONE: &str = "/etc/timezone";
/// The directory name that precedes zone names in paths of zone data.
const ZONEINFO: &str = "/zoneinfo/";
/// Maximum bytes read. A zone's name has at most 30.
const MAX_TIMEZONE_BYTES: u64 = 4096;

/// The machine's zone and the doubt about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemZone {
    pub zone: Zone,
    /// Why this may not be the zone that the operator means.
    pub doubt: Option<String>,
}

/// Returns the zone like the C library, but by name: from `TZ`, or else from the machine's setting, or else UTC.
pub fn system_zone() -> SystemZone {
    let machine = MachineZone {
        tz: env::var_os("TZ"),
        localtime: fs::read_link(LOCALTIME),
        timezone: files::read_regular(Path::new(TIMEZONE), MAX_TIMEZONE_BYTES).ok(),
    };
    machine.zone()
}

/// The zone settings of a machine.
struct MachineZone {
    tz: Option<OsString>,
    localtime: io::Result<PathBuf>,
    timezone: Option<Vec<u8>>,
}

impl MachineZone {
    fn zone(&self) -> SystemZone {
        if let Some(tz) = &self.tz {
            let text = tz.to_string_lossy();
            return match text.strip_prefix(':').unwrap_or(&text) {
                "" => known(Zone::utc()),
                name => match named(name) {
                    Some(zone) => known(zone),
                    None => unknown(format!("TZ={text} is not a name of the IANA list")),
                },
            };
        }
        if let Ok(target) = &self.localtime
            && let Some(zone) = named(&target.to_string_lossy())
        {
            return known(zone);
        }
        let written = self.timezone.as_deref().map(String::from_utf8_lossy);
        if let Some(zone) = written.and_then(|text| named(text.trim())) {
            return known(zone);
        }
        match &self.localtime {
            // A machine without a setting is in UTC, as for the C library.
            Err(error) if error.kind() == io::ErrorKind::NotFound => known(Zone::utc()),
            Ok(_) | Err(_) => unknown(format!("{LOCALTIME} does not contain the zone's name")),
        }
    }
}

/// Finds a zone by its name, or by a path into the zone data.
fn named(text: &str) -> Option<Zone> {
    let name = text.rsplit_once(ZONEINFO).map_or(text, |(_, name)| name);
    let name = name.strip_prefix("posix/").unwrap_or(name);
    Zone::named(name)
}

fn known(zone: Zone) -> SystemZone {
    SystemZone { zone, doubt: None }
}

fn unknown(why: String) -> SystemZone {
    SystemZone {
        zone: Zone::utc(),
        doubt: Some(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(tz: Option<&str>, localtime: io::Result<&str>, timezone: Option<&str>) -> SystemZone {
        let machine = MachineZone {
            tz: tz.map(OsString::from),
            localtime: localtime.map(PathBuf::from),
            timezone: timezone.map(|text| text.as_bytes().to_vec()),
        };
        machine.zone()
    }

    fn none() -> io::Result<&'static str> {
        Err(io::ErrorKind::NotFound.into())
    }

    /// Returns the error that `read_link` gives for a file that is no link.
    fn copied() -> io::Result<&'static str> {
        Err(io::ErrorKind::InvalidInput.into())
    }

    #[test]
    fn a_zone_is_found_where_machines_say_it() {
        let berlin = known(Zone::named("Europe/Berlin").unwrap());
        let link = "../usr/share/zoneinfo/Europe/Berlin";
        let tokyo = "/usr/share/zoneinfo/Asia/Tokyo";
        assert_eq!(zone(None, Ok(link), Some("Asia/Tokyo")), berlin);
        assert_eq!(zone(None, copied(), Some("Europe/Berlin\n")), berlin);
        assert_eq!(zone(Some("Europe/Berlin"), Ok(tokyo), None), berlin);
        assert_eq!(zone(Some(":Europe/Berlin"), Ok(tokyo), None), berlin);
        let path = "/usr/share/zoneinfo/posix/Europe/Berlin";
        assert_eq!(zone(Some(path), Ok(tokyo), None), berlin);
        assert_eq!(zone(Some(""), Ok(tokyo), None), known(Zone::utc()));
        assert_eq!(zone(None, none(), None), known(Zone::utc()));
    }

    #[test]
    fn what_is_not_known_is_utc_and_doubted() {
        let by_rule = zone(
            Some("CET-1CEST"),
            Ok("/usr/share/zoneinfo/Asia/Tokyo"),
            None,
        );
        assert_eq!(by_rule.zone, Zone::utc());
        assert!(by_rule.doubt.unwrap().contains("TZ=CET-1CEST"));
        let copy = zone(None, copied(), Some("Middle/Earth"));
        assert_eq!(copy.zone, Zone::utc());
        assert!(copy.doubt.unwrap().contains("/etc/localtime"));
    }
}
