//! Returns all jobs page by page, ordered by name. Pages bound the length of an answer, whatever the number of jobs.

use std::io;

use brasserie_common_config::{Config, JobConfig};
use brasserie_scheduler_core::MAX_LISTED_JOBS;
use brasserie_thrift::generated::brasserie::{BrasserieGetJobPageArgs, JobPage};
use thrift::protocol::{TBinaryOutputProtocol, TSerializable};

use super::export;

/// Maximum jobs of one page. An ordinary job takes about half a KiB, so writing and reading a page takes a few milliseconds. The most jobs
/// that the API can submit, 65,536, take 66 calls.
pub(super) const MAX_JOBS_A_PAGE: usize = MAX_LISTED_JOBS;
/// Maximum bytes of one page, unless its only job is longer: half of the longest frame. A job submitted through the API has at most a
/// megabyte, so each page holds several.
const MAX_PAGE_BYTES: usize = 8 * 1024 * 1024;

/// Returns the jobs after a name. A caller that continues after the last name of each page sees every job that exists throughout exactly
/// once. Names do not change, and their order does not depend on other jobs.
pub(super) fn page(config: &Config, args: &BrasserieGetJobPageArgs) -> JobPage {
    let (jobs, after_page) = jobs_after(config, &args.after, args.limit);
    let (jobs, fit) = fitting(jobs.into_iter().map(|job| export::job(config, job)));
    JobPage {
        jobs: Some(jobs),
        total: Some(total(config)),
        has_more: Some(after_page > 0 || !fit),
    }
}

pub(super) fn total(config: &Config) -> i64 {
    i64::try_from(config.jobs.len()).unwrap_or(i64::MAX)
}

/// Returns at most `limit` jobs after a name (the default page size if `limit` is 0 or less), and the number of jobs that follow.
pub(super) fn jobs_after<'c>(
    config: &'c Config,
    after: &str,
    limit: i32,
) -> (Vec<&'c JobConfig>, usize) {
    let limit = usize::try_from(limit).unwrap_or(0);
    let limit = match limit {
        0 => MAX_JOBS_A_PAGE,
        limit => limit.min(MAX_JOBS_A_PAGE),
    };
    let jobs = config.jobs.iter().map(|job| &**job);
    let mut left: Vec<&JobConfig> = jobs.filter(|job| job.name.as_str() > after).collect();
    let count = limit.min(left.len());
    if count < left.len() {
        // Sorting all jobs for each page would cost more than building the page.
        left.select_nth_unstable_by(count, |a, b| a.name.as_str().cmp(b.name.as_str()));
    }
    let after_page = left.len() - count;
    left.truncate(count);
    left.sort_unstable_by(|a, b| a.name.as_str().cmp(b.name.as_str()));
    (left, after_page)
}

/// Returns the first entries that fit into one answer, at least one, and whether all entries fit.
pub(super) fn fitting<T: TSerializable>(entries: impl Iterator<Item = T>) -> (Vec<T>, bool) {
    let (mut page, mut bytes) = (Vec::new(), 0);
    for entry in entries {
        bytes += length(&entry);
        if bytes > MAX_PAGE_BYTES && !page.is_empty() {
            return (page, false);
        }
        page.push(entry);
    }
    (page, true)
}

/// Returns the encoded length in the longer of the two protocols.
fn length(value: &impl TSerializable) -> usize {
    let mut bytes = Bytes(0);
    let mut out = TBinaryOutputProtocol::new(&mut bytes, true);
    value
        .write_to_out_protocol(&mut out)
        .expect("Invariant: counting does not fail");
    bytes.0
}

struct Bytes(usize);

impl io::Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brasserie_common_config::{ParseOptions, parse};

    fn config(jobs: &[(String, usize)]) -> Config {
        let jobs = jobs.iter().map(|(name, bytes)| {
            let data = "x".repeat(*bytes);
            format!(r#", "bistro_job->{name}": {{"owner": "o", "command": ["c"], "config": {{"d": "{data}"}}}}"#)
        });
        let text = format!(
            r#"{{"bistro_settings": {{"nodes": {{"levels": ["l"], "node_sources": []}}, "resources": {{}}}}{}}}"#,
            jobs.collect::<String>()
        );
        parse(&text, ParseOptions::default()).unwrap().config
    }

    fn names(page: &JobPage) -> Vec<&str> {
        let jobs = page.jobs.iter().flatten();
        jobs.map(|job| job.name.as_deref().unwrap()).collect()
    }

    fn after(config: &Config, after: &str, limit: i32) -> JobPage {
        let args = BrasserieGetJobPageArgs {
            after: after.to_owned(),
            limit,
        };
        page(config, &args)
    }

    #[test]
    fn pages_follow_the_names_and_say_what_is_left() {
        let jobs = ["b", "d", "a", "c", "C"].map(|name| (name.to_owned(), 0));
        let config = config(&jobs);
        let first = after(&config, "", 2);
        assert_eq!(names(&first), ["C", "a"]);
        assert_eq!((first.total, first.has_more), (Some(5), Some(true)));
        // No job has this name any more.
        let second = after(&config, "aa", 3);
        assert_eq!(names(&second), ["b", "c", "d"]);
        assert_eq!(second.has_more, Some(false));
        assert_eq!(names(&after(&config, "d", 3)), [""; 0]);
        assert_eq!(after(&config, "", 0).has_more, Some(false));
        assert_eq!(names(&after(&config, "", -1)).len(), 5);
    }

    #[test]
    fn a_page_has_no_more_jobs_and_bytes_than_it_may() {
        let many: Vec<_> = (0..MAX_JOBS_A_PAGE + 1)
            .map(|i| (format!("j{i:04}"), 0))
            .collect();
        let many = config(&many);
        let all = after(&many, "", i32::MAX);
        assert_eq!(
            (names(&all).len(), all.has_more),
            (MAX_JOBS_A_PAGE, Some(true))
        );
        assert_eq!(names(&after(&many, "j0999", 0)), ["j1000"]);
        let quarter = MAX_PAGE_BYTES / 4;
        let long = ["a", "b", "c", "d", "e"].map(|name| (name.to_owned(), quarter));
        let long = config(&long);
        let first = after(&long, "", 0);
        assert_eq!(
            (names(&first), first.has_more),
            (vec!["a", "b", "c"], Some(true))
        );
        assert_eq!(names(&after(&long, "c", 0)), ["d", "e"]);
        // A caller could never continue after a page without jobs.
        let huge = config(&[("a".to_owned(), MAX_PAGE_BYTES), ("b".to_owned(), 0)]);
        let first = after(&huge, "", 0);
        assert_eq!((names(&first), first.has_more), (vec!["a"], Some(true)));
        assert_eq!(names(&after(&huge, "a", 0)), ["b"]);
    }
}
