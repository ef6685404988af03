//! `lockgate completions`.

use clap::{Args, ValueEnum};
use clap_complete::Shell as Generator;

use super::exit::ExitCodes;

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// The tested shells.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  bash, for this session:
    source <(lockgate completions bash)

  bash, for good:
    lockgate completions bash > ~/.local/share/bash-completion/completions/lockgate

  zsh (a directory of $fpath, here the first):
    lockgate completions zsh > \"${fpath[1]}/_lockgate\"

  fish:
    lockgate completions fish > ~/.config/fish/completions/lockgate.fish";

pub(super) const EXIT_CODES: ExitCodes =
    ExitCodes { fine: "the script is printed", findings: None, failed: "wrong usage, such as another shell" };

pub(super) fn script(options: &CompletionsArgs) -> String {
    let generator = match options.shell {
        Shell::Bash => Generator::Bash,
        Shell::Zsh => Generator::Zsh,
        Shell::Fish => Generator::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(generator, &mut super::command_line(), "lockgate", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}
