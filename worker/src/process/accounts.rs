//! Resolves the users of `--allow-user`, and chooses the rights of each task among them.
//!
//! Looking a user up may wait for a server. So the worker does it once at its start, and only compares names when a task starts.

use std::ffi::CString;
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use brasserie_common::TaskSubprocessOptions;
use brasserie_common_artifacts::TaskUser;
use nix::errno::Errno;
use nix::unistd::{Gid, Group, Uid, User, getegid, geteuid, getgrouplist};

use super::launch::Account;

/// The capabilities that a worker needs: to give pipes and folders away, kill tasks of other users, change its rights, and read the marks
/// of its predecessor's leftover processes.
const NEEDED: [(&str, u32); 5] = [
    ("CAP_CHOWN", 0),
    ("CAP_KILL", 5),
    ("CAP_SETGID", 6),
    ("CAP_SETUID", 7),
    ("CAP_SYS_PTRACE", 19),
];
/// The id that the kernel takes for "keep the present user or group".
const NO_ID: u32 = u32::MAX;
/// The variables that name a user.
pub(super) const WHO: [&str; 4] = ["HOME", "USER", "LOGNAME", "SHELL"];

/// A user that tasks may have, as an operator named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedUser {
    user: String,
    /// The groups that jobs may choose, beside the user's own.
    groups: Vec<String>,
}

impl AllowedUser {
    /// Parses `NAME[:GROUP[,GROUP...]]`; each is a name or a number.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (user, groups) = match text.split_once(':') {
            None => (text, Vec::new()),
            Some((user, groups)) => (user, groups.split(',').collect()),
        };
        let is_name = |name: &&str| !name.is_empty() && !name.contains([':', '\0']);
        match [user].iter().chain(&groups).all(is_name) {
            true => Ok(AllowedUser {
                user: user.to_owned(),
                groups: groups.into_iter().map(str::to_owned).collect(),
            }),
            false => Err(
                "write a user and, if jobs may ask for groups that are not the user's, these: NAME:GROUP,GROUP"
                    .to_owned(),
            ),
        }
    }
}

impl fmt::Display for AllowedUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.user)?;
        match self.groups.as_slice() {
            [] => Ok(()),
            groups => write!(f, ":{}", groups.join(",")),
        }
    }
}

/// The reason why an allowed user is impossible.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccountsError {
    #[error("--allow-user {allowed}: this machine has no user {user:?}")]
    NoUser { allowed: AllowedUser, user: String },
    #[error("--allow-user {allowed}: this machine has no group {group:?}")]
    NoGroup { allowed: AllowedUser, group: String },
    #[error("--allow-user {allowed}: it cannot be looked up: {}", error.desc())]
    Lookup { allowed: AllowedUser, error: Errno },
    #[error(
        "--allow-user {allowed}: this worker runs as {own} and cannot start tasks as somebody else: it lacks {lacking}, \
         which root usually has. Give it these capabilities, or leave the flag out"
    )]
    Powerless {
        allowed: AllowedUser,
        own: Uid,
        lacking: String,
    },
    #[error(
        "--allow-user {allowed}: tasks without a user would inherit the right to become anybody, which this worker has as ambient \
         capabilities. Run it as root instead, where each task has a user, or leave the flag out"
    )]
    Ambient { allowed: AllowedUser },
}

/// The rights of this process to change users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    user: Uid,
    group: Gid,
    /// The needed capabilities that it lacks.
    lacking: Vec<&'static str>,
    /// Whether its children inherit any of the capabilities, whatever their user.
    passes_on: bool,
}

impl Rights {
    pub(crate) fn of_this_process() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        Rights::listed(geteuid(), getegid(), &status)
    }

    /// Parses the rights from `/proc/self/status`. A missing line means no capability.
    pub(crate) fn listed(user: Uid, group: Gid, status: &str) -> Self {
        let mask = |field: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(field));
            line.and_then(|text| u64::from_str_radix(text.trim(), 16).ok())
                .unwrap_or(0)
        };
        let (effective, ambient) = (mask("CapEff:"), mask("CapAmb:"));
        let lacking = NEEDED.iter().filter(|(_, bit)| effective >> bit & 1 == 0);
        Rights {
            user,
            group,
            lacking: lacking.map(|(name, _)| *name).collect(),
            passes_on: NEEDED.iter().any(|(_, bit)| ambient >> bit & 1 == 1),
        }
    }

    /// Returns the capabilities without which it cannot start tasks as other users. Empty: it can.
    pub(crate) fn lacking(&self) -> &[&'static str] {
        &self.lacking
    }

    /// Returns whether its children inherit any of the capabilities, whatever their user.
    pub(crate) fn passes_on(&self) -> bool {
        self.passes_on
    }

    fn can_change(&self) -> bool {
        self.lacking.is_empty()
    }
}

/// The users that tasks may have.
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    allowed: Vec<Allowed>,
}

/// A user as the machine knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Allowed {
    name: String,
    user: Uid,
    /// The user's primary group, which a task has if it asks for none.
    group: Gid,
    /// The groups of which the user is a member; a task has all of them.
    groups: Vec<Gid>,
    /// The groups that a task may ask for, with their names.
    may_have: Vec<(Gid, Option<String>)>,
    /// `NAME=value` for each variable of [`WHO`].
    environment: Vec<CString>,
    change: RightsChange,
}

/// The change of a task's rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RightsChange {
    /// The task has the user's rights.
    Taken,
    /// The user is the worker's own, and the worker cannot change rights: the task has the worker's.
    Kept,
}

/// The rights that a task gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChosenRights {
    pub name: String,
    pub user: Uid,
    /// `None`: the task has the worker's rights as they are.
    pub account: Option<Account>,
}

impl Accounts {
    /// Looks all users up, which may wait for a server.
    pub fn resolve(allowed: &[AllowedUser]) -> Result<Self, AccountsError> {
        let rights = Rights::of_this_process();
        let mut all: Vec<Allowed> = Vec::new();
        for one in allowed {
            let found = look_up(one, &rights)?;
            match all.iter_mut().find(|known| known.name == found.name) {
                // The user is named twice: both lists of groups apply.
                Some(known) => known.may_have.extend(found.may_have),
                None => all.push(found),
            }
        }
        Ok(Accounts { allowed: all })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.allowed.is_empty()
    }

    pub(super) fn names_others_than(&self, own: Uid) -> bool {
        self.allowed.iter().any(|allowed| allowed.user != own)
    }

    /// Returns the names of the users with their variables.
    pub(super) fn environments(&self) -> impl Iterator<Item = (&str, &[CString])> {
        let all = self.allowed.iter();
        all.map(|allowed| (allowed.name.as_str(), allowed.environment.as_slice()))
    }

    /// Returns why no task with these options can start; `None` if it can get the rights for which it asks.
    pub fn refusal(&self, options: &TaskSubprocessOptions) -> Option<String> {
        self.choose(options).err()
    }

    /// Returns the user and the group that own the files of a task with these options. The error is a message.
    pub(crate) fn user_of(&self, options: &TaskSubprocessOptions) -> Result<TaskUser, String> {
        let chosen = self.choose(options)?;
        let account = chosen.and_then(|chosen| chosen.account);
        Ok(
            account.map_or_else(TaskUser::of_this_process, |account| TaskUser {
                uid: account.user.as_raw(),
                gid: account.group.as_raw(),
            }),
        )
    }

    /// Returns the rights of a task that asks for these; `None`: the worker's. The error is a message.
    pub(super) fn choose(
        &self,
        options: &TaskSubprocessOptions,
    ) -> Result<Option<ChosenRights>, String> {
        let (user, group) = (options.user.as_ref(), options.group.as_ref());
        let Some(user) = user.map(AsRef::<str>::as_ref) else {
            return match group {
                Some(_) => Err("it asks for a `group` without a `user`".to_owned()),
                None => Ok(None),
            };
        };
        let Some(allowed) = self.named(user) else {
            return Err(format!(
                "it asks for the user {user:?}, for which this worker would have to be started with --allow-user {user}; {self}"
            ));
        };
        allowed.with_group(group.map(AsRef::as_ref)).map(Some)
    }

    /// Returns the user with this name, or else with this number. A name that is a number is a name first.
    fn named(&self, text: &str) -> Option<&Allowed> {
        let by_name = self.allowed.iter().find(|allowed| allowed.name == text);
        let has_number = |allowed: &&Allowed| number(text) == Some(allowed.user.as_raw());
        by_name.or_else(|| self.allowed.iter().find(has_number))
    }
}

impl fmt::Display for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.allowed.is_empty() {
            return f.write_str("no user is allowed");
        }
        let names = self.allowed.iter().map(|allowed| allowed.name.as_str());
        let names: Vec<&str> = names.collect();
        write!(f, "allowed: {}", names.join(", "))
    }
}

impl Allowed {
    fn with_group(&self, asked: Option<&str>) -> Result<ChosenRights, String> {
        let group = match asked {
            None => self.group,
            Some(asked) => self.group_named(asked)?,
        };
        let account = match self.change {
            RightsChange::Kept => None,
            RightsChange::Taken => Some(Account {
                user: self.user,
                group,
                groups: self.groups.clone(),
            }),
        };
        Ok(ChosenRights {
            name: self.name.clone(),
            user: self.user,
            account,
        })
    }

    fn group_named(&self, asked: &str) -> Result<Gid, String> {
        let is_asked = |(gid, name): &&(Gid, Option<String>)| {
            name.as_deref() == Some(asked) || number(asked) == Some(gid.as_raw())
        };
        if let Some((gid, _)) = self.may_have.iter().find(is_asked) {
            return Ok(*gid);
        }
        let names = self.may_have.iter().map(|(gid, name)| match name {
            Some(name) => name.clone(),
            None => gid.to_string(),
        });
        let (name, names) = (&self.name, names.collect::<Vec<_>>().join(", "));
        let why = match self.change {
            RightsChange::Taken => format!(
                "for which this worker would have to be started with --allow-user {name}:{asked}"
            ),
            RightsChange::Kept => {
                "which this worker cannot take, as it does not run as root".to_owned()
            }
        };
        Err(format!(
            "it asks for the group {asked:?} with the user {name:?}, {why}; allowed: {names}"
        ))
    }
}

/// Parses an id, except the one that means "as before" to the kernel.
fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number| *number != NO_ID)
}

fn look_up(allowed: &AllowedUser, rights: &Rights) -> Result<Allowed, AccountsError> {
    let user = find_user(allowed)?;
    let change = change(allowed, &user, rights)?;
    let also: Vec<Gid> = allowed
        .groups
        .iter()
        .map(|group| find_group(allowed, group))
        .collect::<Result<_, _>>()?;
    let name = CString::new(user.name.as_bytes()).map_err(|_| failed(allowed, Errno::EINVAL))?;
    let (group, groups, may_have) = match change {
        RightsChange::Taken => {
            let own = getgrouplist(&name, user.gid).map_err(|error| failed(allowed, error))?;
            let all = own.iter().copied().chain(also).collect();
            (user.gid, own, all)
        }
        RightsChange::Kept => (rights.group, Vec::new(), vec![rights.group]),
    };
    Ok(Allowed {
        may_have: may_have.into_iter().map(named).collect(),
        environment: environment(&user),
        name: user.name,
        user: user.uid,
        group,
        groups,
        change,
    })
}

fn change(
    allowed: &AllowedUser,
    user: &User,
    rights: &Rights,
) -> Result<RightsChange, AccountsError> {
    let allowed = || allowed.clone();
    match (user.uid == rights.user, rights.can_change()) {
        (_, true) if rights.passes_on => Err(AccountsError::Ambient { allowed: allowed() }),
        (_, true) => Ok(RightsChange::Taken),
        (true, false) if allowed().groups.is_empty() => Ok(RightsChange::Kept),
        (_, false) => Err(AccountsError::Powerless {
            allowed: allowed(),
            own: rights.user,
            lacking: rights.lacking.join(", "),
        }),
    }
}

fn find_user(allowed: &AllowedUser) -> Result<User, AccountsError> {
    let text = &allowed.user;
    // A name that is a number is a name first, as for `chown`.
    let found = match User::from_name(text) {
        Ok(None) => number(text).map_or(Ok(None), |uid| User::from_uid(Uid::from_raw(uid))),
        found => found,
    };
    found
        .map_err(|error| failed(allowed, error))?
        .filter(|user| user.uid.as_raw() != NO_ID && user.gid.as_raw() != NO_ID)
        .ok_or_else(|| AccountsError::NoUser {
            allowed: allowed.clone(),
            user: text.clone(),
        })
}

fn find_group(allowed: &AllowedUser, text: &str) -> Result<Gid, AccountsError> {
    let found = Group::from_name(text).map_err(|error| failed(allowed, error))?;
    // A number needs no entry, because the kernel compares numbers.
    let gid = found.map(|group| group.gid);
    let gid = gid.filter(|gid| gid.as_raw() != NO_ID);
    gid.or_else(|| number(text).map(Gid::from_raw))
        .ok_or_else(|| AccountsError::NoGroup {
            allowed: allowed.clone(),
            group: text.to_owned(),
        })
}

fn failed(allowed: &AllowedUser, error: Errno) -> AccountsError {
    AccountsError::Lookup {
        allowed: allowed.clone(),
        error,
    }
}

/// Returns the group with its name, if it has an entry.
fn named(gid: Gid) -> (Gid, Option<String>) {
    let group = Group::from_gid(gid).ok().flatten();
    (gid, group.map(|group| group.name))
}

fn environment(user: &User) -> Vec<CString> {
    let [home, name, login, shell] = WHO;
    let entries = [
        (home, user.dir.as_os_str().as_bytes()),
        (name, user.name.as_bytes()),
        (login, user.name.as_bytes()),
        (shell, user.shell.as_os_str().as_bytes()),
    ];
    entries
        .into_iter()
        .filter_map(|(name, value)| CString::new([name.as_bytes(), b"=", value].concat()).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use brasserie_common::AccountName;

    use super::*;

    const ALL: &str = "CapEff:\t000001ffffffffff\nCapAmb:\t0000000000000000\n";

    fn rights(user: u32, status: &str) -> Rights {
        Rights::listed(Uid::from_raw(user), Gid::from_raw(user), status)
    }

    fn allow(text: &str, rights: &Rights) -> Result<Accounts, String> {
        let allowed = AllowedUser::parse(text)?;
        let allowed = look_up(&allowed, rights).map_err(|e| e.to_string())?;
        Ok(Accounts {
            allowed: vec![allowed],
        })
    }

    fn options(user: Option<&str>, group: Option<&str>) -> TaskSubprocessOptions {
        let name = |text: &str| AccountName::try_from(text).expect("a name");
        TaskSubprocessOptions {
            user: user.map(name),
            group: group.map(name),
            ..TaskSubprocessOptions::default()
        }
    }

    #[test]
    fn a_flag_names_a_user_and_perhaps_groups() {
        for text in ["ann", "1000", "ann:g", "ann:g,50"] {
            let allowed = AllowedUser::parse(text).expect("a user");
            assert_eq!(allowed.to_string(), text);
        }
        for text in ["", ":g", "ann:", "ann:g,", "ann:g:h", "a\0"] {
            assert!(AllowedUser::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn what_a_process_lacks_is_named() {
        assert_eq!(rights(0, ALL).lacking(), [""; 0]);
        let few = rights(5, "CapEff:\t00000000000000c0\n");
        assert_eq!(few.lacking(), ["CAP_CHOWN", "CAP_KILL", "CAP_SYS_PTRACE"]);
        assert_eq!(rights(5, "").lacking().len(), NEEDED.len());
    }

    #[test]
    fn what_the_machine_does_not_know_is_an_error_with_the_flag() {
        let root = rights(0, ALL);
        let error = |text| allow(text, &root).expect_err("refused");
        assert_eq!(
            error("no-such-user"),
            "--allow-user no-such-user: this machine has no user \"no-such-user\""
        );
        assert_eq!(
            error("4000000001"),
            "--allow-user 4000000001: this machine has no user \"4000000001\""
        );
        assert_eq!(
            error("root:no-such-group"),
            "--allow-user root:no-such-group: this machine has no group \"no-such-group\""
        );
        assert!(allow("root:4000000001", &root).is_ok());
        // The kernel takes this number for the present group.
        assert!(error("root:4294967295").contains("no group"));
    }

    #[test]
    fn without_the_rights_only_the_own_user_can_be_allowed() {
        let powerless = rights(0, "CapEff:\t0000000000000000\n");
        let other = rights(4_321, "CapEff:\t0000000000000000\n");
        let refused = allow("root", &other).expect_err("refused");
        assert!(
            refused.starts_with("--allow-user root: this worker runs as 4321 and cannot start tasks as somebody else: it lacks CAP_CHOWN, "),
            "{refused}"
        );
        assert!(allow("root:0", &powerless).is_err(), "groups cannot be had");
        let own = allow("root", &powerless).expect("the own user");
        let chosen = own.choose(&options(Some("0"), Some("0"))).expect("allowed");
        assert_eq!(chosen.expect("a user").account, None);
        let refused = own.choose(&options(Some("root"), Some("4000000001")));
        let refused = refused.expect_err("another group");
        assert!(
            refused.contains("as it does not run as root; allowed: "),
            "{refused}"
        );
        let ambient = rights(5, &ALL.replace("CapAmb:\t00", "CapAmb:\t01"));
        assert!(allow("root", &ambient).is_ok(), "bits that do not matter");
        let ambient = rights(
            5,
            &ALL.replace("CapAmb:\t0000000000000000", "CapAmb:\t0000000000000080"),
        );
        let refused = allow("root", &ambient).expect_err("refused");
        assert!(refused.contains("ambient"), "{refused}");
    }

    #[test]
    fn a_task_gets_what_it_asks_for_or_hears_which_flag_it_lacks() {
        let accounts = allow("root:4000000001", &rights(0, ALL)).expect("allowed");
        let choose = |user, group| accounts.choose(&options(user, group));
        assert_eq!(choose(None, None), Ok(None));
        assert_eq!(
            choose(None, Some("root")),
            Err("it asks for a `group` without a `user`".to_owned())
        );
        assert_eq!(
            choose(Some("ann"), None),
            Err(
                "it asks for the user \"ann\", for which this worker would have to be started with --allow-user ann; allowed: root"
                    .to_owned()
            )
        );
        let nobody = Accounts::default().choose(&options(Some("ann"), None));
        assert!(nobody.expect_err("none").ends_with("; no user is allowed"));
        for (user, group, gid) in [("root", None, 0), ("0", Some("4000000001"), 4_000_000_001)] {
            let chosen = choose(Some(user), group).expect("allowed").expect("a user");
            assert_eq!(chosen.user.as_raw(), 0);
            let account = chosen.account.expect("rights are taken");
            assert_eq!((account.user.as_raw(), account.group.as_raw()), (0, gid));
            assert!(account.groups.contains(&Gid::from_raw(0)));
            assert!(!account.groups.contains(&Gid::from_raw(4_000_000_001)));
        }
        let refused = choose(Some("root"), Some("wheel")).expect_err("not its own");
        assert!(
            refused.contains("started with --allow-user root:wheel; allowed: root"),
            "{refused}"
        );
    }
}
