//! The cluster at a glance as a page: no scripts, nothing to load, readable in a terminal browser.

use std::fmt::{self, Display, Write};

use brasserie_scheduler_core::{ClusterStatus, JobStatus, WorkerStatus};

const STYLE: &str = "body{font-family:sans-serif;margin:2em}table{border-collapse:collapse;margin-bottom:2em}\
    td,th{padding:.2em .8em;text-align:right;border-bottom:1px solid #ccc}\
    td:first-child,th:first-child{text-align:left}.bad{color:#a00}";

/// Text as HTML shows it: names come from peers and files.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
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
    out.push_str(
        "</table><table><tr><th>worker</th><th>host</th><th>address</th><th>state</th><th>running</th></tr>",
    );
    status
        .workers
        .iter()
        .try_for_each(|worker| write_worker(out, worker))?;
    out.push_str("</table></body></html>\n");
    Ok(())
}

fn write_job(out: &mut String, job: &JobStatus) -> fmt::Result {
    let c = &job.counts;
    let note = if job.enabled { "" } else { " (disabled)" };
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

fn write_worker(out: &mut String, worker: &WorkerStatus) -> fmt::Result {
    write!(
        out,
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
        Escaped(worker.shard.as_str()),
        Escaped(&worker.hostname),
        Escaped(&worker.address.to_string()),
        worker.health.as_str(),
        worker.running,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_become_markup() {
        let escaped = Escaped("<script>alert('x' & \"y\")</script>").to_string();
        assert_eq!(
            escaped,
            "&lt;script&gt;alert(&#39;x&#39; &amp; &quot;y&quot;)&lt;/script&gt;"
        );
    }
}
