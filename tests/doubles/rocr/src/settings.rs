//! What the environment tells the double to be and to do wrong, read when the first `hsa_init`
//! succeeds or fails. The README has the language.

use crate::abi::Status;
use crate::calls::Call;

/// What happens to a packet instead of its execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its batch is refused.
    Refuse(Status),
    /// The device fails in it.
    Error(Status),
    /// The device makes no progress for so many milliseconds, then fails.
    Hang(u64),
    /// The device takes so many milliseconds longer.
    Slow(u64),
}

/// The settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The AIE agent's name; `None`: there is no such agent.
    pub agent: Option<String>,
    /// Calls that fail: which, in which of its runs (from 1), with what.
    pub failures: Vec<(Call, u64, Status)>,
    /// Packets that fail: the number of the packet (from 1), and how.
    pub faults: Vec<(u64, Fault)>,
    /// How long calls take, in nanoseconds.
    pub latencies: Vec<(Call, u64)>,
    /// How long a doorbell and each packet take, in nanoseconds.
    pub doorbell_latency: u64,
    /// As above.
    pub packet_latency: u64,
    /// AIE code objects are unknown.
    pub no_hsaco: bool,
    /// External variables are unknown.
    pub no_variables: bool,
    /// A mapping with live grants cannot be unmapped.
    pub strict_unmap: bool,
    /// Packets are checked and retired, and nothing is computed.
    pub empty: bool,
    /// A stream without a program is a device error.
    pub needs_program: bool,
    /// A queue without a callback says what happened before it aborts.
    pub fault_message: bool,
}

fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn status(text: &str) -> Option<Status> {
    number(text).map(|n| Status(n as u32))
}

impl Settings {
    /// Reads the settings; `get` gives the variables.
    ///
    /// # Errors
    /// The first entry that is not understood: a test that misspells one must not pass.
    pub fn read(get: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let mut settings = Self {
            agent: Some("aie2p".to_owned()),
            fault_message: get("HSA_ENABLE_QUEUE_FAULT_MESSAGE").as_deref() != Some("0"),
            ..Self::default()
        };
        match get("ROCR_DOUBLE_AGENT").as_deref() {
            None | Some("") => {}
            Some("none") => settings.agent = None,
            Some(name) => settings.agent = Some(name.to_owned()),
        }
        if get("HSA_DISABLE_XDNA").as_deref() == Some("1") {
            settings.agent = None;
        }
        let mut each = |name: &str, take: fn(&mut Self, &str) -> Option<()>| {
            let text = get(name).unwrap_or_default();
            for entry in text.split(',').map(str::trim).filter(|e| !e.is_empty()) {
                take(&mut settings, entry).ok_or_else(|| format!("{name}: '{entry}'"))?;
            }
            Ok::<_, String>(())
        };
        each("ROCR_DOUBLE_FAIL", Self::failure)?;
        each("ROCR_DOUBLE_DISPATCH", Self::fault)?;
        each("ROCR_DOUBLE_LATENCY", Self::latency)?;
        each("ROCR_DOUBLE_OLD", Self::old)?;
        each("ROCR_DOUBLE_EXECUTE", Self::execute)?;
        Ok(settings)
    }

    /// `hsa_signal_create@2=0x1008`.
    fn failure(&mut self, entry: &str) -> Option<()> {
        let (call, result) = entry.split_once('=')?;
        let (name, run) = call.split_once('@').unwrap_or((call, "1"));
        let failure = (Call::from_name(name)?, number(run)?, status(result)?);
        self.failures.push(failure);
        Some(())
    }

    /// `3=refuse:0x1009`, `3=error`, `3=hang:50`, `3=slow:50`.
    fn fault(&mut self, entry: &str) -> Option<()> {
        let (packet, fault) = entry.split_once('=')?;
        let (kind, value) = match fault.split_once(':') {
            Some((kind, value)) => (kind, Some(value)),
            None => (fault, None),
        };
        let fault = match (kind, value) {
            ("refuse", Some(value)) => Fault::Refuse(status(value)?),
            ("refuse", None) => Fault::Refuse(Status::INVALID_PACKET_FORMAT),
            ("error", Some(value)) => Fault::Error(status(value)?),
            ("error", None) => Fault::Error(Status::ERROR),
            ("hang", Some(value)) => Fault::Hang(number(value)?),
            ("slow", Some(value)) => Fault::Slow(number(value)?),
            _ => return None,
        };
        self.faults.push((number(packet)?, fault));
        Some(())
    }

    /// `hsa_queue_create=35000000`, `doorbell=90000`, `packet=39000`.
    fn latency(&mut self, entry: &str) -> Option<()> {
        let (name, nanoseconds) = entry.split_once('=')?;
        let nanoseconds = number(nanoseconds)?;
        match name {
            "doorbell" => self.doorbell_latency = nanoseconds,
            "packet" => self.packet_latency = nanoseconds,
            name => self.latencies.push((Call::from_name(name)?, nanoseconds)),
        }
        Some(())
    }

    fn old(&mut self, entry: &str) -> Option<()> {
        match entry {
            "hsaco" => self.no_hsaco = true,
            "variables" => self.no_variables = true,
            "unmap" => self.strict_unmap = true,
            _ => return None,
        }
        Some(())
    }

    fn execute(&mut self, entry: &str) -> Option<()> {
        match entry {
            "all" => {}
            "nothing" => self.empty = true,
            "known" => self.needs_program = true,
            _ => return None,
        }
        Some(())
    }

    /// Columns of the AIE agent: of a partition that takes all of them.
    pub fn columns(&self) -> u32 {
        match self.agent.as_deref() {
            // Phoenix has five, one of which has no DMA to the host.
            Some("aie2") => 4,
            _ => 8,
        }
    }
}

/// What happens to the packet of that number.
pub fn fault(faults: &[(u64, Fault)], number: u64) -> Option<Fault> {
    let found = faults.iter().find(|(n, _)| *n == number);
    found.map(|(_, fault)| *fault)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "these are tests")]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<Settings, String> {
        Settings::read(|name| {
            let found = variables.iter().find(|(n, _)| *n == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn faults_are_read() {
        let settings = of(&[
            (
                "ROCR_DOUBLE_FAIL",
                "hsa_init=0x1008, hsa_signal_create@3=0x1008",
            ),
            ("ROCR_DOUBLE_DISPATCH", "2=refuse,5=error:0x1000,7=hang:20"),
            ("ROCR_DOUBLE_AGENT", "aie9"),
        ])
        .unwrap();
        assert_eq!(
            settings.failures,
            [
                (Call::from_name("hsa_init").unwrap(), 1, Status(0x1008)),
                (
                    Call::from_name("hsa_signal_create").unwrap(),
                    3,
                    Status(0x1008)
                )
            ]
        );
        assert_eq!(
            settings.faults,
            [
                (2, Fault::Refuse(Status(0x1009))),
                (5, Fault::Error(Status(0x1000))),
                (7, Fault::Hang(20))
            ]
        );
        assert_eq!(settings.agent.as_deref(), Some("aie9"));
    }

    #[test]
    fn a_misspelt_setting_is_an_error() {
        for (name, value) in [
            ("ROCR_DOUBLE_FAIL", "hsa_innit=1"),
            ("ROCR_DOUBLE_DISPATCH", "1=explode"),
            ("ROCR_DOUBLE_OLD", "age"),
            ("ROCR_DOUBLE_EXECUTE", "most"),
            ("ROCR_DOUBLE_LATENCY", "doorbell"),
        ] {
            assert!(of(&[(name, value)]).is_err(), "{name}");
        }
    }
}
