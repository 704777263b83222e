//! Fingerprints of the jobs that are not in force. The engine's fingerprint covers the jobs in force.

use std::hash::Hasher;

use brasserie_common::RecordSeq;
use brasserie_common::fingerprint::Shape;

use super::{Awaited, Given, InForce, Jobs, RefusedFile};
use crate::record::until_synced;

impl Jobs {
    pub(crate) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>, persisted: RecordSeq) {
        let Jobs {
            // The file and the fields below make the engine's configuration.
            file: _,
            file_warnings: _,
            source,
            refused,
            given,
            // These follow from other fields.
            given_bytes: _,
            together: _,
            held,
            awaited,
            last_version,
            in_force,
        } = self;
        s.opt(refused.as_ref(), |s, refused| {
            let RefusedFile {
                file,
                warnings: _,
                origin,
                taken: _,
            } = refused;
            s.put((format!("{:?}", file.config), format!("{origin:?}")));
        });
        source.shape(s);
        s.each(given, |s, (name, given)| {
            s.put(name);
            given.shape(s);
        });
        s.each(held, |s, held| s.put(held));
        s.each(awaited, |s, (seq, (name, awaited))| {
            s.put((until_synced(*seq, persisted), name));
            match awaited {
                Awaited::Save(given) => given.shape(s),
                Awaited::Resume => s.put(false),
                Awaited::Deletion => s.put(true),
            }
        });
        s.put((last_version, *in_force == InForce::Changed));
    }
}

impl Given {
    /// The times of the job are omitted, because they are only shown.
    fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        s.put((self.saved.version, &self.saved.text));
    }
}
