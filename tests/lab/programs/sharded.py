"""One step of a model that torch shards over all ranks, with what Accelerate was told."""

import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 1))
mesh = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),))
fully_shard(model, mesh=mesh)
model(torch.ones(4, 8)).pow(2).mean().backward()
whole = sum(one.numel() for one in model.parameters())
mine = sum(one.to_local().numel() for one in model.parameters())
asked = f"version {os.environ['FSDP_VERSION']}, {os.environ['FSDP_AUTO_WRAP_POLICY']}"
print(f"shard {dist.get_rank()}: {mine} of {whole}, {asked}", flush=True)
dist.barrier()  # who leaves first takes the others' connections along
dist.destroy_process_group()
