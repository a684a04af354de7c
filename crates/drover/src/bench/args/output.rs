//! Where results go.

use std::path::PathBuf;

/// Arguments about the output.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Write one JSON object here (-: standard output); the table then goes to standard error
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the latency distribution here, as HDR text
    #[arg(long, value_name = "FILE")]
    pub hdr: Option<PathBuf>,
    /// Write DIR/report.html: every sample, medians with their spread, rivals beside, the machine; it needs no other file
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    /// Directory of result files [default: $XDG_STATE_HOME/drover/results, that is ~/.local/state/drover/results]
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,
    /// Write no result file
    #[arg(long, conflicts_with = "results")]
    pub no_results: bool,
    /// Show no progress bar
    #[arg(short, long)]
    pub quiet: bool,
}
