//! Chooses the scheduler that a command calls, and the proof of who calls.
//!
//! The first of these counts for the address: the flags; BRASSERIE_CONTEXT; the context in use; the local socket of the scheduler that systemd
//! runs on this machine, if this user may use it and shows no token; the default address. A token of a flag or of BRASSERIE_TOKEN replaces that
//! of the context in use, if it is of the same authority.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::Result;
use brasserie_common_identity::Token;
use brasserie_common_runtime::NetworkExposure;
use brasserie_common_runtime::net::LOCAL_SOCKET;

use crate::access;
use crate::addresses::{scheduler_address, socket_address, socket_path};
use crate::contexts::{Context, Contexts};
use crate::failure::Failure;
use crate::output::{printable, shell_word};

const DEFAULT_SCHEDULER: &str = "127.0.0.1:6789";
/// The variable of the environment with the name of a context.
const CONTEXT: &str = "BRASSERIE_CONTEXT";
/// The data directory of the scheduler's unit for systemd.
const SYSTEM_DIRECTORY: &str = "/var/lib/brasserie/scheduler";

/// The scheduler's address and the caller's proof, flags of every command that calls one.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct SchedulerArgs {
    /// The address of the scheduler, or its local socket as unix:/PATH [default: that of the context in use, else the local socket of the
    /// scheduler that systemd runs on this machine, else 127.0.0.1:6789]
    #[arg(long, value_name = "HOST:PORT|unix:PATH", value_parser = scheduler_address)]
    scheduler: Option<String>,
    /// The file with the token that proves who you are, or the scheduler's data directory on its own machine, or - for a line of standard
    /// input, which a terminal does not show; BRASSERIE_TOKEN holds a token too. It replaces the token of the context in use. A scheduler
    /// that listens on loopback addresses alone needs none.
    #[arg(long, value_name = "FILE|DIR|-")]
    token_file: Option<PathBuf>,
    /// The context with the scheduler's address and your token: see `brasserie context`. BRASSERIE_CONTEXT names one too.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["scheduler", "token_file"])]
    context: Option<String>,
    /// Allow calls in plain text to other machines, to a scheduler that asks for no proof and its workers. Use it only if you trust everybody
    /// on that network: nothing proves who answers there. With a token or a context it is not needed.
    #[arg(long)]
    insecure_network: bool,
}

impl SchedulerArgs {
    /// Returns the flags that name this scheduler to another command, with a space before each; empty for the default.
    pub(crate) fn flag(&self) -> String {
        let token = self.token_file.as_ref().map(|file| file.to_string_lossy());
        let flags = [
            ("context", self.context.as_deref()),
            ("scheduler", self.scheduler.as_deref()),
            ("token-file", token.as_deref()),
        ];
        let given = flags
            .into_iter()
            .filter_map(|(flag, value)| Some((flag, value?)));
        let given = given.map(|(flag, value)| format!(" --{flag} {}", shell_word(value)));
        let open = self
            .insecure_network
            .then(|| " --insecure-network".to_owned());
        given.chain(open).collect()
    }
}

/// A context and its name.
struct NamedContext {
    name: String,
    context: Context,
}

impl NamedContext {
    /// Returns the context of BRASSERIE_CONTEXT, which is `variable`, or else the context in use.
    fn chosen(variable: Option<String>) -> Result<Option<Self>> {
        let contexts = Contexts::read()?;
        let name = variable.or_else(|| contexts.in_use.clone());
        name.map(|name| {
            let context = contexts.named(&name)?;
            let name = printable(&name).to_string();
            Ok(NamedContext { name, context })
        })
        .transpose()
    }
}

/// A scheduler to call.
#[derive(Debug)]
pub(crate) struct Destination {
    /// The addresses, at least one. The first one that listens is called.
    pub addresses: Vec<String>,
    /// `None`: the scheduler asks for no proof, or the address is a local socket.
    pub token: Option<Token>,
    /// The addresses to which calls in plain text may go.
    pub exposure: NetworkExposure,
}

impl Destination {
    /// Chooses the scheduler for these flags.
    pub(crate) fn of(args: &SchedulerArgs) -> Result<Self> {
        let exposure = NetworkExposure::of(args.insecure_network);
        let file = args.token_file.as_deref();
        let variable = std::env::var(CONTEXT).ok().filter(|name| !name.is_empty());
        match (&args.context, &args.scheduler, file, variable) {
            (Some(name), ..) => Contexts::read()?.named(name).map(Self::of_context),
            (None, Some(address), Some(_), _) if socket_path(address).is_some() => {
                Err(token_at_socket().into())
            }
            (None, Some(address), file, _) => Ok(Destination {
                addresses: vec![address.clone()],
                token: match file {
                    Some(file) => Some(access::read_token(file)?),
                    None => access::token_of_environment()?,
                },
                exposure,
            }),
            (None, None, Some(file), variable) => match usable_socket(file) {
                Some(socket) => Ok(Self::local(&socket)),
                None => {
                    let token = access::read_token(file)?;
                    // A data directory stands for the scheduler of this machine.
                    let context = match file.is_dir() {
                        true => None,
                        false => NamedContext::chosen(variable)?,
                    };
                    Self::of_token(token, context, exposure)
                }
            },
            (None, None, None, Some(name)) => Contexts::read()?.named(&name).map(Self::of_context),
            (None, None, None, None) => Self::of_environment(exposure),
        }
    }

    fn of_environment(exposure: NetworkExposure) -> Result<Self> {
        if let Some(token) = access::token_of_environment()? {
            return Self::of_token(token, NamedContext::chosen(None)?, exposure);
        }
        if let Some(context) = Contexts::read()?.in_use()? {
            return Ok(Self::of_context(context));
        }
        Ok(match usable_socket(Path::new(SYSTEM_DIRECTORY)) {
            Some(socket) => Self::local(&socket),
            None => Self::default_address(None, exposure),
        })
    }

    /// Chooses the scheduler for a token without an address. Errors if the context does not show that its scheduler knows the token.
    fn of_token(
        token: Token,
        context: Option<NamedContext>,
        exposure: NetworkExposure,
    ) -> Result<Self> {
        let Some(NamedContext { name, context }) = context else {
            return Ok(Self::default_address(Some(token), exposure));
        };
        let problem = match &context.token {
            Some(known) if known.authority == token.authority => {
                let token = Some(token);
                return Ok(Self::of_context(Context { token, ..context }));
            }
            Some(_) => "the token is of another authority than that of",
            None => "the token cannot be compared with one of",
        };
        Err(Failure::usage(format!("{problem} the context `{name}`"))
            .remedy("Name the scheduler to which the token belongs: --scheduler HOST:PORT")
            .into())
    }

    fn of_context(context: Context) -> Self {
        Destination {
            addresses: context.schedulers,
            token: context.token,
            // The user has added a context without a token with this choice.
            exposure: NetworkExposure::AnyAddress,
        }
    }

    fn default_address(token: Option<Token>, exposure: NetworkExposure) -> Self {
        Destination {
            addresses: vec![DEFAULT_SCHEDULER.to_owned()],
            token,
            exposure,
        }
    }

    pub(crate) fn local(socket: &Path) -> Self {
        Destination {
            addresses: vec![socket_address(socket)],
            token: None,
            exposure: NetworkExposure::LoopbackOnly,
        }
    }
}

/// Creates the failure for a token that is named together with a local socket.
pub(crate) fn token_at_socket() -> Failure {
    Failure::usage("a local socket takes no token: the kernel names its users to the scheduler")
        .remedy("Leave --token-file out, or name the scheduler by HOST:PORT alone")
}

/// Returns the local socket in a scheduler's data directory if a scheduler listens there that takes calls of this user.
fn usable_socket(directory: &Path) -> Option<PathBuf> {
    let socket = socket_in(directory);
    UnixStream::connect(&socket).is_ok().then_some(socket)
}

/// Returns where the local socket of a scheduler with this data directory is.
pub(crate) fn socket_in(directory: &Path) -> PathBuf {
    directory.join(LOCAL_SOCKET)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        scheduler: SchedulerArgs,
    }

    #[test]
    fn a_token_goes_to_the_scheduler_of_the_context_with_its_authority() {
        let token = |authority: &str, secret: &str| {
            let text = format!("brt1-{}-{}", authority.repeat(32), secret.repeat(32));
            access::parse_token(&text).expect("a token")
        };
        let context = |token: Option<Token>| NamedContext {
            name: "prod".to_owned(),
            context: Context {
                schedulers: vec!["head:1".to_owned()],
                token,
                cluster: None,
                role: None,
            },
        };
        let chosen = |context| {
            let exposure = NetworkExposure::LoopbackOnly;
            Destination::of_token(token("ab", "02"), context, exposure)
        };
        let same = chosen(Some(context(Some(token("ab", "01"))))).expect("the same cluster");
        assert_eq!(same.addresses, ["head:1"]);
        assert_eq!(same.token, Some(token("ab", "02")));
        let none = chosen(None).expect("no context");
        assert_eq!(none.addresses, [DEFAULT_SCHEDULER]);
        for (known, why) in [
            (Some(token("cd", "01")), "of another authority"),
            (None, "cannot be compared"),
        ] {
            let refused = chosen(Some(context(known))).expect_err("another cluster");
            let text = crate::failure::text_of(&refused);
            assert!(
                text.contains(why) && text.contains("`prod`") && text.contains("--scheduler"),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_address_is_wrong_usage() {
        use clap::Parser as _;
        for bad in ["", "nan", "host:", ":1", "host:99999"] {
            let error = Line::try_parse_from(["status", "--scheduler", bad]).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{bad}");
            assert!(error.to_string().contains("HOST:PORT"), "{bad}: {error}");
        }
        let url = Line::try_parse_from(["status", "--scheduler", "http://host:6790"]).unwrap_err();
        assert!(url.to_string().contains("leave `http://` out"), "{url}");
        let good = Line::try_parse_from(["status", "--scheduler", "host:1"]).unwrap();
        assert_eq!(good.scheduler.scheduler.as_deref(), Some("host:1"));
        let both = ["status", "--scheduler", "host:1", "--context", "c"];
        let error = Line::try_parse_from(both).unwrap_err();
        assert!(error.to_string().contains("cannot be used with"), "{error}");
    }
}
