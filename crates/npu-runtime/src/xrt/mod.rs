//! The XRT backend: an NPU through XRT, whose C++ API the launch shim (`templates/xrt_shim.cpp`)
//! makes reachable.
//!
//! `sys` is the shim's raw ABI and `result` one checked call each; `find` knows where the shim is,
//! and `launch` what it is told of a launch. Sessions, copies and the device itself are the
//! shim's; what is here says who owns what. The device is closed when the last device handle,
//! kernel and buffer is gone; each of them keeps it open.

mod find;
mod launch;
mod result;
mod sys;

pub(crate) use launch::run_chain;
pub(crate) use sys::Buffer as RawBuffer;

use crate::buffer::Home;
use crate::error::{DeviceError, DeviceFault, XrtFault};
use crate::plan::Plan;
use crate::{Artifact, ArtifactFault, Buffer, Compiled, Counters, Element, Error, Image, Npu};
use crate::{Runtime, npu};
use result::{BufferHandle, KernelHandle, Shim, Source, c_string};
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A handle to the process's device.
#[derive(Clone)]
pub(crate) struct Device {
    instance: Arc<Instance>,
}

/// The process's one device.
struct Instance {
    shim: &'static Shim,
    _session: Session,
    npu: Npu,
    /// Whether launches look for inputs that were written.
    verify: bool,
    /// What is loaded, by content.
    loaded: Mutex<HashMap<Content, Weak<Loaded>>>,
}

/// What makes two kernels the same: the digests of artifact and instruction stream, and the name.
type Content = ([u8; 32], Option<[u8; 32]>, String);

static INSTANCE: Mutex<Weak<Instance>> = Mutex::new(Weak::new());

impl Instance {
    fn start(shim: &'static Shim) -> Result<Self, Error> {
        let session = Session::begin(shim)?;
        let name = shim.device_name();
        let name = name.map_err(|failure| failure.error("asking for the device's name", ""))?;
        Ok(Self {
            shim,
            _session: session,
            npu: generation(shim, name)?,
            verify: crate::npu::verifies_directions(),
            loaded: Mutex::default(),
        })
    }

    /// Refuses to go on in a child of the process that opened the device.
    #[inline]
    fn check_process(&self) -> Result<(), Error> {
        match self.shim.is_foreign() {
            true => Err(forked()),
            false => Ok(()),
        }
    }
}

/// As long as the device is open.
struct Session(&'static Shim);

impl Session {
    fn begin(shim: &'static Shim) -> Result<Self, Error> {
        let advice = "an NPU needs the `amdxdna` driver, the right to open /dev/accel, and the NPU's \
                      plug-in for XRT (`xrt-smi examine` shows what XRT sees)";
        match shim.open() {
            Ok(()) => Ok(Self(shim)),
            Err(failure) => Err(failure.error("opening the device", advice)),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.0.is_foreign() {
            // A device that can't be closed is not in anybody's way: the shim opens it once.
            self.0.close().ok();
        }
    }
}

fn forked() -> Error {
    Error::Forked {
        runtime: Runtime::Xrt,
    }
}

/// The generation of the device, by its name or by the variable that insists on one.
fn generation(shim: &Shim, name: String) -> Result<Npu, Error> {
    const VARIABLE: &str = "NPU_RUNTIME_XRT_DEVICE";
    let refused = |fault| {
        Error::Device(Box::new(DeviceError {
            runtime: Runtime::Xrt,
            library: shim.path.clone(),
            fault,
        }))
    };
    let insisted = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
    let Some(insisted) = insisted else {
        return known(&name).ok_or_else(|| refused(DeviceFault::Unknown { name }));
    };
    let value = insisted.to_string_lossy().into_owned();
    match (value.parse::<Npu>(), known(&name)) {
        (Ok(npu), None) => Ok(npu),
        (Ok(npu), Some(other)) if npu == other => Ok(npu),
        (Ok(_), Some(_)) => Err(refused(DeviceFault::Contradiction {
            variable: VARIABLE,
            value,
            name,
        })),
        (Err(_), _) => Err(refused(DeviceFault::Variable {
            variable: VARIABLE,
            value,
        })),
    }
}

/// What XRT and its drivers have called the generations: `NPU Phoenix`, `NPU Strix Halo`,
/// `RyzenAI-npu4`.
fn known(name: &str) -> Option<Npu> {
    let name = name.to_lowercase();
    let is_one_of = |names: &[&str]| names.iter().any(|known| name.contains(known));
    if is_one_of(&["phoenix", "hawk point", "-npu1"]) {
        Some(Npu::Npu1)
    } else if is_one_of(&["strix", "krackan", "-npu2", "-npu4", "-npu5", "-npu6"]) {
        Some(Npu::Npu2)
    } else {
        None
    }
}

impl Device {
    /// With the shim `given`, if none is loaded yet.
    pub(crate) fn open(given: Option<&Artifact>) -> Result<Self, Error> {
        // Before any lock: in a child one may be held for ever by a thread that was not copied.
        if Shim::is_loaded_elsewhere() {
            return Err(forked());
        }
        let mut known = INSTANCE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(instance) = known.upgrade() {
            return Ok(Self { instance });
        }
        let instance = Arc::new(Instance::start(Shim::get(given)?)?);
        *known = Arc::downgrade(&instance);
        Ok(Self { instance })
    }

    pub(crate) fn npu(&self) -> Npu {
        self.instance.npu
    }

    pub(crate) fn buffer<T: Element>(&self, len: usize) -> Result<Buffer<T>, Error> {
        let instance = &self.instance;
        instance.check_process()?;
        let bytes = len.checked_mul(size_of::<T>());
        let bytes = bytes.ok_or(Error::Allocation {
            elements: len,
            element_size: size_of::<T>(),
        })?;
        let (handle, start) = instance.shim.buffer(bytes).map_err(|failure| {
            failure.error(format!("allocating a buffer of {bytes} bytes"), "")
        })?;
        let allocation = Allocation {
            handle,
            instance: instance.clone(),
        };
        // SAFETY: the shim gives at least as many bytes, zeroed and at a page's start, to this
        // caller alone, until the allocation frees them.
        Ok(unsafe { Buffer::at(start.cast(), len, Home::Xrt(allocation)) })
    }

    pub(crate) fn counters(&self) -> Counters {
        let counted = self.instance.shim.counts();
        Counters {
            queues: counted.opened,
            doorbells: counted.submitted,
            dispatches: counted.completed,
            images: counted.kernels,
            allocations: counted.buffers,
        }
    }
}

/// The memory of a buffer.
pub(crate) struct Allocation {
    handle: BufferHandle,
    instance: Arc<Instance>,
}

impl Allocation {
    /// Where launches find it.
    pub(crate) fn raw(&self) -> NonNull<RawBuffer> {
        self.handle.0
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if !self.instance.shim.is_foreign() {
            // SAFETY: the buffer that has this is being dropped.
            unsafe { self.instance.shim.free(self.handle) };
        }
    }
}

/// A loaded kernel.
pub(crate) struct Kernel {
    loaded: Arc<Loaded>,
    compiled: Compiled,
}

/// A kernel of the shim, shared by all that were loaded from the same content.
struct Loaded {
    handle: KernelHandle,
    instance: Arc<Instance>,
}

impl Drop for Loaded {
    fn drop(&mut self) {
        if !self.instance.shim.is_foreign() {
            // SAFETY: no kernel has the handle any more, so no launch does.
            unsafe { self.instance.shim.unload(self.handle) };
        }
    }
}

impl Kernel {
    pub(crate) fn load(device: &Device, image: &Image, plan: &Plan) -> Result<Self, Error> {
        let (artifact, insts, name, compiled) = match image {
            Image::FullElf {
                elf,
                kernel,
                compiled,
            } => (elf, None, kernel, compiled),
            Image::Xclbin {
                xclbin,
                insts,
                kernel,
                compiled,
            } => (xclbin, Some(insts), kernel, compiled),
            _ => return Err(plan.refuse_image(Runtime::Xrt, image)),
        };
        device.instance.check_process()?;
        let loaded = load(&device.instance, artifact, insts, name, plan)?;
        Ok(Self {
            loaded,
            compiled: *compiled,
        })
    }

    pub(crate) fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    fn handle(&self) -> KernelHandle {
        self.loaded.handle
    }

    fn instance(&self) -> &Arc<Instance> {
        &self.loaded.instance
    }
}

fn load(
    instance: &Arc<Instance>,
    artifact: &Artifact,
    insts: Option<&Artifact>,
    name: &str,
    plan: &Plan,
) -> Result<Arc<Loaded>, Error> {
    let refused = |artifact: &Artifact, fault| Error::Artifact {
        artifact: artifact.to_string().into(),
        fault,
    };
    let (bytes, digest) = artifact.read()?;
    let stream = insts.map(Artifact::read).transpose()?;
    check(&bytes, insts.is_some()).map_err(|fault| refused(artifact, fault))?;
    if let (Some(insts), Some((stream, _))) = (insts, &stream) {
        check_insts(stream).map_err(|fault| refused(insts, fault))?;
    }
    let content = (
        digest,
        stream.as_ref().map(|(_, digest)| *digest),
        name.to_owned(),
    );
    // Held while a kernel is loaded, so that two threads don't load the same one.
    let known = &instance.loaded;
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(loaded) = known.get(&content).and_then(Weak::upgrade) {
        return Ok(loaded);
    }
    known.retain(|_, loaded| loaded.strong_count() > 0);
    let key: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let (Some(key), Some(kernel)) = (c_string(&key), c_string(name)) else {
        return Err(refused(artifact, ArtifactFault::Xrt(XrtFault::KernelName)));
    };
    let source = Source {
        key: &key,
        artifact: &bytes,
        insts: stream.as_ref().map(|(bytes, _)| &**bytes),
        kernel: &kernel,
        arguments: npu::operand_count(plan),
    };
    let handle = instance.shim.load(&source).map_err(|failure| {
        let doing = format!("loading kernel `{name}` of {artifact}");
        failure.error(doing, "")
    })?;
    let loaded = Arc::new(Loaded {
        handle,
        instance: instance.clone(),
    });
    known.insert(content, Arc::downgrade(&loaded));
    Ok(loaded)
}

/// Refuses what XRT would refuse in fewer words.
fn check(bytes: &[u8], xclbin: bool) -> Result<(), ArtifactFault> {
    const PDI: &[u8] = b"\xdd\0\0\0\x44\x33\x22\x11";
    let fault = match bytes {
        [] => return Err(ArtifactFault::Empty),
        _ if bytes.starts_with(PDI) => XrtFault::Pdi,
        _ if xclbin && !bytes.starts_with(b"xclbin2\0") => XrtFault::NotXclbin,
        _ if !xclbin && !bytes.starts_with(b"\x7fELF\x01\x01") => XrtFault::NotFullElf,
        _ => return Ok(()),
    };
    Err(ArtifactFault::Xrt(fault))
}

fn check_insts(bytes: &[u8]) -> Result<(), ArtifactFault> {
    match bytes.len() {
        0 => Err(ArtifactFault::Empty),
        size if !size.is_multiple_of(4) => Err(ArtifactFault::Xrt(XrtFault::Insts { size })),
        _ => Ok(()),
    }
}

/// Whether an XRT is installed, so that xrt may be chosen where no runtime is named.
pub(crate) fn is_installed() -> bool {
    find::is_installed()
}
