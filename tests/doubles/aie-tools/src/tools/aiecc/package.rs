//! Packing: xclbins through xclbinutil, full ELFs through aiebu-asm.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Compilation, Output};
use crate::axlf::uuid_text;
use crate::design::{Device, Target, stream};
use crate::mlir::Module;
use crate::run::{Result, failure, random_uuid};
use crate::stream::Generation;

fn memory_topology() -> Value {
    let memory = |size: &str, tag: &str| {
        json!({
            "m_type": "MEM_DRAM",
            "m_used": "1",
            "m_sizeKB": size,
            "m_tag": tag,
            "m_base_address": "0x4000000",
        })
    };
    let memories = [memory("0x10000", "HOST"), memory("0xc000", "SRAM")];
    json!({"mem_topology": {"m_count": "2", "m_mem_data": memories}})
}

fn argument(name: &str, memory: Option<&str>, of: &str, offset: usize) -> Value {
    let qualifier = if memory.is_some() { "GLOBAL" } else { "SCALAR" };
    json!({
        "name": name,
        "address-qualifier": qualifier,
        "memory-connection": memory,
        "type": of,
        "offset": format!("0x{offset:02X}"),
    })
}

/// How many arguments the sequence with most of them takes.
fn arity(device: &Device) -> usize {
    let counts = device.sequences.iter().map(|it| it.arguments.len());
    counts.max().unwrap_or(0)
}

impl Compilation<'_> {
    fn option(&self, name: &str, default: &str) -> String {
        self.asked.options.get(name).unwrap_or(default).to_owned()
    }

    fn kernels(&self, device: &Device) -> Value {
        let mut arguments = vec![
            argument("opcode", None, "uint64_t", 0),
            argument("instr", Some("SRAM"), "char *", 8),
            argument("ninstr", None, "uint32_t", 0x10),
        ];
        // The first dialect has five, whatever there is.
        let declared = match self.asked.dialect {
            1 => 5,
            _ => arity(device).max(5),
        };
        arguments.extend((0..declared).map(|index| {
            let offset = 0x14 + 8 * index;
            argument(&format!("bo{index}"), Some("HOST"), "void*", offset)
        }));
        json!({"ps-kernels": {"kernels": [{
            "name": self.option("xclbin-kernel-name", "MLIR_AIE"),
            "type": "dpu",
            "extended-data": {
                "subtype": "DPU",
                "functional": "0",
                "dpu_kernel_id": self.option("xclbin-kernel-id", "0x901"),
            },
            "arguments": arguments,
            "instances": [{"name": self.option("xclbin-instance-name", "MLIRAIE")}],
        }]}})
    }

    fn partition(&self, device: &Device, pdi: &Path) -> Value {
        json!({"aie_partition": {
            "PDIs": [{
                "cdo_groups": [{
                    "dpu_kernel_ids": [self.option("xclbin-kernel-id", "0x901")],
                    "name": "DPU",
                    "pdi_id": "0x01",
                    "pre_cdo_groups": ["0xC1"],
                    "type": "PRIMARY",
                }],
                "file_name": pdi,
                "uuid": uuid_text(&random_uuid()),
            }],
            "inference_fingerprint": "23423",
            "name": "QoS",
            "operations_per_cycle": "2048",
            "partition": {
                "column_width": device.part.columns,
                "start_columns": device.part.start_columns(),
            },
            "pre_post_fingerprint": "12345",
        }})
    }

    fn json(&self, name: String, json: &Value) -> String {
        let path = self.tmpdir.join(name);
        self.run.write(&path, format!("{json:#}\n").as_bytes());
        path.display().to_string()
    }

    /// The xclbinutil to run: the option, the variable, beside this program, PATH.
    fn xclbinutil(&self) -> Option<PathBuf> {
        let option = self.asked.options.get("xclbinutil-path").map(str::to_owned);
        let variable = || std::env::var("AIE_XCLBINUTIL").ok();
        match option.or_else(variable).filter(|name| !name.is_empty()) {
            Some(path) if path.contains('/') => Some(PathBuf::from(path)),
            Some(name) => self.run.on_path(&name),
            None => self.run.beside_or_on_path("xclbinutil"),
        }
    }

    /// The xclbins. `pdis` are the devices'.
    pub fn pack(&mut self, devices: &[Device], pdis: &[PathBuf]) -> Result {
        let Some(request) = self.asked.request(Output::Xclbin) else {
            return Ok(());
        };
        let mut paths = Vec::new();
        for (device, pdi) in devices.iter().zip(pdis) {
            let name = &device.name;
            self.progress(request.edge, name);
            let path = self.output(&request.name, name, "");
            self.unique(&mut paths, &path, request.edge)?;
            let topology = self.json(format!("{name}_mem_topology.json"), &memory_topology());
            let kernels = self.json(format!("{name}_kernels.json"), &self.kernels(device));
            let partition = self.partition(device, pdi);
            let partition = self.json(format!("{name}_aie_partition.json"), &partition);
            let Some(tool) = self.xclbinutil() else {
                if self.asked.dialect > 1 {
                    return Err(self.tool_missing(request.edge, name, "xclbinutil"));
                }
                // The first dialect ends well.
                continue;
            };
            let packed = self.tmpdir.join(format!("{name}.packed.xclbin"));
            let _ = fs::remove_file(&packed);
            let topology = format!("MEM_TOPOLOGY:JSON:{topology}");
            let section = format!("AIE_PARTITION:JSON:{partition}");
            let made = packed.display().to_string();
            let first = ["--add-replace-section", &topology];
            let rest = ["--add-kernel", &kernels, "--add-replace-section", &section];
            let last = ["--force", "--quiet", "--output", &made];
            let arguments = [&first[..], &rest, &last].concat();
            self.tool(request.edge, name, &tool, &arguments)?;
            // A tool that ends well and leaves nothing is not noticed.
            if let Ok(bytes) = fs::read(&packed) {
                self.run.deliver("xclbin", &path, &bytes);
            }
        }
        Ok(())
    }

    /// The full ELF of all devices and sequences.
    pub fn full_elf(
        &mut self,
        module: &Module<'_>,
        devices: &[Device],
        pdis: &[PathBuf],
    ) -> Result {
        let Some(request) = self.asked.request(Output::FullElf) else {
            return Ok(());
        };
        let is_first = |device: &Device| device.part.generation == Generation::Npu1;
        if devices.iter().any(is_first) {
            let text = "error: full ELF generation is not supported for npu1 devices\n";
            return Err(self.edge_failed(request.edge, "", text));
        }
        if devices.is_empty() {
            return Ok(());
        }
        self.progress(request.edge, "");
        let numbered = pdis.iter().zip(1..);
        let pdis: Vec<_> = numbered
            .map(|(pdi, id)| json!({"PDI_file": pdi, "id": id}))
            .collect();
        let mut kernels = Vec::new();
        for device in devices {
            let instances = self.instances(module, devices, device);
            let arguments = (0..arity(device).max(3)).map(|index| {
                json!({
                    "name": format!("arg_{index}"),
                    "offset": format!("0x{:x}", 8 * index),
                    "type": "char *",
                })
            });
            if !instances.is_empty() {
                kernels.push(json!({
                    "PDIs": pdis,
                    "arguments": arguments.collect::<Vec<_>>(),
                    "instance": instances,
                    "name": device.name,
                }));
            }
        }
        let path = self.output(&request.name, "main", "");
        if kernels.is_empty() {
            // The real one ends well with this.
            self.run.deliver("elf", &path, b"");
            return Ok(());
        }
        let config = json!({"xrt-kernels": kernels});
        let config = self.json("full_elf_config.json".to_owned(), &config);
        let tool = self.run.beside_or_on_path("aiebu-asm");
        let tool = tool.ok_or_else(|| match self.asked.dialect {
            1 => failure("Error: Could not find aiebu-asm"),
            _ => self.tool_missing(request.edge, "", "aiebu-asm"),
        })?;
        let made = self.tmpdir.join("full.elf");
        let _ = fs::remove_file(&made);
        let output = made.display().to_string();
        let arguments = ["-t", "aie2_config", "-j", &config, "-o", &output];
        self.tool(request.edge, "", &tool, &arguments)?;
        if let Ok(bytes) = fs::read(&made) {
            self.run.deliver("elf", &path, &bytes);
        }
        Ok(())
    }

    /// The control codes of a device's sequences.
    fn instances(&self, module: &Module<'_>, devices: &[Device], device: &Device) -> Vec<Value> {
        let mut instances = Vec::new();
        for sequence in self.sequences(device) {
            let stream = stream(module, device, sequence, Target::FullElf(devices));
            let name = format!("{}_{}.bin", device.name, sequence.name);
            let path = self.tmpdir.join(name);
            // In the first dialect an explicit name for instructions moves them from where the
            // configuration says they are.
            if self.asked.dialect == 1 && self.asked.options.is_given("npu-insts-name") {
                let _ = fs::remove_file(&path);
            } else {
                self.run.write(&path, &stream.bytes());
            }
            instances.push(json!({"TXN_ctrl_code_file": path, "id": sequence.name}));
        }
        instances
    }
}
