//! The chart beside other programs that its users run, by the manifests and commands of the documentation: `make integrations`, with `T=` and
//! `FILTER=` for a selection. The specs run one after the other in a lab, and each begins with the installation in its original state.

mod acme;
mod cert_manager;
mod collector;
mod external_dns;
mod flagger;
mod logins;
mod prometheus;
mod rollouts;

use e2e::Lab;
use e2e::lab::Installation;
use e2e::pages::{self, Block};

/// Returns the release `lockgate` with its GatewayClass.
async fn lockgate(lab: &Lab) -> Installation<'_> {
    Installation::new(lab, "lockgate", "lockgate", &["--reset-values", "--set=gatewayAPI.gatewayClass.create=true"])
        .await
}

/// The blocks of a page that a module tests.
struct Page {
    blocks: Vec<Block>,
}

impl Page {
    /// Reads a page.
    fn read(page: &str) -> Self {
        let text = std::fs::read_to_string(pages::file(page)).expect("a page");
        let mut blocks = pages::blocks(page, &text);
        blocks.retain(|block| block.mark("tested by integrations::").is_some());
        Self { blocks }
    }

    /// Returns the first block with this text.
    fn block(&self, part: &str) -> String {
        let block = self.blocks.iter().find(|block| block.text.contains(part));
        block.unwrap_or_else(|| panic!("no block with {part}")).text.clone()
    }

    /// Returns the flags `--set KEY=VALUE` of the command that begins like this.
    fn values(&self, command: &str) -> Vec<String> {
        let lines = self.blocks.iter().filter(|block| block.language == "console").flat_map(|block| block.text.lines());
        let line = lines.map(|line| line.trim_start_matches("$ ")).find(|line| line.starts_with(command));
        let words: Vec<&str> = line.unwrap_or_else(|| panic!("no command {command}")).split_whitespace().collect();
        let set = words.windows(2).filter(|pair| pair[0] == "--set");
        set.map(|pair| format!("--set={}", pair[1])).collect()
    }
}
