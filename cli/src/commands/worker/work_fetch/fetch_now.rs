//! `--now`: makes a worker request work at once, and shows the result.

use anyhow::{Result, anyhow, bail};
use brasserie_common::ServiceAddress;
use brasserie_common::work_overview::{Asks, WorkWish};
use serde_json::{Value, json};

use super::super::asking::{called, find, only, workers};
use super::{Whom, WorkFetchQuery};
use crate::CommandEnding;
use crate::connection::block_on;
use crate::output::{duration, print, print_json, printable};

/// A worker that was told to request work, and its answer.
#[derive(Debug)]
pub(super) struct WorkerWishes {
    pub shard: Option<String>,
    pub address: String,
    pub wishes: Vec<WorkWish>,
}

pub(super) fn run(
    look: &WorkFetchQuery,
    from: Option<&ServiceAddress>,
    as_json: bool,
) -> Result<CommandEnding> {
    let told = block_on(tell(look, from))??;
    match as_json {
        true => print_json(&document(&told))?,
        false => print(&text(&told))?,
    }
    never(&told)?;
    Ok(CommandEnding::Success)
}

async fn tell(look: &WorkFetchQuery, from: Option<&ServiceAddress>) -> Result<WorkerWishes> {
    let known = match &look.whom {
        Whom::Address(peer) => {
            let wishes = look.pool.wish(&peer.clone().into(), from).await;
            return Ok(WorkerWishes {
                shard: None,
                address: peer.as_str().to_owned(),
                wishes: wishes.map_err(|error| anyhow!("{error}"))?,
            });
        }
        Whom::Shard(_) | Whom::All => {
            let status = look.scheduler.bounded_status().await?;
            workers(&status, &look.scheduler_address)?
        }
    };
    let known = match &look.whom {
        Whom::Shard(shard) => find(known, shard)?,
        Whom::All | Whom::Address(_) => only(known)?,
    };
    let worker = known.callee().map_err(|error| anyhow!("{error}"))?;
    let wishes = look.pool.wish(&worker, from).await;
    Ok(WorkerWishes {
        shard: Some(known.shard),
        address: known.address,
        wishes: wishes.map_err(|error| anyhow!("{error}"))?,
    })
}

/// Errors if the worker does not request work from some scheduler, although the output has named it.
fn never(told: &WorkerWishes) -> Result<()> {
    let is_never = |wish: &&WorkWish| matches!(wish.asks, Asks::Never { .. });
    let never: Vec<String> = told.wishes.iter().filter(is_never).map(scheduler).collect();
    match never.is_empty() {
        true => Ok(()),
        false => bail!(
            "{} does not ask {}",
            called(told.shard.as_deref(), &told.address),
            never.join(", ")
        ),
    }
}

/// Formats the result for people.
pub(super) fn text(told: &WorkerWishes) -> String {
    let worker = called(told.shard.as_deref(), &told.address);
    let mut text = format!("Requested that {worker} asks for work now.\n");
    for wish in &told.wishes {
        let asks = match &wish.asks {
            Asks::Now => "it is asked now".to_owned(),
            Asks::Later { left: None, why } => format!("later: {}", printable(why)),
            Asks::Later {
                left: Some(left),
                why,
            } => format!("in {} at the earliest: {}", duration(*left), printable(why)),
            Asks::Never { why } => format!("it is not asked: {}", printable(why)),
        };
        text.push_str(&format!("{}: {asks}\n", scheduler(wish)));
        for line in &wish.ended {
            text.push_str(&format!("  no longer waited for: {}\n", printable(line)));
        }
    }
    text
}

fn scheduler(wish: &WorkWish) -> String {
    let members: Vec<String> = wish.members.iter().map(ToString::to_string).collect();
    printable(&members.join(", "))
}

/// Returns the result as JSON for programs.
pub(super) fn document(told: &WorkerWishes) -> Value {
    let schedulers = told.wishes.iter().map(|wish| {
        let members: Vec<String> = wish.members.iter().map(ToString::to_string).collect();
        let (left, why) = match &wish.asks {
            Asks::Now => (None, None),
            Asks::Later { left, why } => (*left, Some(why)),
            Asks::Never { why } => (None, Some(why)),
        };
        json!({
            "members": members, "ended": wish.ended, "asks": wish.asks.as_str(),
            "left_sec": left.map(|left| left.as_secs_f64()), "why": why,
        })
    });
    json!({
        "worker": told.shard, "address": told.address, "schedulers": schedulers.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn wish(port: u16, asks: Asks) -> WorkWish {
        WorkWish {
            members: vec![ServiceAddress {
                host: "s".into(),
                port,
            }],
            ended: Vec::new(),
            asks,
        }
    }

    #[test]
    fn each_scheduler_is_shown_with_when_it_is_asked_and_why_not() {
        let told = WorkerWishes {
            shard: Some("w1".to_owned()),
            address: "h:7".to_owned(),
            wishes: vec![
                WorkWish {
                    ended: vec!["CPU: backed off\u{1b}".to_owned()],
                    ..wish(1, Asks::Now)
                },
                wish(
                    2,
                    Asks::Later {
                        left: Some(Duration::from_secs(20)),
                        why: "requested by the scheduler".to_owned(),
                    },
                ),
                wish(
                    3,
                    Asks::Later {
                        left: None,
                        why: "it is away".to_owned(),
                    },
                ),
                wish(
                    4,
                    Asks::Never {
                        why: "it drains".to_owned(),
                    },
                ),
            ],
        };
        let expected = "\
Requested that worker `w1` asks for work now.
s:1: it is asked now
  no longer waited for: CPU: backed off\\u{1b}
s:2: in 20.0 s at the earliest: requested by the scheduler
s:3: later: it is away
s:4: it is not asked: it drains
";
        assert_eq!(text(&told), expected);
        let document = document(&told);
        let asks: Vec<&Value> = (0..4)
            .map(|at| &document["schedulers"][at]["asks"])
            .collect();
        assert_eq!(asks, ["now", "later", "later", "never"]);
        assert_eq!(document["schedulers"][1]["left_sec"], 20.0);
        assert_eq!(document["schedulers"][2]["left_sec"], Value::Null);
        let error = never(&told).expect_err("one is not asked").to_string();
        assert_eq!(error, "worker `w1` does not ask s:4");
    }
}
