//! The roles of callers, and the one table of all calls and pages with the roles that may use them.
//!
//! A port that asks for identities refuses every call that the table does not allow to the caller's role. Tests compare the tables
//! with the methods of the services and the paths of the pages, and with what real programs answer to each role.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use crate::ids::{AccountName, Shard};
use crate::text::printable;
use crate::time::WallTime;

/// The words with which a scheduler refuses a worker whose certificate it will never accept again.
pub const MUST_JOIN_AGAIN: &str = "join again with a new token";
/// The first words with which a scheduler without an authority refuses a worker that wants to join.
pub const NO_AUTHORITY: &str = "the scheduler has no authority";

/// The words with which a scheduler or a worker refuses callers in plain text. Advice may follow.
pub const INSIDE_TLS: &str = "inside TLS only";

/// The role of a caller. Its certificate or token proves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    Scheduler,
    Worker,
    /// A worker whose certificate has expired. It may only renew it.
    Lapsed,
    /// May do everything that people may do, and decides who else may.
    Admin,
    /// May change the jobs of all owners, and give orders to workers.
    Operator,
    /// May see everything, and change the jobs of its own owner.
    Submitter,
    /// May see everything.
    Viewer,
}

impl Role {
    pub const ALL: [Role; 7] = [
        Role::Scheduler,
        Role::Worker,
        Role::Lapsed,
        Role::Admin,
        Role::Operator,
        Role::Submitter,
        Role::Viewer,
    ];

    /// Returns the name in certificates, tokens, tables and logs.
    pub fn name(self) -> &'static str {
        match self {
            Role::Scheduler => "scheduler",
            Role::Worker => "worker",
            Role::Lapsed => "lapsed",
            Role::Admin => "admin",
            Role::Operator => "operator",
            Role::Submitter => "submitter",
            Role::Viewer => "viewer",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Role::ALL.into_iter().find(|role| role.name() == name)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A proven identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub role: Role,
    /// Workers: the only shard that they may speak for.
    pub shard: Option<ShardLabel>,
    /// The number of the token that the identity goes back to. Its revocation ends the identity.
    pub token: Option<TokenNumber>,
    /// The owner of the jobs that a submitter may change.
    pub owner: Option<Arc<str>>,
    /// The accounts whose rights a submitter may give to tasks, besides those of the settings.
    pub run_as: Arc<[RunAs]>,
    pub proof: IdentityProof,
    /// The time from which calls on the same connection are refused; `None` if expiry ends no connection.
    pub until: Option<WallTime>,
    /// The other end of this connection.
    pub from: CallOrigin,
}

/// The proof of an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentityProof {
    /// A certificate for the key of the caller.
    Certificate,
    /// The secret of a token.
    Token,
    /// The kernel, which names the user at the other end of a local socket.
    LocalSocket,
}

/// The other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallOrigin {
    Network(SocketAddr),
    /// A process of this machine, over a local socket.
    Local(LocalUser),
}

impl CallOrigin {
    /// Returns the address of the machine at the other end; `None` for this one, over a local socket.
    pub fn machine(&self) -> Option<IpAddr> {
        match self {
            CallOrigin::Network(address) => Some(address.ip().to_canonical()),
            CallOrigin::Local(_) => None,
        }
    }

    /// Returns the source whose connections count together: the machine's address or, of an IPv6 address, the network, all of which one
    /// machine may have.
    pub fn source(&self) -> IpAddr {
        match self.machine() {
            None => Ipv4Addr::LOCALHOST.into(),
            Some(IpAddr::V4(address)) => address.into(),
            Some(IpAddr::V6(address)) => {
                let [a, b, c, d, ..] = address.segments();
                Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
            }
        }
    }
}

impl From<SocketAddr> for CallOrigin {
    fn from(address: SocketAddr) -> Self {
        CallOrigin::Network(address)
    }
}

impl fmt::Display for CallOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallOrigin::Network(address) => write!(f, "{address}"),
            CallOrigin::Local(user) => write!(f, "{user}"),
        }
    }
}

/// A user of this machine, as the kernel names it at the other end of a local socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalUser {
    pub uid: u32,
    /// The user's name; `None` if it is not known.
    pub name: Option<Arc<str>>,
}

impl fmt::Display for LocalUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "local user {name}/{}", self.uid),
            None => write!(f, "local user {}", self.uid),
        }
    }
}

impl Identity {
    /// Creates an identity with a role alone, for as long as its connection.
    pub fn new(role: Role, proof: IdentityProof, from: impl Into<CallOrigin>) -> Self {
        Identity {
            role,
            shard: None,
            token: None,
            owner: None,
            run_as: Arc::default(),
            proof,
            until: None,
            from: from.into(),
        }
    }

    /// Returns whether the caller may speak for this shard. Only workers speak for shards.
    pub fn speaks_for(&self, shard: &Shard) -> bool {
        self.role == Role::Worker && self.shard.as_ref() == Some(&ShardLabel::of(shard))
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.role)?;
        if let Some(shard) = &self.shard {
            write!(f, " `{shard}`")?;
        }
        if let Some(owner) = &self.owner {
            write!(f, " `{owner}`")?;
        }
        match &self.from {
            CallOrigin::Network(address) => write!(f, " at {address}"),
            CallOrigin::Local(user) => write!(f, " ({user})"),
        }
    }
}

/// A user, and a group if it is not the user's own, whose rights tasks may have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunAs {
    pub user: AccountName,
    pub group: Option<AccountName>,
}

impl RunAs {
    /// Reads `USER` or `USER:GROUP`.
    pub fn from_text(text: &str) -> Option<Self> {
        let (user, group) = match text.split_once(':') {
            Some((user, group)) => (user, Some(group)),
            None => (text, None),
        };
        let is_name = |name: &str| {
            let is_of_name = |c: char| !c.is_whitespace() && !c.is_control() && c != ':';
            !name.is_empty() && name.chars().all(is_of_name)
        };
        let account = |name: &str| AccountName::try_from(name).ok().filter(|_| is_name(name));
        Some(RunAs {
            user: account(user)?,
            group: match group {
                Some(group) => Some(account(group)?),
                None => None,
            },
        })
    }
}

impl fmt::Display for RunAs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.user)?;
        match &self.group {
            Some(group) => write!(f, ":{group}"),
            None => Ok(()),
        }
    }
}

/// The public number of a token, by which it is listed and revoked. It proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenNumber(pub u64);

impl TokenNumber {
    /// The hex digits of a number.
    const DIGITS: usize = 16;

    /// Reads at most 16 hex digits, large or small; `None` if the text is no number.
    pub fn from_text(text: &str) -> Option<Self> {
        let is_number =
            text.len() <= Self::DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = is_number.then(|| u64::from_str_radix(text, 16).ok())?;
        number.map(TokenNumber)
    }
}

impl fmt::Display for TokenNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A shard as one label of a DNS name, for certificates: the shard itself where it is such a label, else a hash of it.
#[derive(Clone, Debug)]
pub struct ShardLabel {
    label: Arc<str>,
    /// The shard of which the label has the hash, for people. Two labels are the same with it and without.
    hashed: Option<Shard>,
}

/// The longest shard that is its own label: a label has 63 bytes, of which two tell the forms apart.
const MAX_PLAIN_LABEL: usize = 61;
/// Bytes of the SHA-256 in a label, 56 hex digits: more than an attacker can collide.
const HASH_BYTES: usize = 28;

impl ShardLabel {
    pub fn of(shard: &Shard) -> Self {
        let text = shard.as_str();
        let is_label =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_plain = (1..=MAX_PLAIN_LABEL).contains(&text.len())
            && text.bytes().all(is_label)
            && !text.ends_with('-');
        let label = match is_plain {
            true => format!("s-{text}"),
            false => {
                use sha2::Digest as _;
                let hash = sha2::Sha256::digest(text.as_bytes());
                let digits = hash[..HASH_BYTES].iter().map(|byte| format!("{byte:02x}"));
                format!("h-{}", digits.collect::<String>())
            }
        };
        ShardLabel {
            label: label.into(),
            hashed: (!is_plain).then(|| shard.clone()),
        }
    }

    /// Accepts a label from a verified certificate.
    pub fn from_label(label: &str) -> Option<Self> {
        let has_form = label.starts_with("s-") || label.starts_with("h-");
        has_form.then(|| ShardLabel {
            label: label.into(),
            hashed: None,
        })
    }

    /// Accepts the hash of a shard as it is shown where nothing else is known of the shard.
    pub fn from_hash(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("h-")?;
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_hash = digits.len() == 2 * HASH_BYTES && digits.bytes().all(is_digit);
        is_hash.then(|| ShardLabel::from_label(text))?
    }

    /// Returns the label with its shard, if this is the shard.
    pub fn with_shard(self, shard: &Shard) -> Self {
        let named = ShardLabel::of(shard);
        if named == self { named } else { self }
    }

    /// Returns the shard; `None` if only its hash is known.
    pub fn shard(&self) -> Option<Shard> {
        match self.label.strip_prefix("s-") {
            Some(shard) => Shard::try_from(shard).ok(),
            None => self.hashed.clone(),
        }
    }

    /// Returns the label, with the mark of its form.
    pub fn as_str(&self) -> &str {
        &self.label
    }
}

impl PartialEq for ShardLabel {
    fn eq(&self, other: &Self) -> bool {
        self.label == other.label
    }
}

impl Eq for ShardLabel {}

impl PartialOrd for ShardLabel {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ShardLabel {
    fn cmp(&self, other: &Self) -> Ordering {
        self.label.cmp(&other.label)
    }
}

impl Hash for ShardLabel {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.label.hash(state);
    }
}

impl fmt::Display for ShardLabel {
    /// Formats the shard where it is known, else the label.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hashed {
            Some(shard) => f.write_str(&printable(shard.as_str())),
            None => f.write_str(self.label.strip_prefix("s-").unwrap_or(&self.label)),
        }
    }
}

/// A set of roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roles(u8);

impl Roles {
    const fn of(role: Role) -> Self {
        Roles(1 << role as u8)
    }

    const fn and(self, other: Roles) -> Self {
        Roles(self.0 | other.0)
    }

    pub fn contains(self, role: Role) -> bool {
        self.0 & Roles::of(role).0 != 0
    }
}

const SCHEDULER: Roles = Roles::of(Role::Scheduler);
const WORKER: Roles = Roles::of(Role::Worker);
const LAPSED: Roles = Roles::of(Role::Lapsed);
const ADMIN: Roles = Roles::of(Role::Admin);
const OPERATE: Roles = ADMIN.and(Roles::of(Role::Operator));
const SUBMIT: Roles = OPERATE.and(Roles::of(Role::Submitter));
const VIEW: Roles = SUBMIT.and(Roles::of(Role::Viewer));
const ALL: Roles = VIEW.and(SCHEDULER).and(WORKER);

/// The callers of calls for administrators alone.
pub(crate) const ADMINS: Callers = Callers::Only(ADMIN);

/// The callers of one call or page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callers {
    /// Everybody, also those without any proof. Such calls tell nothing about the cluster.
    Anyone,
    /// Everybody as well, but in plain text over a network nobody: such calls have a secret.
    AnyoneInPrivate,
    Only(Roles),
}

impl Callers {
    /// Returns whether a caller may make the call inside TLS; `None` is a caller without a role.
    pub fn include(self, role: Option<Role>) -> bool {
        match (self, role) {
            (Callers::Anyone | Callers::AnyoneInPrivate, _) => true,
            (Callers::Only(roles), Some(role)) => roles.contains(role),
            (Callers::Only(_), None) => false,
        }
    }
}

/// The rows of one port: names of calls or paths of pages, and their callers.
pub type Table = [(&'static str, Callers)];

/// The calls of a scheduler's Thrift port.
pub const SCHEDULER_CALLS: &Table = &[
    ("getStatus", Callers::Anyone),
    // Each proves by a secret who calls.
    ("join", Callers::AnyoneInPrivate),
    ("authenticate", Callers::AnyoneInPrivate),
    ("renewCertificate", Callers::Only(WORKER.and(LAPSED))),
    ("certify", Callers::Only(VIEW)),
    ("createToken", Callers::Only(ADMIN)),
    ("listTokens", Callers::Only(ADMIN)),
    ("revokeToken", Callers::Only(ADMIN)),
    ("revokeWorker", Callers::Only(ADMIN)),
    ("getAuthority", Callers::Only(VIEW)),
    ("rotateAuthority", Callers::Only(ADMIN)),
    // Calls of workers, each for its own shard.
    ("processHeartbeat", Callers::Only(WORKER)),
    ("updateStatus", Callers::Only(WORKER)),
    ("updateStatusBatch", Callers::Only(WORKER)),
    ("reportArtifacts", Callers::Only(WORKER)),
    ("requestWork", Callers::Only(WORKER)),
    ("fetchArtifacts", Callers::Only(WORKER.and(VIEW))),
    ("checkArtifact", Callers::Only(WORKER.and(VIEW))),
    // Calls that show something to people.
    ("getJobs", Callers::Only(VIEW)),
    ("getJob", Callers::Only(VIEW)),
    ("getLevels", Callers::Only(VIEW)),
    ("getJobHistograms", Callers::Only(VIEW)),
    ("getJobLogsByTime", Callers::Only(VIEW)),
    ("getJobLogsByID", Callers::Only(VIEW)),
    ("getClusterStatus", Callers::Only(VIEW)),
    ("getJobStatusPage", Callers::Only(VIEW)),
    ("getJobPage", Callers::Only(VIEW)),
    ("getTaskPage", Callers::Only(VIEW)),
    ("getJobStatus", Callers::Only(VIEW)),
    ("getOutputPage", Callers::Only(VIEW)),
    ("getFilePage", Callers::Only(VIEW)),
    ("getTaskHistory", Callers::Only(VIEW)),
    ("explainTask", Callers::Only(VIEW)),
    // The log names everybody, with their addresses.
    ("getAuditPage", Callers::Only(OPERATE)),
    // Calls with which people change something. Submitters change the jobs of their owner only.
    ("saveJob", Callers::Only(SUBMIT)),
    ("deleteJob", Callers::Only(SUBMIT)),
    ("forgiveJob", Callers::Only(SUBMIT)),
    ("submitJob", Callers::Only(SUBMIT)),
    ("removeJob", Callers::Only(SUBMIT)),
    ("pauseJob", Callers::Only(SUBMIT)),
    ("resumeJob", Callers::Only(SUBMIT)),
    ("cancelJob", Callers::Only(SUBMIT)),
    ("killTask", Callers::Only(SUBMIT)),
    ("forgiveTasks", Callers::Only(SUBMIT)),
    ("deleteHistory", Callers::Only(SUBMIT)),
    ("forgetOutputs", Callers::Only(SUBMIT)),
    ("holdOutputs", Callers::Only(SUBMIT)),
    ("putFile", Callers::Only(SUBMIT)),
    ("removeFile", Callers::Only(SUBMIT)),
    ("requestArtifactSlots", Callers::Only(SUBMIT)),
    ("releaseArtifactSlots", Callers::Only(SUBMIT)),
    // A plan of an operator runs only scripts of the config in force.
    ("planConfig", Callers::Only(OPERATE)),
    ("forgetWorker", Callers::Only(OPERATE)),
    ("orderWorker", Callers::Only(OPERATE)),
];

/// The calls of a worker's Thrift port.
pub const WORKER_CALLS: &Table = &[
    ("getStatus", Callers::Anyone),
    ("getRunningTasks", Callers::Only(SCHEDULER)),
    ("runTask", Callers::Only(SCHEDULER)),
    ("notifyIfTasksNotRunning", Callers::Only(SCHEDULER)),
    ("requestSuicide", Callers::Only(SCHEDULER)),
    ("killTask", Callers::Only(SCHEDULER)),
    ("learnCertificates", Callers::Only(SCHEDULER)),
    ("drain", Callers::Only(SCHEDULER.and(OPERATE))),
    ("getJobLogsByID", Callers::Only(SCHEDULER.and(VIEW))),
    ("getWorkFetch", Callers::Only(VIEW)),
    ("fetchWork", Callers::Only(OPERATE)),
    // The calls that workers make to each other: they fetch artifacts, and have the sender of a damaged one check its copy.
    ("fetchArtifacts", Callers::Only(ALL)),
    ("checkArtifact", Callers::Only(ALL)),
];

/// The pages of a scheduler's HTTP port. A scheduler that asks for no proof has neither `/login` nor `/logout`.
pub const PAGES: &Table = &[
    ("/health", Callers::Anyone),
    ("/health/live", Callers::Anyone),
    ("/health/ready", Callers::Anyone),
    ("/login", Callers::Anyone),
    ("/logout", Callers::Only(VIEW)),
    ("/", Callers::Only(VIEW)),
    ("/status", Callers::Only(VIEW)),
];

/// Returns who may make a call or see a page; `None` if the table does not know it.
pub fn callers(table: &Table, name: &str) -> Option<Callers> {
    let mut rows = table.iter();
    rows.find(|(known, _)| *known == name)
        .map(|(_, callers)| *callers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(text: &str) -> Shard {
        Shard::try_from(text).expect("a name")
    }

    #[test]
    fn different_shards_have_different_labels_that_fit_into_names() {
        let long = "w".repeat(100);
        let names = [
            "w1",
            "W1",
            "w1-",
            "-w1",
            "",
            "a.b",
            "h-00",
            "s-w1",
            "é",
            &long,
            &long[..61],
            &long[..62],
        ];
        let labels: std::collections::BTreeSet<ShardLabel> = names
            .iter()
            .map(|name| ShardLabel::of(&shard(name)))
            .collect();
        assert_eq!(labels.len(), names.len());
        for label in &labels {
            let text = label.as_str();
            assert!(text.len() <= 63, "{text}");
            let is_label =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            assert!(text.bytes().all(is_label) && !text.ends_with('-'), "{text}");
        }
        assert_eq!(ShardLabel::of(&shard("w1")).to_string(), "w1");
    }

    #[test]
    fn a_label_shows_its_shard_where_that_is_known() {
        let node = shard("node7.example.com");
        let label = ShardLabel::of(&node);
        assert_eq!(label.to_string(), "node7.example.com");
        let shown = ShardLabel::from_label(label.as_str()).expect("a label");
        assert_eq!((&shown, shown.shard()), (&label, None));
        let text = shown.to_string();
        assert!(text.starts_with("h-"), "{text}");
        assert_eq!(ShardLabel::from_hash(&text), Some(label.clone()));
        for text in ["w1", "s-w1", "h-00", "node7.example.com"] {
            assert_eq!(ShardLabel::from_hash(text), None, "{text}");
        }
        let other = shown.clone().with_shard(&shard("node8.example.com"));
        assert_eq!(other.shard(), None);
        assert_eq!(shown.with_shard(&node).shard(), Some(node));
        let plain = ShardLabel::from_label("s-w1").expect("a label");
        assert_eq!(plain.shard(), Some(shard("w1")));
        let odd = ShardLabel::of(&shard("a\nb"));
        assert_eq!(odd.to_string(), "a\\nb");
    }

    #[test]
    fn accounts_are_read_as_they_are_shown() {
        for text in ["batch", "batch:data", "1000", "1000:100"] {
            let read = RunAs::from_text(text).map(|account| account.to_string());
            assert_eq!(read.as_deref(), Some(text));
        }
        for text in ["", ":", "batch:", ":data", "a:b:c", "a b", "a\n"] {
            assert_eq!(RunAs::from_text(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_number_of_a_token_is_read_in_both_cases_and_shown_in_one() {
        for text in ["5F0C9BE1D3A24C77", "5f0c9be1d3a24c77"] {
            let number = TokenNumber::from_text(text).map(|number| number.to_string());
            assert_eq!(number.as_deref(), Some("5f0c9be1d3a24c77"));
        }
        for text in ["", "+1", "0x1", "5f0c9be1d3a24c770", "w1"] {
            assert_eq!(TokenNumber::from_text(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_worker_speaks_for_its_own_shard_alone() {
        let from = SocketAddr::from(([127, 0, 0, 1], 1));
        let worker = Identity {
            shard: Some(ShardLabel::of(&shard("w1"))),
            ..Identity::new(Role::Worker, IdentityProof::Certificate, from)
        };
        assert!(worker.speaks_for(&shard("w1")));
        assert!(!worker.speaks_for(&shard("w2")));
        let admin = Identity {
            role: Role::Admin,
            ..worker
        };
        assert!(!admin.speaks_for(&shard("w1")));
    }

    #[test]
    fn each_name_is_in_a_table_once_and_more_power_includes_less() {
        for table in [SCHEDULER_CALLS, WORKER_CALLS, PAGES] {
            let names: std::collections::BTreeSet<&str> =
                table.iter().map(|(name, _)| *name).collect();
            assert_eq!(names.len(), table.len());
            for (name, callers) in table {
                let powers = [Role::Viewer, Role::Submitter, Role::Operator, Role::Admin];
                for pair in powers.windows(2) {
                    let (less, more) = (
                        callers.include(Some(pair[0])),
                        callers.include(Some(pair[1])),
                    );
                    assert!(
                        more || !less,
                        "{name}: {} may, {} may not",
                        pair[0],
                        pair[1]
                    );
                }
            }
        }
        assert_eq!(callers(SCHEDULER_CALLS, "noSuchCall"), None);
    }
}
