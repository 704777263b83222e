//! The choice of listed jobs in a URL's query.

use brasserie_common::text::printable;
use brasserie_scheduler_core::MAX_LISTED_JOBS;

/// The jobs that a page or document lists. The default chooses the jobs that need attention most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Selection {
    /// List only this job.
    pub(super) job: Option<String>,
    /// List jobs sorted by name, from the first one after this name. Empty: from the first job on.
    pub(super) after: Option<String>,
    /// Maximum jobs of a page; [`MAX_LISTED_JOBS`] limits it further.
    pub(super) limit: Option<usize>,
}

/// The reason why a URL's query chooses nothing.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadSelection {
    #[error("the parameter `{name}` is given more than once: give it once, with {}", accepted(.name))]
    Repeated { name: &'static str },
    #[error(
        "the parameter `limit` is `{}`, which is not a number of jobs: give it {}", printable(.value), accepted("limit")
    )]
    Limit { value: String },
    #[error(
        "no parameter is called `{}`: give `job` with {}, `after` with {}, or `limit` with {}",
        printable(.name), accepted("job"), accepted("after"), accepted("limit")
    )]
    Unknown { name: String },
}

/// Returns the values that a parameter accepts, in words.
fn accepted(name: &str) -> String {
    match name {
        "job" => "the name of one job".to_owned(),
        "after" => "the name of the job before the first listed one (empty: from the first job on)"
            .to_owned(),
        _ => format!("a whole number, of which at most {MAX_LISTED_JOBS} counts"),
    }
}

impl Selection {
    /// Reads the parameters of a query. Errors unless each is known, readable and given once.
    pub(super) fn from_parameters(parameters: Vec<(String, String)>) -> Result<Self, BadSelection> {
        let mut selection = Selection::default();
        for (name, value) in parameters {
            let (name, is_repeated) = match name.as_str() {
                "job" => ("job", selection.job.replace(value).is_some()),
                "after" => ("after", selection.after.replace(value).is_some()),
                "limit" => {
                    let Ok(limit) = value.parse() else {
                        return Err(BadSelection::Limit { value });
                    };
                    ("limit", selection.limit.replace(limit).is_some())
                }
                _ => return Err(BadSelection::Unknown { name }),
            };
            if is_repeated {
                return Err(BadSelection::Repeated { name });
            }
        }
        Ok(selection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(parameters: &[(&str, &str)]) -> Result<Selection, String> {
        let owned = parameters
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Selection::from_parameters(owned.collect()).map_err(|bad| bad.to_string())
    }

    #[test]
    fn a_query_with_a_mistake_names_the_parameter_and_what_it_accepts() {
        assert_eq!(read(&[]), Ok(Selection::default()));
        let all = read(&[("after", ""), ("limit", "5000")]).expect("accepted");
        assert_eq!(
            (all.after.as_deref(), all.limit, all.job),
            (Some(""), Some(5000), None)
        );
        let mistakes = [
            (
                vec![("job", "a"), ("job", "b")],
                "the parameter `job` is given more than once: give it once, with the name of one job",
            ),
            (
                vec![("limit", "3"), ("after", "j"), ("limit", "3")],
                "the parameter `limit` is given more than once: give it once, with a whole number, of which at most 1000 counts",
            ),
            (
                vec![("limit", "\0")],
                "the parameter `limit` is `\\0`, which is not a number of jobs: give it a whole number, of which at most 1000 counts",
            ),
            (
                vec![("limit", "-1")],
                "the parameter `limit` is `-1`, which is not a number of jobs: give it a whole number, of which at most 1000 counts",
            ),
            (
                vec![("jobs", "a")],
                "no parameter is called `jobs`: give `job` with the name of one job, `after` with the name of the job before the first \
                 listed one (empty: from the first job on), or `limit` with a whole number, of which at most 1000 counts",
            ),
        ];
        for (parameters, message) in mistakes {
            assert_eq!(read(&parameters), Err(message.to_owned()));
        }
    }
}
