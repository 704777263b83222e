//! The outputs and inputs of the workload's jobs.

use super::Workload;

/// The outputs and inputs of one job.
#[derive(Clone, Debug, Default)]
pub(super) struct JobArtifacts {
    /// The keys about outputs, each preceded by a comma; empty if the job has none.
    outputs: String,
    /// The job has one task, on the node above all others.
    pub is_at_top: bool,
    /// The jobs whose outputs the tasks need, each with the value of the key `node`.
    inputs: Vec<(u16, &'static str)>,
    /// How long a task waits for a worker with its inputs, in seconds.
    locality_wait: usize,
}

/// The outputs of a job. What their content depends on is in `hosts/desk/content.rs`.
const OUTPUTS: [&str; 5] = [
    r#"["fixed"]"#,
    r#"["fresh"]"#,
    r#"["fixed", "fresh"]"#,
    r#"["common"]"#,
    r#"["common", "fixed"]"#,
];

/// The name of the node above all others in a world with artifacts. A task there needs a name with a number.
pub const TOP_NODE: &str = "n9999";

/// The times for which outputs are kept.
const KEEPS: [&str; 4] = [
    "",
    r#", "keep": "forever""#,
    r#", "keep": "until_consumed""#,
    r#", "keep": "2 min""#,
];

/// Seconds below which the waits for a worker with inputs are drawn: some end by time, and some because the worker has a free slot.
const LONGEST_LOCALITY_WAIT: usize = 90;

impl Workload {
    pub(super) fn draw_artifacts(&mut self) -> JobArtifacts {
        let Some(dice) = &mut self.extras.artifacts else {
            return JobArtifacts::default();
        };
        let mut drawn = JobArtifacts::default();
        if dice.per_mille(700) {
            let outputs = OUTPUTS[dice.below(OUTPUTS.len())];
            let keep = KEEPS[dice.below(KEEPS.len())];
            drawn.outputs = format!(r#", "outputs": {outputs}{keep}"#);
        }
        drawn.is_at_top = dice.per_mille(150);
        // Inputs come from earlier jobs only, so no cycle arises.
        let sources = self.jobs.iter();
        let sources = sources.filter(|job| !job.artifacts.outputs.is_empty());
        for source in sources {
            if dice.per_mille(500) {
                let near = match (drawn.is_at_top, source.artifacts.is_at_top) {
                    (true, false) => "children",
                    (false, true) => "parent",
                    (true, true) | (false, false) => "same",
                };
                let node = if dice.per_mille(500) { near } else { "all" };
                drawn.inputs.push((source.number, node));
            }
        }
        if !drawn.inputs.is_empty() && dice.per_mille(500) {
            drawn.locality_wait = dice.below(LONGEST_LOCALITY_WAIT);
        }
        drawn
    }

    /// Returns the name of the node above all others.
    pub(super) fn top_node(&self) -> &'static str {
        match self.extras.artifacts {
            Some(_) => TOP_NODE,
            None => "instance",
        }
    }

    /// Returns whether tasks of the job may wait for those of the other job on the same node.
    pub(super) fn have_one_level(&self, job: &JobArtifacts, other: u16) -> bool {
        let other = self.jobs.iter().find(|job| job.number == other);
        other.is_some_and(|other| other.artifacts.is_at_top == job.is_at_top)
    }

    /// Returns the keys of a job, each preceded by a comma. Inputs from jobs that are gone are left out.
    pub(super) fn artifact_keys(&self, artifacts: &JobArtifacts) -> String {
        let is_here = |number: u16| self.jobs.iter().any(|job| job.number == number);
        let inputs = artifacts.inputs.iter().filter(|(job, _)| is_here(*job));
        let inputs = inputs.map(|(job, node)| format!(r#"{{"from": "j{job}", "node": "{node}"}}"#));
        let inputs: Vec<String> = inputs.collect();
        let mut keys = artifacts.outputs.clone();
        if !inputs.is_empty() {
            let wait = artifacts.locality_wait;
            keys += &format!(
                r#", "inputs": [{}], "locality_wait": {wait}"#,
                inputs.join(", ")
            );
        }
        if artifacts.is_at_top {
            keys += r#", "level_for_tasks": "instance""#;
        }
        keys
    }
}
