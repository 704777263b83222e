//! The cluster at a glance as a page: no scripts, nothing to load, readable in a terminal browser.

use std::fmt::{self, Display, Write};
use std::time::Duration;

use brasserie_common::text::printable_lines;
use brasserie_common::time::format_duration;
use brasserie_common::{Hold, WallTime};
use brasserie_scheduler_core::{
    ClusterStatus, ConfigInForce, JobStatus, ReadBy, StoreStatus, WorkCounts, WorkerStatus,
};

const STYLE: &str = "body{font-family:sans-serif;margin:2em}table{border-collapse:collapse;margin-bottom:2em}\
    td,th{padding:.2em .8em;text-align:right;border-bottom:1px solid #ccc}\
    td:first-child,th:first-child{text-align:left}.bad{color:#a00}";

/// Text as HTML shows it: names come from peers and files.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in printable_lines(self.0).chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

pub(super) fn render(status: &ClusterStatus) -> String {
    let mut page = String::new();
    // Invariant: writing to a String cannot fail.
    write_page(&mut page, status).expect("a String takes any text");
    page
}

fn write_page(out: &mut String, status: &ClusterStatus) -> fmt::Result {
    write!(
        out,
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Brasserie</title>\
         <style>{STYLE}</style></head><body><h1>Brasserie</h1>\
         <p>Cluster {}, scheduler instance {}. The same as <a href=\"/status\">JSON</a>.</p>",
        status.cluster, status.scheduler
    )?;
    if let Some(wait) = &status.initial_wait {
        write!(out, "<p class=\"bad\">{}</p>", Escaped(wait))?;
    } else if let Some(why) = &status.wait_ended {
        write!(out, "<p>The initial wait is over: {}.</p>", Escaped(why))?;
    }
    if let Some(config) = &status.config {
        write_config(out, config, status.wall)?;
    }
    if !status.errors.is_empty() {
        out.push_str("<ul class=\"bad\">");
        for error in &status.errors {
            write!(out, "<li>{}</li>", Escaped(error))?;
        }
        out.push_str("</ul>");
    }
    out.push_str(
        "<table><tr><th>job</th><th>tasks</th><th>done</th><th>running</th><th>unstarted</th><th>error</th>\
         <th>in backoff</th><th>failed</th><th>can never run</th></tr>",
    );
    status.jobs.iter().try_for_each(|job| write_job(out, job))?;
    out.push_str("</table>");
    write_workers(out, &status.workers)?;
    write_work(out, &status.work)?;
    write_store(out, status.store.as_ref())?;
    out.push_str("</body></html>\n");
    Ok(())
}

fn write_store(out: &mut String, store: Option<&StoreStatus>) -> fmt::Result {
    let Some(store) = store else {
        return Ok(());
    };
    let mib = |bytes: u64| bytes as f64 / 1_048_576.0;
    write!(
        out,
        "<p>Store: {} completions ({} of nodes that do not exist) in {:.1} MiB",
        store.completions,
        store.missing,
        mib(store.size.bytes)
    )?;
    if let Some(growth) = store.growth {
        let sign = if growth.bytes < 0 { "-" } else { "+" };
        let (bytes, over) = (
            mib(growth.bytes.unsigned_abs()),
            format_duration(growth.over),
        );
        write!(out, ", {sign}{bytes:.1} MiB in {over}")?;
    }
    write!(
        out,
        "; {:.1} MiB of its disk are free.</p>",
        mib(store.size.disk_free_bytes)
    )
}

fn write_config(out: &mut String, config: &ConfigInForce, wall: WallTime) -> fmt::Result {
    let Some(path) = &config.path else {
        return Ok(());
    };
    let (class, kept) = match config.read_by {
        ReadBy::ThisScheduler => ("", ""),
        ReadBy::AnEarlierScheduler => (" class=\"bad\"", ", kept by an earlier scheduler"),
    };
    let seconds = config.since.until(wall).as_secs();
    write!(
        out,
        "<p{class}>Config {}, in force for {}{kept}.</p>",
        Escaped(path),
        format_duration(Duration::from_secs(seconds))
    )
}

fn write_job(out: &mut String, job: &JobStatus) -> fmt::Result {
    let c = &job.counts;
    let note = match (job.hold, job.enabled) {
        (Some(Hold::Cancelled), _) => " (cancelled)",
        (Some(Hold::Paused), _) => " (paused)",
        (None, true) => "",
        (None, false) => " (disabled)",
    };
    write!(out, "<tr><td>{}{note}", Escaped(job.name.as_str()))?;
    for error in &job.errors {
        write!(out, "<br><span class=\"bad\">{}</span>", Escaped(error))?;
    }
    out.push_str("</td>");
    let errors = c.incomplete + c.error;
    for count in [
        c.total,
        c.done,
        c.running,
        c.unstarted,
        errors,
        c.in_backoff,
        c.failed,
        c.never,
    ] {
        write!(out, "<td>{count}</td>")?;
    }
    out.push_str("</tr>");
    Ok(())
}

/// Nothing where nobody asks.
fn write_work(out: &mut String, work: &WorkCounts) -> fmt::Result {
    if work.requests == 0 {
        return Ok(());
    }
    write!(
        out,
        "<p>Requests for work: {}, of which {} were looked at; {} came again, {} while their workers could get nothing, {} too \
         soon, {} when too many came at once.</p>",
        work.requests, work.looked_at, work.repeated, work.not_ready, work.too_soon, work.too_many
    )?;
    match work.missing_runs {
        0 => Ok(()),
        missing => write!(
            out,
            "<p class=\"bad\">They did not list {missing} runs that their workers had taken.</p>"
        ),
    }
}

fn write_workers(out: &mut String, workers: &[WorkerStatus]) -> fmt::Result {
    if workers.is_empty() {
        out.push_str("<p>No worker has connected.</p>");
        return Ok(());
    }
    out.push_str(
        "<table><tr><th>worker</th><th>host</th><th>address</th><th>state</th><th>running</th><th>unsure</th>\
         <th>heartbeat</th></tr>",
    );
    workers
        .iter()
        .try_for_each(|worker| write_worker(out, worker))?;
    out.push_str("</table>");
    Ok(())
}

fn write_worker(out: &mut String, worker: &WorkerStatus) -> fmt::Result {
    write!(out, "<tr><td>{}", Escaped(worker.shard.as_str()))?;
    if let Some(what) = &worker.waits_for {
        write!(out, "<br>waits {}", Escaped(what))?;
    }
    if let Some(asked) = &worker.asked {
        write!(out, "<br>{}", Escaped(&asked.to_string()))?;
    }
    for note in &worker.notes {
        write!(out, "<br><span class=\"bad\">{}</span>", Escaped(note))?;
    }
    write!(
        out,
        "</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>",
        Escaped(&worker.hostname),
        Escaped(&worker.address.to_string()),
        worker.health.word(),
        worker.running,
        worker.unsure,
    )?;
    if let Some(since) = worker.since_heartbeat {
        let seconds = Duration::from_secs(since.as_secs());
        write!(out, "{} ago", format_duration(seconds))?;
    }
    out.push_str("</td></tr>");
    Ok(())
}

#[cfg(test)]
mod tests {
    use brasserie_common::{
        Health, Processor, SchedulerId, ServiceAddress, Shard, WallTime, WorkRequestSeq, WorkerId,
    };
    use brasserie_scheduler_core::credits::{Asked, AskedOfType};
    use brasserie_scheduler_core::{ClusterId, StoreGrowth, StoreSize};

    use super::*;

    fn status() -> ClusterStatus {
        ClusterStatus {
            scheduler: SchedulerId::new(1, 2),
            cluster: ClusterId(3),
            wall: WallTime::from_millis(4),
            initial_wait: None,
            wait_ended: None,
            jobs: Vec::new(),
            workers: Vec::new(),
            errors: Vec::new(),
            nothing_starts: Vec::new(),
            nodes_loaded: true,
            config: None,
            work: WorkCounts::default(),
            store: None,
        }
    }

    #[test]
    fn names_cannot_become_markup() {
        let escaped = Escaped("<script>alert('x' & \"y\")</script>").to_string();
        assert_eq!(
            escaped,
            "&lt;script&gt;alert(&#39;x&#39; &amp; &quot;y&quot;)&lt;/script&gt;"
        );
        let escaped = Escaped("\u{1b}[2J\u{9b}").to_string();
        assert_eq!(escaped, r"\u{1b}[2J\u{9b}", "terminals have browsers too");
    }

    #[test]
    fn a_worker_shows_how_it_stands_and_nothing_of_it_becomes_markup() {
        let worker = WorkerStatus {
            shard: Shard::try_from("<w>").unwrap(),
            hostname: "<host>".into(),
            address: ServiceAddress {
                host: "<address>".into(),
                port: 7,
            },
            id: WorkerId::new(10, 20),
            health: Health::Unhealthy,
            running: 5,
            unsure: 3,
            begun_anew: 1,
            since_heartbeat: Some(Duration::from_millis(61_500)),
            waits_for: Some("for `<b>`".to_owned()),
            notes: vec!["is <i>odd".to_owned(), "is late".to_owned()],
            asked: Some(Asked {
                seq: WorkRequestSeq(7),
                age: Duration::from_millis(1500),
                left: Some(Duration::from_secs(28)),
                of_types: vec![AskedOfType {
                    processor: Processor::named("A<b>"),
                    instances: 1.0,
                    instance_secs: 2.5,
                    idle: 0.0,
                    sent: 3,
                    ready: 4,
                    late: 0,
                }],
            }),
            containment: None,
        };
        let page = render(&ClusterStatus {
            workers: vec![worker],
            ..status()
        });
        let row = "<tr><td>&lt;w&gt;<br>waits for `&lt;b&gt;`\
                   <br>asked for work 1500ms ago, and gets for 28s more: A&lt;b&gt; 2.5 s of work, or for 1 instance (3 sent, 4 ready)\
                   <br><span class=\"bad\">is &lt;i&gt;odd</span>\
                   <br><span class=\"bad\">is late</span></td><td>&lt;host&gt;</td><td>&lt;address&gt;:7</td>\
                   <td>unhealthy</td><td>5</td><td>3</td><td>61s ago</td></tr>";
        assert!(page.contains(row), "{page}");
    }

    #[test]
    fn the_page_counts_requests_for_work_where_somebody_asks() {
        assert!(!render(&status()).contains("Requests for work"));
        let work = WorkCounts {
            requests: 9,
            looked_at: 3,
            repeated: 1,
            not_ready: 2,
            too_soon: 2,
            too_many: 1,
            missing_runs: 0,
        };
        let page = render(&ClusterStatus { work, ..status() });
        assert!(
            page.contains("Requests for work: 9, of which 3 were looked at")
                && !page.contains("did not list"),
            "{page}"
        );
        let missing_runs = 4;
        let work = WorkCounts {
            missing_runs,
            ..work
        };
        let page = render(&ClusterStatus { work, ..status() });
        assert!(page.contains("did not list 4 runs"), "{page}");
    }

    #[test]
    fn the_page_shows_the_size_and_growth_of_the_store() {
        assert!(!render(&status()).contains("Store:"));
        let store = StoreStatus {
            size: StoreSize {
                bytes: 276 << 20,
                free_bytes: 0,
                disk_bytes: 1 << 40,
                disk_free_bytes: 1 << 30,
            },
            growth: Some(StoreGrowth {
                bytes: -(1 << 19),
                over: Duration::from_secs(7200),
            }),
            completions: 2_000_000,
            missing: 1_999_999,
        };
        let store = Some(store);
        let page = render(&ClusterStatus { store, ..status() });
        let line = "<p>Store: 2000000 completions (1999999 of nodes that do not exist) in 276.0 MiB, -0.5 MiB in 2h; 1024.0 MiB of its disk \
                    are free.</p>";
        assert!(page.contains(line), "{page}");
    }

    #[test]
    fn the_page_says_why_nothing_starts_or_why_something_may() {
        let waits = render(&ClusterStatus {
            initial_wait: Some("waits for <w>".to_owned()),
            ..status()
        });
        assert!(
            waits.contains("<p class=\"bad\">waits for &lt;w&gt;</p>")
                && waits.contains("No worker has connected."),
            "{waits}"
        );
        let over = render(&ClusterStatus {
            wait_ended: Some("the cluster is <new>".to_owned()),
            ..status()
        });
        assert!(
            over.contains("<p>The initial wait is over: the cluster is &lt;new&gt;.</p>"),
            "{over}"
        );
    }
}
