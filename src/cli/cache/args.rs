//! What the command line may say about the cache.

use std::time::Duration;

use crate::config::{Age, Bound, Bytes, Count, parse_jobs};
use crate::kernel::Target;
use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub enum CacheCommand {
    /// Print the path of the cache directory
    Dir,
    /// List the entries: key, step, target, size, hits, last use, kernel
    #[command(after_help = "Examples:\n  \
        npu-build cache list --sort size\n  \
        npu-build cache list --kernel softmax --target cpu\n  \
        npu-build cache list --unused-for 30d\n  \
        npu-build cache list --json | jq -r 'select(.hits == 0) | .key'\n\n\
        An entry serves every runtime that can launch it, so it has a target and no runtime.\n\
        Without --sort entries are listed as they are found, in the order of their keys.")]
    List(ListCommand),
    /// Show all that is known of one entry: material, tools, artifacts, durations, log
    #[command(after_help = "Examples:\n  \
        npu-build cache show 66feb5\n  \
        npu-build cache show 66feb5 --json | jq '.manifest.record.material'")]
    Show {
        /// The first digits of its key, at least 4
        key: String,
    },
    /// Check every digest and every structure, who may write what, and what lies around
    #[command(after_help = "Examples:\n  \
        npu-build cache verify\n  \
        npu-build cache verify --repair -j 4\n\n\
        Exit code 0: all is well, or is now; 1: something is not. A repaired entry is moved to\n\
        the cache's quarantine directory, and built again when it is needed. Builds may go on meanwhile.")]
    Verify {
        /// Quarantine what is damaged, delete what is left over, close what others could write
        #[arg(long)]
        repair: bool,
        /// How many threads read at once [default: one per core]
        #[arg(short, long, value_name = "N", allow_negative_numbers = true, value_parser = parse_jobs)]
        jobs: Option<u32>,
    },
    /// Delete what was not used for the longest time, until the cache is within its bounds
    #[command(after_help = "Examples:\n  \
        npu-build cache gc --max-size 1GiB\n  \
        npu-build cache gc --max-age 14d --dry-run\n\n\
        Bounds that are not given are those of npu-build.toml or its defaults, 5 GiB and 90 days;\n\
        'unlimited' is no bound. The same is done once a day after a build, down to four fifths of\n\
        the bounds. Builds may go on meanwhile.")]
    Gc(GcCommand),
    /// Delete entries: all of them, or those of a kernel or a target
    #[command(after_help = "Examples:\n  \
        npu-build cache clear\n  \
        npu-build cache clear --kernel softmax\n  \
        npu-build cache clear --all\n\n\
        Without an option all entries go, and what failed builds left. This waits until nobody builds;\n\
        with --kernel or --target builds may go on.")]
    Clear(ClearCommand),
    /// Show what the cache has done: hits, misses and why, bytes, time saved
    #[command(after_help = "Examples:\n  \
        npu-build cache stats\n  \
        npu-build cache stats -v                       # and the last misses, each with its reason\n  \
        npu-build cache stats --reset\n  \
        npu-build cache stats --json | jq .causes")]
    Stats {
        /// Begin to count anew, after showing what there was
        #[arg(long)]
        reset: bool,
    },
}

#[derive(Args, Debug)]
pub struct ListCommand {
    /// Only those of this kernel
    #[arg(long, value_name = "NAME")]
    pub kernel: Option<String>,
    /// Only those for this target
    #[arg(long, value_name = "TARGET")]
    pub target: Option<Target>,
    /// Only those that were not used for that long, e.g. 30d
    #[arg(long, value_name = "TIME", value_parser = parse_age)]
    pub unused_for: Option<Duration>,
    /// The largest, the most hit, the newest, the last used first; or by the kernel's name
    #[arg(long, value_enum, value_name = "BY")]
    pub sort: Option<Sort>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// Bytes
    Size,
    /// How often it was hit
    Hits,
    /// When it was made
    Age,
    /// When it was last used
    Used,
    /// The kernel's name
    Kernel,
}

#[derive(Args, Debug)]
pub struct GcCommand {
    /// Bytes of all entries, e.g. 5GiB, or unlimited
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub max_size: Option<Bound<Bytes>>,
    /// Time since the last use, e.g. 90d, or unlimited
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub max_age: Option<Bound<Age>>,
    /// How many entries, or unlimited
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub max_entries: Option<Bound<Count>>,
    /// Say what would be deleted, and delete nothing
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Args, Debug)]
pub struct ClearCommand {
    /// Only entries of this kernel
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    pub kernel: Option<String>,
    /// Only entries for this target
    #[arg(long, value_name = "TARGET", conflicts_with = "all")]
    pub target: Option<Target>,
    /// Statistics and all that is known of kernels and tools as well
    #[arg(long)]
    pub all: bool,
}

fn parse_age(text: &str) -> Result<Duration, String> {
    text.parse().map(|Age(age)| age)
}
