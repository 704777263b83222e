//! Renders the cluster overview as a page without scripts or external resources, readable in a terminal browser.

use std::fmt::{self, Display, Write};

use brasserie_common::JobName;
use brasserie_common::cluster_view::{ClusterView, DEFAULT_ROWS, Table};
use brasserie_common::text::printable_lines;
use brasserie_common::time::readable_duration;
use brasserie_common_config::KeepOutputs;
use brasserie_scheduler_core::{ListedFile, ListedSet};

use super::selection::Selection;

/// The seconds after which a browser fetches the page again.
const REFRESH: u32 = 30;
/// The most jobs that a cell names.
const MAX_NAMED: usize = 5;

pub(super) const STYLE: &str = "body{font-family:sans-serif;margin:2em}table{border-collapse:collapse;margin-bottom:2em}\
    td,th{padding:.2em .8em;text-align:right;border-bottom:1px solid #ccc}\
    td:first-child,th:first-child{text-align:left}.bad{color:#a00}";

/// A text that displays as escaped HTML, because names come from peers and files.
pub(super) struct Escaped<'a>(pub &'a str);

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

/// A text that displays as a value in a URL's query.
pub(super) struct InUrl<'a>(pub &'a str);

impl Display for InUrl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.bytes().try_for_each(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => f.write_char(char::from(byte)),
            byte => write!(f, "%{byte:02X}"),
        })
    }
}

/// The outputs of tasks and the files of inputs that the page shows.
#[derive(Debug, Default)]
pub(super) struct PageArtifacts {
    pub sets: Vec<ListedSet>,
    pub more_sets: usize,
    pub files: Vec<ListedFile>,
    pub has_more_files: bool,
}

const SET_COLUMNS: [&str; 8] = [
    "outputs of job",
    "tasks",
    "artifacts",
    "bytes",
    "copies",
    "without a copy",
    "kept",
    "inputs of",
];
const FILE_COLUMNS: [&str; 5] = ["file", "from", "bytes", "state", "inputs of"];

/// Renders the page. `selection` is the query that chose the jobs of `view`.
pub(super) fn render(
    view: &ClusterView,
    selection: &Selection,
    artifacts: &PageArtifacts,
) -> String {
    let mut page = String::new();
    // Invariant: writing to a String cannot fail.
    write_page(&mut page, view, selection, artifacts).expect("a String takes any text");
    page
}

fn write_page(
    out: &mut String,
    view: &ClusterView,
    selection: &Selection,
    artifacts: &PageArtifacts,
) -> fmt::Result {
    // The listed jobs are one page of all jobs, sorted by name, if the query has `after`.
    let by_name = selection.after.is_some();
    let report = view.report(DEFAULT_ROWS.max(view.jobs.len()));
    write!(
        out,
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"{REFRESH}\">\
         <title>Brasserie</title><style>{STYLE}</style></head><body><h1>Brasserie</h1>\
         <p>Cluster {}, scheduler instance {}. This page <a href=\"/status\">as JSON</a>.</p>",
        Escaped(&view.cluster),
        Escaped(&view.scheduler)
    )?;
    write_list(out, " class=\"bad\"", &report.problems)?;
    write_left_out(out, report.problems_left_out as u64, "problems", "/status")?;
    for fact in &report.facts {
        write!(out, "<p>{}</p>", Escaped(fact))?;
    }
    match report.workers.rows.is_empty() {
        true => out.push_str("<p>No worker is connected.</p>"),
        false => write_table(out, &report.workers)?,
    }
    write_left_out(out, report.workers_left_out, "workers", "/status")?;
    write_list(out, "", &report.remarks)?;
    write_table(out, &report.jobs)?;
    match view.jobs.last().filter(|_| by_name && view.more_jobs) {
        Some(last) => {
            let next = InUrl(&last.name);
            let limit = selection.limit.map(|limit| format!("&amp;limit={limit}"));
            let limit = limit.unwrap_or_default();
            write!(
                out,
                "<p><a href=\"/?after={next}{limit}\">The next jobs</a></p>"
            )?;
        }
        None if by_name => {}
        None => write_left_out(out, report.jobs_left_out, "jobs", "/?after=")?,
    }
    write_artifacts(out, artifacts)?;
    out.push_str("</body></html>\n");
    Ok(())
}

/// Writes the tables of outputs and files, as far as there are any.
fn write_artifacts(out: &mut String, artifacts: &PageArtifacts) -> fmt::Result {
    let outputs = Table {
        columns: &SET_COLUMNS,
        rows: artifacts.sets.iter().map(set_cells).collect(),
    };
    let files = Table {
        columns: &FILE_COLUMNS,
        rows: artifacts.files.iter().map(file_cells).collect(),
    };
    for (table, is_whole) in [
        (outputs, artifacts.more_sets == 0),
        (files, !artifacts.has_more_files),
    ] {
        if !table.rows.is_empty() {
            write_table(out, &table)?;
        }
        if !is_whole {
            out.push_str("<p>There are more: <code>brasserie artifact list</code> has all.</p>");
        }
    }
    Ok(())
}

fn set_cells(set: &ListedSet) -> Vec<String> {
    let until = match (&set.expiry, set.ends_because) {
        (Ok(left), None) => format!("expire in {}", readable_duration(*left)),
        (Ok(left), Some(why)) => format!("expire in {}: {why}", readable_duration(*left)),
        (Err(why), _) => why.clone(),
    };
    let kept = match set.keep {
        KeepOutputs::For(time) => format!("for {}; {until}", readable_duration(time)),
        KeepOutputs::UntilConsumed => format!("until they are read; {until}"),
        KeepOutputs::WhileHeld => format!("while they are held; {until}"),
        KeepOutputs::Forever if set.expiry.is_err() => "forever".to_owned(),
        KeepOutputs::Forever => format!("forever; {until}"),
    };
    vec![
        set.job.to_string(),
        set.tasks.to_string(),
        set.artifacts.to_string(),
        set.bytes.to_string(),
        set.copies.to_string(),
        set.without_copy.to_string(),
        kept,
        job_names(&set.consumers, set.consumers.len()),
    ]
}

fn file_cells(file: &ListedFile) -> Vec<String> {
    let (bytes, state) = match &file.content {
        Ok(artifact) => (artifact.size.to_string(), "available".to_owned()),
        Err(why) => ("-".to_owned(), format!("missing: {why}")),
    };
    vec![
        file.name.to_string(),
        file.origin.as_str().to_owned(),
        bytes,
        state,
        job_names(&file.jobs, file.jobs_total),
    ]
}

/// Names some of `all` jobs.
fn job_names(jobs: &[JobName], all: usize) -> String {
    let named = jobs.iter().take(MAX_NAMED).map(JobName::as_str);
    let named: Vec<&str> = named.collect();
    match all - named.len() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

fn write_list(out: &mut String, class: &str, texts: &[String]) -> fmt::Result {
    if texts.is_empty() {
        return Ok(());
    }
    write!(out, "<ul{class}>")?;
    for text in texts {
        write!(out, "<li>{}</li>", Escaped(text))?;
    }
    out.write_str("</ul>")
}

fn write_table(out: &mut String, table: &Table) -> fmt::Result {
    out.push_str("<table><tr>");
    for column in table.columns {
        write!(out, "<th>{column}</th>")?;
    }
    out.push_str("</tr>");
    for row in &table.rows {
        out.push_str("<tr>");
        for cell in row {
            write!(out, "<td>{}</td>", Escaped(cell))?;
        }
        out.push_str("</tr>");
    }
    out.write_str("</table>")
}

fn write_left_out(out: &mut String, count: u64, what: &str, link: &str) -> fmt::Result {
    match count {
        0 => Ok(()),
        count => write!(
            out,
            "<p>{count} more {what}: <a href=\"{link}\">all</a></p>"
        ),
    }
}

#[cfg(test)]
mod tests {
    use brasserie_common::cluster_view::{JobView, WorkerView};
    use brasserie_scheduler_core::FileOrigin;

    use super::*;

    #[test]
    fn names_cannot_become_markup() {
        let escaped = Escaped("<script>alert('x' & \"y\")</script>").to_string();
        assert_eq!(
            escaped,
            "&lt;script&gt;alert(&#39;x&#39; &amp; &quot;y&quot;)&lt;/script&gt;"
        );
        let escaped = Escaped("\u{1b}[2J\u{9b}").to_string();
        assert_eq!(escaped, r"\u{1b}[2J\u{9b}", "terminals have browsers too");
        assert_eq!(InUrl("a b\"&ß").to_string(), "a%20b%22%26%C3%9F");
    }

    fn artifacts(name: &str) -> PageArtifacts {
        let job: JobName = name.try_into().expect("a name");
        PageArtifacts {
            sets: vec![ListedSet {
                job: job.clone(),
                keep: KeepOutputs::WhileHeld,
                consumers: vec![job.clone()],
                expiry: Err("they are held".to_owned()),
                ends_because: None,
                tasks: 2,
                artifacts: 3,
                bytes: 4096,
                copies: 5,
                without_copy: 1,
            }],
            more_sets: 1,
            files: vec![ListedFile {
                name: name.into(),
                origin: FileOrigin::Uploaded,
                content: Err("it is lost".to_owned()),
                jobs: vec![job],
                jobs_total: 9,
                copies: 0,
                holders: Vec::new(),
            }],
            has_more_files: false,
        }
    }

    #[test]
    fn outputs_and_files_are_tables_below_the_jobs() {
        let page = render(
            &ClusterView::default(),
            &Selection::default(),
            &artifacts("extract"),
        );
        let places = [
            "<th>outputs of job</th>",
            "<td>extract</td><td>2</td><td>3</td><td>4096</td><td>5</td><td>1</td><td>while they are held; they are held</td><td>extract</td>",
            "brasserie artifact list",
            "<th>file</th>",
            "<td>extract</td><td>uploaded</td><td>-</td><td>missing: it is lost</td><td>extract and 8 more</td>",
        ];
        let places = places.map(|text| page.find(text).expect(text));
        assert!(places.is_sorted(), "{page}");
        let none = render(
            &ClusterView::default(),
            &Selection::default(),
            &PageArtifacts::default(),
        );
        assert!(
            !none.contains("outputs of job") && !none.contains("<th>file"),
            "{none}"
        );
    }

    /// These fields are the only ones that peers can set.
    #[test]
    fn nothing_that_the_page_shows_becomes_markup() {
        let hostile = || "<i>\"'".to_owned();
        let worker = WorkerView {
            shard: hostile(),
            hostname: hostile(),
            address: hostile(),
            state: hostile(),
            waits_for: Some(hostile()),
            notes: vec![hostile()],
            ..WorkerView::default()
        };
        let job = JobView {
            name: hostile(),
            errors: vec![hostile()],
            ..JobView::default()
        };
        let view = ClusterView {
            scheduler: hostile(),
            cluster: hostile(),
            wait_ended: Some(hostile()),
            nothing_starts: vec![hostile()],
            errors: vec![hostile()],
            workers: vec![worker],
            jobs: vec![job],
            more_jobs: true,
            ..ClusterView::default()
        };
        let by_name = Selection {
            after: Some(String::new()),
            limit: Some(7),
            job: None,
        };
        for selection in [&Selection::default(), &by_name] {
            let page = render(&view, selection, &artifacts("<i>\"'"));
            assert!(!page.contains("<i>"), "{page}");
            assert!(page.contains("<td>&lt;i&gt;&quot;&#39;</td>"), "{page}");
        }
        let page = render(&view, &by_name, &PageArtifacts::default());
        let next = "href=\"/?after=%3Ci%3E%22%27&amp;limit=7\"";
        assert!(page.contains(next), "{page}");
    }

    #[test]
    fn problems_come_first_then_workers_then_jobs() {
        let view = ClusterView {
            errors: vec!["all is bad".to_owned()],
            workers: vec![WorkerView {
                shard: "w1".to_owned(),
                state: "healthy".to_owned(),
                ..WorkerView::default()
            }],
            jobs: vec![JobView {
                name: "j1".to_owned(),
                ..JobView::default()
            }],
            jobs_total: 7,
            more_jobs: true,
            ..ClusterView::default()
        };
        let none = PageArtifacts::default();
        let page = render(&view, &Selection::default(), &none);
        let places = ["all is bad", "<td>w1</td>", "<td>j1</td>", "6 more jobs"];
        let places = places.map(|text| page.find(text).expect(text));
        assert!(places.is_sorted(), "{page}");
        let empty = render(&ClusterView::default(), &Selection::default(), &none);
        assert!(empty.contains("No worker is connected."), "{empty}");
    }
}
