#!/usr/bin/env python3
"""A pass of a plan as one would write it in PyTorch: cuBLAS, torch.compile for all between, NCCL, one CUDA graph.

    specstep plan RUN --pass verify --json plan.json
    python3 torch_pass.py --plan plan.json                        one process plays one rank; collectives are left out
    torchrun --nproc-per-node 2 torch_pass.py --plan plan.json    as many processes as the plan has ranks

Prints one JSON object: seconds of the whole pass, of its parts with --parts, and all that was done otherwise than
meant ("notes"). Exit 77 without torch or a GPU.
"""

import argparse
import json
import os
import sys

import pass_plan


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", required=True, help="JSON of specstep plan")
    parser.add_argument("--runs", type=int, default=50, help="timed replays of each graph")
    parser.add_argument("--warmup", type=int, default=10, help="replays before")
    parser.add_argument("--experts", choices=["bf16"], default="bf16", help="format of the experts' weights")
    parser.add_argument("--memory-gib", type=float, default=100, help="most memory for weights; above it layers share")
    parser.add_argument("--parts", action="store_true", help="also time each kind of step in a graph of its own")
    parser.add_argument("--check", action="store_true", help="also compare operations with fp32 references")
    args = parser.parse_args()
    if args.runs < 1 or args.warmup < 0 or args.memory_gib <= 0:
        parser.error("--runs is at least 1, --warmup at least 0, --memory-gib above 0")
    return args


def open_group(torch, ranks):
    """This process's rank and how many there are; joins the others under torchrun."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    local = int(os.environ.get("LOCAL_RANK", "0"))
    torch.cuda.set_device(local)
    if world == 1:
        return 0, 1
    if world != ranks:
        raise pass_plan.PlanError(f"{world} processes for a plan of {ranks} ranks")
    import torch.distributed as dist

    dist.init_process_group("nccl", device_id=torch.device("cuda", local))
    return dist.get_rank(), world


class Pass:
    """Programs of all segments of a plan, with their weights and caches."""

    def __init__(self, torch, plan, args, rank, world):
        import torch_ops

        self.torch, self.world = torch, world
        self.notes = []
        self.steps = pass_plan.parse_plan(plan)
        self.dims = pass_plan.dimensions(self.steps)
        if world == 1 and plan["tensor"] > 1:
            self.notes.append(f"collectives left out: one process plays one of {plan['tensor']} ranks")
        self.ops = torch_ops.Ops(self.steps, self.dims, rank, world, self.notes)
        cache = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
        pools, self.weight_bytes = pass_plan.weight_pools(self.steps, self.dims, int(args.memory_gib * 2**30), cache)
        self.distinct = sum(pools.values()) == sum(bool(pass_plan.weight_shape(s, self.dims)) for s in self.steps)
        if not self.distinct:
            self.notes.append("weights are shared between layers, from pools larger than the L2 cache")
        self.weights = {key: [self.ops.weight(key) for _ in range(copies)] for key, copies in pools.items()}
        used = {key: 0 for key in pools}
        self.weight_of = {}
        for step in self.steps:
            shape = pass_plan.weight_shape(step, self.dims)
            if shape is None:
                continue
            key = (step["kind"], shape)
            self.weight_of[step["index"]] = self.weights[key][used[key] % pools[key]]
            used[key] += 1
        self.caches = {s["layer"]: self.ops.cache() for s in self.steps if s["op"] == "attention"}
        self.programs = {}  # signature -> what it needs, and its function, compiled where that works

    def program(self, segment, env, weights, cache):
        """(buffers it needs, function to those it gives); the first call of a kind finds out which."""
        key = pass_plan.signature(segment)
        if key in self.programs:
            return self.programs[key]
        parts = [self.ops.function(step) for step in segment]
        seen = pass_plan.Recorder(env)
        for part, weight in zip(parts, weights):
            part(seen, weight, cache)
        # Only what later segments read is handed out, so that the rest can be fused away.
        gives = [n for n in seen.written if len(segment) == 1 or n in pass_plan.CROSSING]

        def run(env, weights, cache):
            env = dict(env)
            for part, weight in zip(parts, weights):
                part(env, weight, cache)
            return {name: env[name] for name in gives}

        # A product or a collective alone has nothing to compile.
        alone = len(segment) == 1 and pass_plan.part_of(segment[0]) in ("gemms", "collectives")
        self.programs[key] = (list(seen.needed), run if alone else self.compiled(run, segment))
        return self.programs[key]

    def compiled(self, run, segment):
        state = {"run": self.torch.compile(run, dynamic=False, fullgraph=True)}

        def call(env, weights, cache):
            try:
                return state["run"](env, weights, cache)
            except Exception as error:  # torch.compile fails in many ways; the pass goes on, and says so
                if state["run"] is run or self.torch.cuda.is_current_stream_capturing():
                    raise
                names = ", ".join(s["kind"] for s in segment)
                self.notes.append(f"not compiled: {names}: {type(error).__name__}: {str(error)[:200]}")
                state["run"] = run
                return run(env, weights, cache)

        return call

    def run_segments(self, segments, env):
        for segment in segments:
            weights = [self.weight_of.get(step["index"]) for step in segment]
            cache = self.caches.get(segment[0]["layer"])
            needs, run = self.program(segment, env, weights, cache)
            env = {**env, **run({name: env[name] for name in needs}, weights, cache)}
        return env

    def whole(self):
        segments = pass_plan.segments(self.steps, self.world > 1)
        return lambda: self.run_segments(segments, self.ops.start())

    def parts(self):
        """Functions that run the steps of one part only, each on inputs that a whole pass gave its like."""
        samples = {}
        env = self.ops.start()
        single = [[s] for s in self.steps if self.world > 1 or pass_plan.part_of(s) != "collectives"]
        for segment in single:
            samples.setdefault(pass_plan.signature(segment), {k: v.clone() for k, v in env.items()})
            env = self.run_segments([segment], env)
        chosen = {}
        for segment in single:
            chosen.setdefault(pass_plan.part_of(segment[0]), []).append(segment)

        def run(segments):
            for segment in segments:
                self.run_segments([segment], samples[pass_plan.signature(segment)])

        return {name: (lambda some=some: run(some)) for name, some in chosen.items()}


def timed(torch, body, args, world):
    """Seconds of each replay of one graph; of the slowest rank."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # compiles, opens libraries and communicators
        for _ in range(3):
            body()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    # NCCL's watchdog thread may query events meanwhile, which the global mode forbids.
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        kept = body()
    for _ in range(args.warmup):
        graph.replay()
    seconds = []
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for _ in range(args.runs):
        torch.cuda.synchronize()
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        seconds.append(begin.elapsed_time(end) / 1e3)
    del kept
    if world > 1:
        slowest = torch.tensor(seconds, device="cuda", dtype=torch.float64)
        torch.distributed.all_reduce(slowest, op=torch.distributed.ReduceOp.MAX)
        seconds = slowest.tolist()
    return pass_plan.statistics(seconds)


def measured(torch, args):
    with open(args.plan) as file:
        plan = json.load(file)
    rank, world = open_group(torch, plan["tensor"])
    torch.manual_seed(1)
    torch.set_grad_enabled(False)
    for name in ("recompile_limit", "cache_size_limit", "accumulated_recompile_limit", "accumulated_cache_size_limit"):
        if hasattr(torch._dynamo.config, name):  # all segments are one function to torch, compiled again for each
            setattr(torch._dynamo.config, name, 1024)
    one = Pass(torch, plan, args, rank, world)
    seconds = {"whole": timed(torch, one.whole(), args, world)}
    if args.parts:
        for name, body in one.parts().items():
            seconds[name] = timed(torch, body, args, world)
    out = {
        "schema": "specstep.torch_pass/1", "model": plan["model"], "pass": plan["pass"],
        "tokens": one.dims["tokens"], "context": plan["context"], "ranks": plan["tensor"], "processes": world,
        "seconds": seconds, "weight_bytes": one.weight_bytes, "distinct_weights": one.distinct,
        "experts": args.experts, "grouped_product": one.ops.grouped_name, "attention": one.ops.attention_name,
        "collectives_run": sum(pass_plan.part_of(s) == "collectives" for s in one.steps) if world > 1 else 0,
        "parts_note": "parts run step by step; the whole pass fuses across steps, so it may take less than their sum",
        "notes": one.notes,
        "versions": {"torch": torch.__version__, "cuda": torch.version.cuda,
                     "nccl": ".".join(map(str, torch.cuda.nccl.version())),
                     "device": torch.cuda.get_device_name()},
    }
    if args.check:
        out["checks"] = one.ops.checks()
    return out, rank


def main():
    args = arguments()
    try:
        import torch
    except ImportError as error:
        print(f"torch_pass.py: {error}", file=sys.stderr)
        return 77
    if not torch.cuda.is_available():
        print("torch_pass.py: no CUDA device", file=sys.stderr)
        return 77
    try:
        out, rank = measured(torch, args)
    except pass_plan.PlanError as error:
        print(f"torch_pass.py: {args.plan}: {error}", file=sys.stderr)
        return 2
    finally:
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
    if rank == 0:
        print(json.dumps(out, indent=1))
    return 1 if any(c["error"] > c["limit"] for c in out.get("checks", {}).values()) else 0


if __name__ == "__main__":
    sys.exit(main())
