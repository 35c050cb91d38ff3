//! The process's one HSA device. It is opened by whoever comes first, shared by all, and closed
//! when the last handle is gone: executables, memory, queue, and ROCR itself, in this order, which
//! is that of the fields.

use super::blocks::Blocks;
use super::executable::Executables;
use super::queue::Queue;
use super::result::Rocr;
use super::sys;
use crate::error::{DeviceError, DeviceFault};
use crate::{Error, Npu, Runtime, fork, npu};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

pub(super) struct Instance {
    pub(super) executables: Mutex<Executables>,
    pub(super) blocks: Mutex<Blocks>,
    pub(super) queue: Mutex<Queue>,
    pub(super) agents: Agents,
    pub(super) pools: Pools,
    /// Whether launches look for inputs that were written.
    pub(super) verify: bool,
    pub(super) rocr: &'static Rocr,
    _session: Session,
    _opened: Opened,
}

/// Who takes part.
#[derive(Clone, Copy)]
pub(super) struct Agents {
    pub(super) aie: sys::Agent,
    pub(super) cpu: sys::Agent,
    pub(super) npu: Npu,
}

/// The memory pools of the AIE agent.
#[derive(Clone, Copy)]
pub(super) struct Pools {
    pub(super) kernarg: sys::Pool,
    /// For what the device itself reads: variables.
    pub(super) heap: sys::Pool,
    /// For arguments.
    pub(super) data: sys::Pool,
}

/// Loaded once, by whichever process of a family of forks came first.
static ROCR: OnceLock<Rocr> = OnceLock::new();

static STATE: Mutex<State> = Mutex::new(State {
    instance: Weak::new(),
    open: false,
});
static CLOSED: Condvar = Condvar::new();

struct State {
    instance: Weak<Instance>,
    /// Whether there is an instance, or one that is being closed.
    open: bool,
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Instance {
    pub(super) fn open() -> Result<Arc<Self>, Error> {
        if !cfg!(target_os = "linux") {
            return Err(Error::NotSupported {
                runtime: Runtime::Hsa,
            });
        }
        fork::watched_generation();
        // Before any lock: in a child one may be held for ever by a thread that was not copied.
        if ROCR.get().is_some_and(Rocr::is_foreign) {
            return Err(Error::Forked {
                runtime: Runtime::Hsa,
            });
        }
        let mut state = state();
        loop {
            if let Some(instance) = state.instance.upgrade() {
                return Ok(instance);
            }
            if !state.open {
                break;
            }
            state = CLOSED.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let rocr = match ROCR.get() {
            Some(rocr) => rocr,
            None => {
                let rocr = Rocr::load()?;
                ROCR.get_or_init(|| rocr)
            }
        };
        let instance = Arc::new(Self::start(rocr)?);
        state.instance = Arc::downgrade(&instance);
        state.open = true;
        Ok(instance)
    }

    fn start(rocr: &'static Rocr) -> Result<Self, Error> {
        let session = Session::begin(rocr)?;
        let agents = Agents::find(rocr)?;
        let pools = Pools::find(rocr, agents.aie)?;
        let queue = Queue::new(rocr, agents.aie, pools.kernarg)?;
        Ok(Self {
            executables: Mutex::new(Executables::new(queue.retired())),
            blocks: Mutex::new(Blocks::new(rocr, pools.data, [agents.cpu, agents.aie])),
            queue: Mutex::new(queue),
            agents,
            pools,
            verify: npu::verifies_directions(),
            rocr,
            _session: session,
            _opened: Opened(rocr),
        })
    }

    /// Refuses to go on in a child of the process that opened the device.
    #[inline]
    pub(super) fn check_process(&self) -> Result<(), Error> {
        if self.rocr.is_foreign() {
            return Err(Error::Forked {
                runtime: Runtime::Hsa,
            });
        }
        Ok(())
    }

    pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// From `hsa_init` to `hsa_shut_down`.
struct Session(&'static Rocr);

impl Session {
    fn begin(rocr: &'static Rocr) -> Result<Self, Error> {
        match rocr.init() {
            Ok(()) => Ok(Self(rocr)),
            Err(failure) => {
                let mut advice = format!(
                    "the library is {}; without a driver (`amdxdna` for an NPU) or the right to \
                     open /dev/accel it can't start",
                    rocr.path.display()
                );
                if let Some(bytes) = low_memory_limit() {
                    advice.push_str(&format!(
                        ", nor with a limit of {} KiB of locked memory (`ulimit -l`, 64 MiB are \
                         needed)",
                        bytes >> 10
                    ));
                }
                Err(failure.error(rocr, "opening the device", advice))
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.0.is_foreign() {
            // SAFETY: all that belongs to the instance has been dropped before this field.
            unsafe { self.0.shut_down().ok() };
        }
    }
}

/// The last field of an instance: when it is dropped, another one may be opened.
struct Opened(&'static Rocr);

impl Drop for Opened {
    fn drop(&mut self) {
        if !self.0.is_foreign() {
            state().open = false;
            CLOSED.notify_all();
        }
    }
}

/// The limit of locked memory, if it is below the device heap's 64 MiB.
fn low_memory_limit() -> Option<u64> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock);
    limit.current.filter(|&bytes| bytes < 64 << 20)
}

impl Agents {
    fn find(rocr: &'static Rocr) -> Result<Self, Error> {
        let failed =
            |failure: super::result::Failure| failure.error(rocr, "looking for an NPU", "");
        let refused = |fault| {
            Error::Device(Box::new(DeviceError {
                runtime: Runtime::Hsa,
                library: rocr.path.clone(),
                fault,
            }))
        };
        let (mut aie, mut cpu) = (Vec::new(), None);
        for agent in rocr.agents().map_err(failed)? {
            match rocr.device_type(agent).map_err(failed)? {
                sys::DEVICE_AIE => aie.push((agent, rocr.agent_name(agent).map_err(failed)?)),
                sys::DEVICE_CPU if cpu.is_none() => cpu = Some(agent),
                _ => {}
            }
        }
        if aie.is_empty() {
            return Err(refused(DeviceFault::None {
                locked_memory: low_memory_limit(),
            }));
        }
        let cpu = cpu.ok_or_else(|| refused(DeviceFault::Lacks { what: "CPU agent" }))?;
        let insisted = ["NPU_RUNTIME_HSA_DEVICE", "IRON_HSA_DEVICE"]
            .into_iter()
            .find_map(|variable| {
                let value = std::env::var_os(variable).filter(|value| !value.is_empty())?;
                Some((variable, value.to_string_lossy().into_owned()))
            });
        let names: Vec<&str> = aie.iter().map(|(_, name)| name.as_str()).collect();
        let (index, npu) = choose(&names, insisted).map_err(refused)?;
        Ok(Self {
            aie: aie[index].0,
            cpu,
            npu,
        })
    }
}

/// Which of the agents of these names to take, and its generation. A name that is not known is
/// not guessed at.
fn choose(
    names: &[&str],
    insisted: Option<(&'static str, String)>,
) -> Result<(usize, Npu), DeviceFault> {
    let known = |name: &str| {
        let all = [Npu::Npu1, Npu::Npu2];
        all.into_iter().find(|npu| npu.arch() == name)
    };
    let Some((variable, value)) = insisted else {
        let of_known = names.iter().position(|name| known(name).is_some());
        let index = of_known.unwrap_or(0);
        let name = names[index];
        return match known(name) {
            Some(npu) => Ok((index, npu)),
            None => Err(DeviceFault::Unknown { name: name.into() }),
        };
    };
    let Ok(npu) = value.parse::<Npu>() else {
        return Err(DeviceFault::Variable { variable, value });
    };
    let same = names.iter().position(|name| known(name) == Some(npu));
    let unknown = || names.iter().position(|name| known(name).is_none());
    match same.or_else(unknown) {
        Some(index) => Ok((index, npu)),
        None => Err(DeviceFault::Contradiction {
            variable,
            value,
            name: names[0].into(),
        }),
    }
}

impl Pools {
    fn find(rocr: &'static Rocr, agent: sys::Agent) -> Result<Self, Error> {
        let failed = |failure: super::result::Failure| {
            failure.error(rocr, "looking at the NPU's memory", "")
        };
        let lacks = |what| {
            Error::Device(Box::new(DeviceError {
                runtime: Runtime::Hsa,
                library: rocr.path.clone(),
                fault: DeviceFault::Lacks { what },
            }))
        };
        let (mut kernarg, mut heap, mut data) = (None, None, None);
        for pool in rocr.pools(agent).map_err(failed)? {
            if rocr.pool_word(pool, sys::POOL_SEGMENT).map_err(failed)? != sys::SEGMENT_GLOBAL {
                continue;
            }
            let flags = rocr.pool_word(pool, sys::POOL_FLAGS).map_err(failed)?;
            let granule = rocr
                .pool_size(pool, sys::POOL_REC_GRANULE)
                .map_err(failed)?;
            let role = match (granule, flags & sys::FLAG_KERNARG, flags & sys::FLAG_COARSE) {
                (0, _, coarse) if coarse != 0 => &mut heap,
                (1.., 0, coarse) if coarse != 0 => &mut data,
                (1.., kernargs, _) if kernargs != 0 => &mut kernarg,
                _ => continue,
            };
            role.get_or_insert(pool);
        }
        let data = data.ok_or_else(|| lacks("memory pool for data"))?;
        let granule = rocr.pool_size(data, sys::POOL_GRANULE).map_err(failed)?;
        if granule == 0 || !super::blocks::PAGE.is_multiple_of(granule) {
            return Err(lacks("memory pool of 4096-byte pages"));
        }
        Ok(Self {
            kernarg: kernarg.ok_or_else(|| lacks("memory pool for kernargs"))?,
            heap: heap.ok_or_else(|| lacks("device heap"))?,
            data,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_chosen_by_what_is_known_of_its_name() {
        assert_eq!(choose(&["aie2"], None), Ok((0, Npu::Npu1)));
        assert_eq!(choose(&["aie2p"], None), Ok((0, Npu::Npu2)));
        assert_eq!(choose(&["aie9", "aie2p"], None), Ok((1, Npu::Npu2)));
        for name in ["aie2ps", "AIE2", "aie", ""] {
            let unknown = DeviceFault::Unknown { name: name.into() };
            assert_eq!(choose(&[name], None), Err(unknown));
        }
    }

    #[test]
    fn who_insists_is_believed_as_far_as_nothing_is_known_better() {
        let insist = |value: &str| Some(("NPU_RUNTIME_HSA_DEVICE", value.to_owned()));
        assert_eq!(choose(&["aie9"], insist("npu2")), Ok((0, Npu::Npu2)));
        assert_eq!(choose(&["aie2"], insist("npu1")), Ok((0, Npu::Npu1)));
        assert_eq!(
            choose(&["aie2", "aie2p"], insist("npu2")),
            Ok((1, Npu::Npu2))
        );
        assert!(matches!(
            choose(&["aie2"], insist("npu2")),
            Err(DeviceFault::Contradiction { .. })
        ));
        assert!(matches!(
            choose(&["aie2"], insist("npu3")),
            Err(DeviceFault::Variable { .. })
        ));
    }
}
