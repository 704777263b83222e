//! Reads the audit log in pages.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::Path;

use brasserie_common::access::ShardLabel;
use brasserie_common::{Shard, WallTime};
use parking_lot::Mutex;
use serde_json::Value;

use super::lines::shown;
use super::writer::{MOST_FILES, number, path};

/// The most lines of a page, and the most bytes of them.
const MAX_LINES: usize = 1000;
const MAX_BYTES: usize = 1 << 20;
/// The most bytes that are read for one page: some ten milliseconds.
const MAX_READ: u64 = 8 << 20;

/// The place up to which the log was read: a file by the number of its first line, and the bytes of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub file: u64,
    pub offset: u64,
}

/// The wanted lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct PageQuery {
    /// `None`: from the oldest line on.
    pub after: Option<Place>,
    pub since: Option<WallTime>,
    pub until: Option<WallTime>,
    /// A role, owner, token, shard, user or address.
    pub who: Option<String>,
    /// A call, or the kind or the name of what it is about.
    pub what: Option<String>,
    pub refused_only: bool,
}

/// Some lines, the oldest first.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Page {
    pub lines: Vec<String>,
    pub read_to: Place,
    pub has_more: bool,
}

/// A file with at least one line.
struct OpenFile {
    file: BufReader<File>,
    first: u64,
}

pub(super) fn read(folder: &Path, renames: &Mutex<()>, query: &PageQuery) -> io::Result<Page> {
    let files = {
        let _renames = renames.lock();
        open_all(folder)?
    };
    let mut page = Page {
        lines: Vec::new(),
        read_to: query.after.unwrap_or_default(),
        has_more: false,
    };
    let (mut bytes, mut read) = (0, 0);
    // Files before that of the place are read; so is all of a file that is not kept any more.
    for mut file in files
        .into_iter()
        .filter(|file| file.first >= page_file(query))
    {
        let offset = match query.after {
            Some(place) if place.file == file.first => place.offset,
            Some(_) | None => 0,
        };
        file.file.seek(SeekFrom::Start(offset))?;
        page.read_to = Place {
            file: file.first,
            offset,
        };
        loop {
            if page.lines.len() >= MAX_LINES || bytes >= MAX_BYTES || read >= MAX_READ {
                page.has_more = true;
                return Ok(page);
            }
            let mut line = Vec::new();
            let length = file.file.read_until(b'\n', &mut line)? as u64;
            // The end of the file, or a line that is being written.
            if line.pop() != Some(b'\n') {
                break;
            }
            if is_wanted(&line, query) {
                bytes += line.len();
                page.lines.push(String::from_utf8_lossy(&line).into_owned());
            }
            read += length;
            page.read_to.offset += length;
        }
    }
    Ok(page)
}

fn page_file(query: &PageQuery) -> u64 {
    query.after.map_or(0, |place| place.file)
}

/// Opens all files, the oldest first. A file without a line is left out.
fn open_all(folder: &Path) -> io::Result<Vec<OpenFile>> {
    let mut files = Vec::new();
    for age in (0..MOST_FILES).rev() {
        let file = match File::open(path(folder, age)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let mut file = BufReader::new(file);
        // A first line that is damaged has the number of the first one that is not.
        let mut line = Vec::new();
        let first = loop {
            line.clear();
            if file.read_until(b'\n', &mut line)? == 0 {
                break None;
            }
            if let Some(first) = number(&line) {
                break Some(first);
            }
        };
        if let Some(first) = first {
            files.push(OpenFile { file, first });
        }
    }
    Ok(files)
}

/// Returns whether a page has a line. Each line is judged alone: the clock may have been wrong for those around it.
fn is_wanted(line: &[u8], query: &PageQuery) -> bool {
    let Ok(line) = serde_json::from_slice::<Value>(line) else {
        return false;
    };
    let field = |name: &str| line.get(name).and_then(Value::as_str).unwrap_or_default();
    let time = field("time");
    let is_early_enough = query.until.is_none_or(|until| *time < *shown(until));
    let is_any = |wanted: &Option<String>, names: &[&str]| {
        let mut names = names.iter();
        wanted
            .as_ref()
            .is_none_or(|wanted| names.any(|name| field(name) == wanted))
    };
    let shard = field("shard");
    // A line may have the hash of a shard, or its name without characters that are not shown.
    let is_shard = |wanted: &String| {
        let label = Shard::try_from(wanted.as_str()).map(|wanted| ShardLabel::of(&wanted));
        let is_same = |label: ShardLabel| label.as_str() == shard || label.to_string() == shard;
        !shard.is_empty() && label.is_ok_and(is_same)
    };
    let host = field("from").rsplit_once(':').map(|(host, _)| host);
    let is_from = |wanted: &String| {
        let host = host.map(|host| host.trim_matches(['[', ']']));
        host == Some(wanted.as_str())
    };
    let is_who = is_any(
        &query.who,
        &["role", "owner", "token", "shard", "user", "from", "who"],
    ) || query
        .who
        .as_ref()
        .is_some_and(|who| is_from(who) || is_shard(who));
    let is_late_enough = query.since.is_none_or(|since| *time >= *shown(since));
    let is_refused = !query.refused_only || field("outcome") != "ok";
    let is_what = is_any(&query.what, &["what", "object", "name"]);
    is_early_enough && is_late_enough && is_who && is_refused && is_what
}
