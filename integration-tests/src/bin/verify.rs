//! `cargo verify`: checks a change completely, with the cheapest checks first.

use std::process::{Command, ExitCode};

use integration_tests::e2e::{Network, PYTHON_SETUP, python_with_packages, warn_not_run};

/// The tests that need network namespaces.
const NETWORK_TESTS: &str = "all tests of e2e_network, which need namespaces";

/// One step, with its name and command.
struct VerifyStep {
    name: &'static str,
    program: &'static str,
    args: &'static [&'static str],
}

const STEPS: &[VerifyStep] = &[
    VerifyStep {
        name: "formatting",
        program: "cargo",
        args: &["fmt", "--all", "--check"],
    },
    VerifyStep {
        name: "dependencies: bans, licences, sources",
        program: "cargo",
        args: &["deny", "--locked", "check", "bans", "licenses", "sources"],
    },
    VerifyStep {
        name: "lints",
        program: "cargo",
        args: &[
            "clippy",
            "--quiet",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
    },
    VerifyStep {
        name: "rules of the code (tidy)",
        program: "cargo",
        args: &[
            "test",
            "--quiet",
            "-p",
            "integration-tests",
            "--test",
            "tidy",
        ],
    },
    VerifyStep {
        name: "the book",
        program: "mdbook",
        args: &["build", "docs"],
    },
    VerifyStep {
        name: "injected bugs are caught by the simulator's laws, and the contract needs each rule",
        program: "cargo",
        args: &[
            "test",
            "--quiet",
            "-p",
            "integration-tests-sim",
            "--features",
            "sabotage",
            "--test",
            "sabotage",
            "--test",
            "search",
        ],
    },
    VerifyStep {
        name: "unit, property, wire and end-to-end tests",
        program: "cargo",
        args: &["test", "--workspace", "--no-fail-fast"],
    },
];

/// Fresh cases of each random property, besides the fixed ones: about a minute in all. A failure prints the command that repeats it.
const FRESH_CASES: (&str, &str) = ("PROPERTY_CASES", "16");

/// A tool that a step needs, with commands to check for it and to install it.
struct Tool {
    name: &'static str,
    probe: &'static [&'static str],
    get: &'static str,
}

const TOOLS: &[Tool] = &[
    Tool {
        name: "rustfmt",
        probe: &["cargo", "fmt", "--version"],
        get: "rustup component add rustfmt",
    },
    Tool {
        name: "clippy",
        probe: &["cargo", "clippy", "--version"],
        get: "rustup component add clippy",
    },
    Tool {
        name: "cargo-deny",
        probe: &["cargo", "deny", "--version"],
        get: "cargo install --locked cargo-deny",
    },
    Tool {
        name: "mdbook",
        probe: &["mdbook", "--version"],
        get: "cargo install --locked mdbook",
    },
    Tool {
        name: "the Thrift compiler",
        probe: &["thrift", "--version"],
        get: "apt-get install thrift-compiler",
    },
    Tool {
        name: "Python 3",
        probe: &["python3", "--version"],
        get: "apt-get install python3",
    },
    Tool {
        name: "strace",
        probe: &["strace", "-V"],
        get: "apt-get install strace",
    },
    Tool {
        name: "iproute2",
        probe: &["ip", "-V"],
        get: "apt-get install iproute2",
    },
];

fn main() -> ExitCode {
    if std::env::args()
        .skip(1)
        .any(|arg| arg == "--help" || arg == "-h")
    {
        println!("Checks everything that must hold before a change lands. Steps:");
        for step in STEPS {
            println!(
                "  {:<45} {} {}",
                step.name,
                step.program,
                step.args.join(" ")
            );
        }
        println!("Sets {}={} unless it is set.", FRESH_CASES.0, FRESH_CASES.1);
        println!("Installs nothing: it names what is missing and how to get it.");
        return ExitCode::SUCCESS;
    }
    let missing: Vec<&Tool> = TOOLS.iter().filter(|tool| !is_there(tool)).collect();
    let no_packages = python_with_packages().err();
    if !missing.is_empty() || no_packages.is_some() {
        eprintln!("cargo verify needs tools that are not here:");
        for tool in missing {
            eprintln!("  {}: {}", tool.name, tool.get);
        }
        if let Some(why) = no_packages {
            eprintln!(
                "  the Python packages thriftpy2 and thrift: {PYTHON_SETUP} (needs apt-get install python3-venv)\n    {why}"
            );
        }
        return ExitCode::from(2);
    }
    // Missing tools can be installed, but the right to create networks depends on the machine.
    let no_network = Network::new(1, 0).err();
    if let Some(why) = &no_network {
        warn_not_run(NETWORK_TESTS, why);
    }
    for (number, step) in STEPS.iter().enumerate() {
        println!(
            "[{}/{}] {}: {} {}",
            number + 1,
            STEPS.len(),
            step.name,
            step.program,
            step.args.join(" ")
        );
        let mut command = Command::new(step.program);
        if std::env::var_os(FRESH_CASES.0).is_none() {
            command.env(FRESH_CASES.0, FRESH_CASES.1);
        }
        match command.args(step.args).status() {
            Ok(status) if status.success() => {}
            Ok(status) => {
                eprintln!("verify: `{}` failed ({status})", step.name);
                return ExitCode::FAILURE;
            }
            Err(error) => {
                eprintln!("verify: cannot run {}: {error}", step.program);
                return ExitCode::from(2);
            }
        }
    }
    match no_network {
        None => println!("verify: everything holds"),
        Some(why) => {
            warn_not_run(NETWORK_TESTS, &why);
            println!(
                "verify: everything holds that this machine can check; NOT CHECKED: faults of a real network"
            );
        }
    }
    ExitCode::SUCCESS
}

fn is_there(tool: &Tool) -> bool {
    let [program, args @ ..] = tool.probe else {
        return true;
    };
    let output = Command::new(program).args(args).output();
    output.is_ok_and(|o| o.status.success())
}
