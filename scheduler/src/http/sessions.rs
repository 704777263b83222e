//! The sessions of browsers that have shown a token. They are in memory only, and end with the scheduler.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::Time;
use brasserie_common::access::TokenNumber;
use brasserie_common_identity::{IdentityError, Secret};
use parking_lot::Mutex;

/// The life of a session: a working day.
pub(super) const SESSION_LIFE: Duration = Duration::from_secs(12 * 60 * 60);
/// The most sessions: several for each person of a large cluster. The oldest one ends for the next.
const MOST_SESSIONS: usize = 4096;
/// The most sessions of one token, so that no holder of one ends those of others: a browser or two of each member of a team that shares it.
const MOST_SESSIONS_OF_TOKEN: usize = 64;

/// The sessions, by the SHA-256 of their ids.
#[derive(Clone, Default)]
pub(super) struct Sessions(Arc<Mutex<BTreeMap<[u8; 32], Session>>>);

/// A session of a browser.
#[derive(Clone)]
pub(super) struct Session {
    /// The token that the browser has shown. The session ends with it.
    pub token: TokenNumber,
    /// The secret in the forms of this session, which pages of other sites do not know.
    pub form_secret: Secret,
    ends: Time,
}

impl Sessions {
    /// Opens a session, and returns its id.
    pub(super) fn open(&self, token: TokenNumber, now: Time) -> Result<Secret, IdentityError> {
        let (id, form_secret) = (Secret::random()?, Secret::random()?);
        let ends = now + SESSION_LIFE;
        let mut sessions = self.0.lock();
        sessions.retain(|_, session| session.ends > now);
        end_oldest(&mut sessions, MOST_SESSIONS_OF_TOKEN, |session| {
            session.token == token
        });
        end_oldest(&mut sessions, MOST_SESSIONS, |_| true);
        sessions.insert(
            id.digest(),
            Session {
                token,
                form_secret,
                ends,
            },
        );
        Ok(id)
    }

    /// Returns the session with this id, in hex digits.
    pub(super) fn find(&self, id: &str, now: Time) -> Option<Session> {
        let id = Secret::from_digits(id).ok()?;
        let sessions = self.0.lock();
        let session = sessions.get(&id.digest());
        session.filter(|session| session.ends > now).cloned()
    }

    /// Ends the session with this id, in hex digits.
    pub(super) fn close(&self, id: &str) {
        if let Ok(id) = Secret::from_digits(id) {
            self.0.lock().remove(&id.digest());
        }
    }
}

/// Ends the oldest of the counted sessions if there is no place for another one.
fn end_oldest(
    sessions: &mut BTreeMap<[u8; 32], Session>,
    most: usize,
    counts: impl Fn(&Session) -> bool,
) {
    let counted = || sessions.iter().filter(|(_, session)| counts(session));
    let oldest = counted().min_by_key(|(_, session)| session.ends);
    if let Some(oldest) = oldest.map(|(id, _)| *id)
        && counted().count() >= most
    {
        sessions.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_after_its_life_and_when_it_is_closed() {
        let (sessions, now) = (Sessions::default(), Time::from_nanos(1));
        let id = sessions
            .open(TokenNumber(7), now)
            .expect("entropy")
            .reveal();
        let found = sessions.find(&id, now).expect("a session");
        assert_eq!(found.token, TokenNumber(7));
        assert!(sessions.find(&id, now + SESSION_LIFE).is_none());
        assert!(sessions.find(&"0".repeat(64), now).is_none());
        sessions.close(&id);
        assert!(sessions.find(&id, now).is_none());
    }

    #[test]
    fn one_more_than_the_most_ends_the_oldest() {
        let (sessions, start) = (Sessions::default(), Time::from_nanos(1));
        let at = |second: usize| start + Duration::from_secs(second as u64);
        let ids: Vec<String> = (0..=MOST_SESSIONS)
            .map(|n| {
                sessions
                    .open(TokenNumber(n as u64), at(n))
                    .expect("entropy")
                    .reveal()
            })
            .collect();
        let now = at(MOST_SESSIONS);
        assert!(sessions.find(&ids[0], now).is_none());
        assert!(ids[1..].iter().all(|id| sessions.find(id, now).is_some()));
        assert_eq!(sessions.0.lock().len(), MOST_SESSIONS);
    }

    #[test]
    fn a_token_ends_its_own_sessions_and_none_of_others() {
        let (sessions, start) = (Sessions::default(), Time::from_nanos(1));
        let at = |second: usize| start + Duration::from_secs(second as u64);
        let open = |token: u64, second: usize| {
            let opened = sessions.open(TokenNumber(token), at(second));
            opened.expect("entropy").reveal()
        };
        let other = open(1, 0);
        let ids: Vec<String> = (0..=MOST_SESSIONS).map(|n| open(2, n)).collect();
        let now = at(MOST_SESSIONS);
        assert!(sessions.find(&other, now).is_some());
        let left = ids.iter().filter(|id| sessions.find(id, now).is_some());
        assert_eq!(left.count(), MOST_SESSIONS_OF_TOKEN);
        assert!(sessions.find(&ids[MOST_SESSIONS], now).is_some());
    }
}
