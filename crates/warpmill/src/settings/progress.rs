//! The setting `warpmill.progress`.

/// When the progress of queries is shown, on a terminal or in a notebook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressMode {
    /// Never.
    Off,
    /// In scripts, too.
    On,
    /// In interactive use: in shells, on the command line and in notebooks.
    Auto,
}

impl ProgressMode {
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "off" | "false" => Some(Self::Off),
            "on" | "true" => Some(Self::On),
            "auto" => Some(Self::Auto),
            _ => None,
        }
    }

    /// The name in SHOW.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
            Self::Auto => "auto",
        }
    }
}
