//! Names that people choose, identities that processes draw, and small ids that a core assigns.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The job name of healthchecks, which are ordinary `runTask` calls.
pub const HEALTHCHECK_JOB: &str = "__BISTRO_HEALTH_CHECK__";
/// The node name of the healthcheck that a worker may accept before it knows the scheduler.
pub const HEALTHCHECK_NEW_WORKER_NODE: &str = "__NEW_WORKER__";

/// One life of a process, or one run of a task. Equality compares both fields; only `start_time` has an order.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct InstanceId {
    /// Unix seconds at the start of the process or run.
    pub start_time: i64,
    /// 64 random bits.
    pub rand: i64,
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:016x}", self.start_time, self.rand)
    }
}

/// The error for a text that is no identity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "an identity is START:RAND, Unix seconds and 16 hex digits, such as 1700000000:00c0ffee00c0ffee"
)]
pub struct InstanceIdError;

impl std::str::FromStr for InstanceId {
    type Err = InstanceIdError;

    fn from_str(text: &str) -> Result<Self, InstanceIdError> {
        let (start, rand) = text.split_once(':').ok_or(InstanceIdError)?;
        let digits = rand.len() == 16 && rand.bytes().all(|b| b.is_ascii_hexdigit());
        let start_time = start.parse().map_err(|_| InstanceIdError)?;
        match u64::from_str_radix(rand, 16) {
            Ok(rand) if digits => Ok(InstanceId {
                start_time,
                rand: rand.cast_signed(),
            }),
            _ => Err(InstanceIdError),
        }
    }
}

macro_rules! instance_newtype {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub InstanceId);

        impl $name {
            pub fn new(start_time: i64, rand: i64) -> Self {
                $name(InstanceId { start_time, rand })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

instance_newtype!(
    /// One life of a scheduler process.
    SchedulerId
);
instance_newtype!(
    /// One life of a worker towards one scheduler.
    WorkerId
);
instance_newtype!(
    /// One run of a task.
    InvocationId
);

/// The longest name of a job, node, shard, level or resource. Names travel in every `RunningTask`, so a bound keeps frames small.
pub const MAX_NAME_BYTES: usize = 1024;

/// The reason why a text is no name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("the name is {0} bytes long; at most {MAX_NAME_BYTES} are allowed")]
    TooLong(usize),
    #[error("the name contains a NUL character, which no program argument can hold")]
    Nul,
}

fn check_name(text: &str) -> Result<(), NameError> {
    if text.len() > MAX_NAME_BYTES {
        return Err(NameError::TooLong(text.len()));
    }
    if text.contains('\0') {
        return Err(NameError::Nul);
    }
    Ok(())
}

macro_rules! name_newtype {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<&str> for $name {
            type Error = NameError;
            fn try_from(text: &str) -> Result<Self, NameError> {
                check_name(text)?;
                Ok($name(text.into()))
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;
            fn try_from(text: String) -> Result<Self, NameError> {
                check_name(&text)?;
                Ok($name(text.into()))
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.as_str().to_owned()
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name_newtype!(
    /// The name of a job. Empty only in hostile messages.
    JobName
);
name_newtype!(
    /// The name of a node of the forest. Healthchecks use the empty name.
    NodeName
);
name_newtype!(
    /// The name of a place in the worker pool. At most one worker is associated per shard.
    Shard
);

name_newtype!(
    /// A user or a group of a worker's machine, by name or number.
    AccountName
);

macro_rules! small_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub u32);

        impl $name {
            /// Returns the position in a table that is indexed by this id.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

small_id!(
    /// A job name in the scheduler's tables. Not reused while anything refers to it.
    JobId
);
small_id!(
    /// A node name in the scheduler's tables. Not reused while anything refers to it.
    NodeId
);

/// The order of `runTask` and `notifyIfTasksNotRunning` within one association. Both sides start at 0.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct SequenceNumber(pub i64);

impl SequenceNumber {
    /// Returns the number of the next `notifyIfTasksNotRunning`.
    pub fn next(self) -> Self {
        // Invariant: one increment per notify at most once a second cannot reach 2^63.
        SequenceNumber(
            self.0
                .checked_add(1)
                .expect("fewer than 2^63 notifies per association"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_refuse_nul_and_excess_length() {
        assert_eq!(JobName::try_from("a\0b"), Err(NameError::Nul));
        assert_eq!(
            NodeName::try_from("x".repeat(1025)),
            Err(NameError::TooLong(1025))
        );
        assert_eq!(NodeName::try_from("").map(|n| n.as_str().len()), Ok(0));
    }

    #[test]
    fn instance_ids_print_negative_rand_as_bits() {
        assert_eq!(InvocationId::new(7, -1).to_string(), "7:ffffffffffffffff");
        for rand in [0, 1, -1, i64::MIN, i64::MAX] {
            let id = InstanceId {
                start_time: 7,
                rand,
            };
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        for bad in [
            "",
            "7",
            "7:",
            "x:ffffffffffffffff",
            "7:fff",
            "7:+fffffffffffffff",
        ] {
            assert_eq!(bad.parse::<InstanceId>(), Err(InstanceIdError), "{bad}");
        }
    }
}
