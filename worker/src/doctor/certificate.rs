//! Checks how long the certificate of a worker in its data directory is still valid.

use std::path::Path;

use brasserie_common::WallTime;
use brasserie_common::time::readable_duration;
use brasserie_common_identity::{Credential, FOLDER, Life};

use super::{CheckVerdict, Finding};
use crate::membership::CERTIFICATE_FILE;

const TOPIC: &str = "certificate";

pub(super) fn examine(data_dir: &Path, now: WallTime) -> Finding {
    let read = Credential::read(&data_dir.join(FOLDER).join(CERTIFICATE_FILE));
    let life = read.and_then(|own| own.map(|own| Life::of(own.certificate())).transpose());
    let life = match life {
        Ok(Some(life)) => life,
        Ok(None) => {
            let text = "none: the worker has joined no cluster with an authority";
            return Finding::new(TOPIC, CheckVerdict::Fine, text);
        }
        Err(error) => return Finding::new(TOPIC, CheckVerdict::Lacking, error.to_string()),
    };
    match life.last_third(now) {
        None => {
            let left = readable_duration(now.until(life.until));
            Finding::new(TOPIC, CheckVerdict::Fine, format!("expires in {left}"))
        }
        Some(left) if left.is_zero() => Finding::new(
            TOPIC,
            CheckVerdict::Limited,
            "has expired: start the worker, which can renew it for 30 days",
        ),
        Some(left) => {
            let left = readable_duration(left);
            let text = format!(
                "expires in {left}, and a running worker renews it earlier: does it run, and does it reach its scheduler?"
            );
            Finding::new(TOPIC, CheckVerdict::Limited, text)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use brasserie_common::access::Role;
    use brasserie_common_identity::{Authority, Lifetime};

    use super::*;

    #[test]
    fn the_last_third_of_a_certificate_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let now = WallTime::from_secs(1_700_000_000);
        assert_eq!(examine(folder.path(), now).verdict, CheckVerdict::Fine);
        let authority = Authority::create(now).expect("an authority");
        let life = Lifetime(Duration::from_secs(9000));
        let own = authority.credential(Role::Admin, now, life);
        let identity = folder.path().join(FOLDER);
        std::fs::create_dir(&identity).expect("a folder");
        let written = own
            .expect("a certificate")
            .write(&identity.join(CERTIFICATE_FILE));
        written.expect("files");
        for (seconds, verdict, text) in [
            (5999, CheckVerdict::Fine, "expires in"),
            (6001, CheckVerdict::Limited, "expires in"),
            (9000, CheckVerdict::Limited, "has expired"),
        ] {
            let found = examine(folder.path(), now + Duration::from_secs(seconds));
            assert_eq!(found.verdict, verdict, "{seconds}: {}", found.text);
            assert!(found.text.contains(text), "{}", found.text);
        }
    }
}
