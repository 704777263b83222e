//! Identities: `BistroInstanceID` represents schedulers, workers and invocations.

use brasserie_common::{InstanceId, InvocationId, SchedulerId, WorkerId};

use super::{WireError, not_negative};
use crate::generated::common as wire;

impl TryFrom<wire::BistroInstanceID> for InstanceId {
    type Error = WireError;

    fn try_from(id: wire::BistroInstanceID) -> Result<Self, WireError> {
        let start_time = id.start_time.unwrap_or(0);
        not_negative("BistroInstanceID.startTime", start_time)?;
        Ok(InstanceId {
            start_time,
            rand: id.rand.unwrap_or(0),
        })
    }
}

impl From<InstanceId> for wire::BistroInstanceID {
    fn from(id: InstanceId) -> Self {
        wire::BistroInstanceID {
            start_time: Some(id.start_time),
            rand: Some(id.rand),
        }
    }
}

macro_rules! instance_conversions {
    ($($name:ident),*) => {$(
        impl TryFrom<wire::BistroInstanceID> for $name {
            type Error = WireError;

            fn try_from(id: wire::BistroInstanceID) -> Result<Self, WireError> {
                InstanceId::try_from(id).map($name)
            }
        }

        impl From<$name> for wire::BistroInstanceID {
            fn from(id: $name) -> Self {
                id.0.into()
            }
        }
    )*};
}

instance_conversions!(InvocationId, SchedulerId, WorkerId);
