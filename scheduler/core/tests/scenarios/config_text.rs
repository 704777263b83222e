//! The `config` command: turns its words into the text of a config file.

use crate::transcript::Words;

/// The content of a `config` command, for the text of a file.
#[derive(Default)]
pub struct ConfigText {
    nodes: Vec<String>,
    settings: String,
    job: String,
    no_job: bool,
    /// Items of a schedule.
    schedule: Vec<String>,
    pub nodes_later: bool,
}

impl ConfigText {
    /// Adds one word of the command. `wall` is the wall time in seconds.
    pub fn add(&mut self, word: &str, w: &mut Words<'_>, wall: i64) -> Result<(), String> {
        let seconds = |w: &mut Words<'_>| w.duration("a time").map(|d| d.as_secs_f64());
        let method = |w: &mut Words<'_>| -> Result<String, String> {
            let method = w.word("a method")?;
            Ok(format!(
                r#", "kill_subprocess": {{"method": "{method}", "kill_wait_ms": 7000}}"#
            ))
        };
        match word {
            "backoff" => {
                let steps = backoff_steps(w)?;
                self.job += &format!(r#", "backoff": [{steps}]"#);
            }
            "leave-wait-before" => {
                let ahead = w.duration("how far ahead")?.as_secs();
                let at = wall + i64::try_from(ahead).map_err(|e| e.to_string())?;
                self.settings +=
                    &format!(r#", "CAUTION_exit_initial_wait_before_timestamp": {at}"#);
            }
            "no-job" => self.no_job = true,
            "disabled" => self.job += r#", "enabled": false"#,
            "faulty" => self.job += r#", "priority": "high""#,
            "switched-off" => self.settings += r#", "enabled": false"#,
            "without-node" => {
                let node = w.word("a node")?;
                self.nodes
                    .push(format!(r#""{node}": {{"children": [], "disabled": true}}"#));
            }
            "working-wait" => self.settings += &format!(r#", "working_wait": {}"#, seconds(w)?),
            "orphans-end-after" => {
                self.settings += &format!(r#", "kill_orphan_tasks_after_sec": {}"#, seconds(w)?);
            }
            "job-orphans-end-after" => {
                self.job += &format!(r#", "kill_orphan_tasks_after_sec": {}"#, seconds(w)?);
            }
            "job-orphans-stay" => self.job += r#", "kill_orphan_tasks_after_sec": false"#,
            "kill-by" => self.settings += &method(w)?,
            "job-kill-by" => self.job += &method(w)?,
            "may-wait" => self.job += r#", "bufferable": true"#,
            "takes" => self.job += &format!(r#", "est_duration": {}"#, seconds(w)?),
            "due" => self.job += &format!(r#", "deadline": {}"#, seconds(w)?),
            "nodes-later" => self.nodes_later = true,
            "each" => {
                let period = w.duration("a period")?.as_secs();
                let lifetime = w.duration("a lifetime")?.as_secs();
                self.schedule.push(format!(
                    r#"{{"cron": {{"epoch": {{"period": {period}}}}}, "lifetime": {lifetime}}}"#
                ));
            }
            node => self.nodes.push(format!(r#""{node}": []"#)),
        }
        Ok(())
    }

    pub fn render(&self) -> String {
        let job = match self.no_job {
            true => String::new(),
            false => format!(
                r#", "bistro_job->j": {{"owner": "o", "command": ["/bin/true"] {}}}"#,
                self.job
            ),
        };
        let mut sources = Vec::new();
        if !self.nodes.is_empty() || self.schedule.is_empty() {
            let nodes = self.nodes.join(", ");
            sources.push(format!(r#"{{"source": "manual", "prefs": {{{nodes}}}}}"#));
        }
        if !self.schedule.is_empty() {
            let schedule = self.schedule.join(", ");
            sources.push(format!(
                r#"{{"source": "add_time", "prefs": {{"parent_level": "instance", "format": "t{{time}}", "schedule": [{schedule}]}}}}"#
            ));
        }
        format!(
            r#"{{"bistro_settings": {{"nodes": {{"levels": ["l"], "node_order": "original",
                "node_sources": [{}]}}, "resources": {{}}{}}}{job}}}"#,
            sources.join(", "),
            self.settings
        )
    }
}

fn backoff_steps(w: &mut Words<'_>) -> Result<String, String> {
    let mut steps = Vec::new();
    loop {
        match w.word("`repeat` or `fail`")? {
            last @ ("repeat" | "fail") => {
                steps.push(format!("\"{last}\""));
                return Ok(steps.join(", "));
            }
            step => steps.push(step.to_owned()),
        }
    }
}
