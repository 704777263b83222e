//! Tests of the GPUs that jobs need, and of slots that are no amount of GPUs.

use std::collections::BTreeMap;

use brasserie_common::cards::{CardAmount, CardNeed};

use super::*;
use crate::{Config, parse_job};

const WORKER: &str = r#""resources": {"worker": {
"gpu": {"default": 1, "limit": 0}, "GPU: K40": {"default": 0, "limit": 0}, "GPU: H100": {"default": 0, "limit": 0}}}"#;

/// Parses a config with a slot for a quarter of a GPU.
fn parsed(cards: &str, jobs: &str) -> Parsed {
    good(&format!("{WORKER}{cards}"), jobs)
}

const QUARTERS: &str = r#", "physical_resources": {"gpu_card": {"logical_resource": "gpu", "multiply_logical_by": 0.25}}"#;

fn need(all: CardAmount, models: &[(&str, u32)]) -> CardNeed {
    let models = models.iter().map(|(m, n)| ((*m).to_owned(), *n));
    CardNeed::new(all, models.collect::<BTreeMap<_, _>>())
}

#[test]
fn needs_follow_from_slots() {
    let of = |cards: &str, resources: &str| {
        let job = format!("\"bistro_job->x\": {{\"resources\": {{{resources}}}}}");
        let Parsed { config, .. } = parsed(cards, &job);
        assert_eq!(config.jobs[0].errors, [""; 0]);
        config.card_need(&config.jobs[0]).unwrap()
    };
    let part = |milli| need(CardAmount::Part(milli), &[]);
    assert_eq!(of(QUARTERS, ""), part(250), "by default");
    assert_eq!(of(QUARTERS, r#""gpu": 3"#), part(750));
    assert_eq!(of(QUARTERS, r#""gpu": 0"#), CardNeed::default());
    let whole = |n, models: &[_]| need(CardAmount::Whole(n), models);
    assert_eq!(of(QUARTERS, r#""gpu": 8"#), whole(2, &[]));
    let of_model = of(QUARTERS, r#""gpu": 8, "GPU: K40": 1"#);
    assert_eq!(of_model, whole(2, &[("K40", 1)]));
    // These names have no special meaning if no GPUs are configured.
    assert_eq!(of("", r#""gpu": 3, "GPU: K40": 1"#), CardNeed::default());
}

#[test]
fn slots_that_are_no_amount_of_cards_disable_their_job() {
    let of = |multiplier: &str, body: &str| {
        let cards = QUARTERS.replace("0.25", multiplier);
        let parsed = parsed(&cards, &format!("\"bistro_job->x\":\n{{{body}}}"));
        let problems = lines(parsed.job_problems());
        assert_eq!(parsed.config.jobs[0].errors, problems);
        assert!(!parsed.config.jobs[0].can_run());
        problems
    };
    let help = "a task takes whole GPUs, or a part of one in whole thousandths; see `multiply_logical_by` of `gpu_card`";
    assert_eq!(
        of("0.25", r#""resources": {"gpu": 5}"#),
        [format!(
            "5:23: bistro_job->x.resources.gpu: 5 of `gpu` at 0.25 GPUs a slot are more than one GPU, and not in whole GPUs; {help}"
        )]
    );
    assert_eq!(
        of("0.0003", r#""resources": {"GPU: K40": 1}"#),
        [format!(
            "4:1: bistro_job->x: by default, 1 of `gpu` at 0.0003 GPUs a slot are not in whole thousandths of a GPU; {help}"
        )]
    );
    assert_eq!(
        of("-1", r#""resources": {"gpu": 2}"#),
        [format!(
            "5:23: bistro_job->x.resources.gpu: 2 of `gpu` at -1 GPUs a slot are less than no GPU; {help}"
        )]
    );
    // One mistake gives one problem.
    assert_eq!(of("0.0003", r#""resources": {"gpu": "many"}"#).len(), 1);
}

#[test]
fn jobs_are_read_anew_when_slots_are_other_cards() {
    let of = |cards: &str| parsed(cards, "").config;
    let (none, quarters) = (of(""), of(QUARTERS));
    let fifths = of(&QUARTERS.replace("0.25", "0.2"));
    let reserved = QUARTERS.replace("0.25", "0.25, \"physical_reserve_amount\": 1");
    assert!(quarters.reads_jobs_as(&of(&reserved)));
    assert!(!quarters.reads_jobs_as(&none) && !quarters.reads_jobs_as(&fifths));
    let name = "x".try_into().unwrap();
    let problems = |config: &Config| {
        let text = r#"{"resources": {"gpu": 8}}"#;
        let job = parse_job(&name, text, config, ParseOptions::default()).unwrap();
        job.problems.len()
    };
    assert_eq!([&none, &quarters, &fifths].map(problems), [0, 0, 1]);
}
