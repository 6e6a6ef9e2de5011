#!/usr/bin/env python3
"""Allreduces of PyTorch on the GPUs of this machine: symmetric memory, one shot and two shots, and NCCL's default.

    python3 torch_symm.py                              all visible GPUs, one process each
    python3 torch_symm.py --ranks 2,4 --json out.json
    torchrun --nproc-per-node 2 torch_symm.py          as many as were started

As `specstep comm --executor cuda` measures: one CUDA graph of --calls allreduces (122: those of a verify pass of
Kimi-K2.5) for each size, replayed --replays times with the ranks aligned before each; a time is that of a replay of the
slowest rank, divided by the calls. Sums of integers are compared exactly before anything is timed. Multicast is never
used. Exit 77 without torch or two GPUs, 1 where a sum was wrong.
"""

import argparse
import json
import os
import socket
import sys
from datetime import timedelta

SIZES = "2048,4096,8192,14336,16384,32768,43008,65536,114688,131072,262144,458752,524288,1048576,1835008,2097152"
BYTES = 2  # bf16
# Whatever the environment says: these programs are not what is compared, and some machines cannot do it.
NO_MULTICAST = {"TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NCCL_NVLS_ENABLE": "0"}
UNSUPPORTED = 77


def numbers(text):
    try:
        out = [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is no list of numbers a,b,c") from None
    if min(out) < 1:
        raise argparse.ArgumentTypeError(f"'{text}': each is at least 1")
    return out


def sizes(text):
    out = numbers(text)
    if any(size % 16 for size in out):
        raise argparse.ArgumentTypeError("sizes are multiples of 16 bytes, which symmetric memory moves at a time")
    return out


def ranks(text):
    out = numbers(text)
    if not all(2 <= count <= 8 for count in out):
        raise argparse.ArgumentTypeError(f"'{text}': each is 2 to 8")
    return out


def arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=sizes, default=SIZES, help="bytes, a,b,c; default 2 KB to 2 MB")
    parser.add_argument("--ranks", type=ranks, help="numbers of GPUs, a,b,c; default all that are visible")
    parser.add_argument("--backends", default=",".join(BACKENDS), help="some of " + ", ".join(BACKENDS))
    parser.add_argument("--calls", type=int, default=122, help="allreduces in a graph")
    parser.add_argument("--replays", type=int, default=200, help="timed replays of each graph")
    parser.add_argument("--warmup", type=int, default=20, help="replays before")
    parser.add_argument("--json", metavar="FILE", help="also write a JSON object here; - for standard output, alone")
    args = parser.parse_args(argv)
    args.backends = args.backends.split(",")
    unknown = [name for name in args.backends if name not in BACKENDS]
    if unknown:
        parser.error(f"unknown backend {unknown[0]}; there are {', '.join(BACKENDS)}")
    if args.calls < 1 or args.replays < 1 or args.warmup < 0:
        parser.error("--calls and --replays are at least 1, --warmup at least 0")
    return args


# What is measured: functions of (torch, values in symmetric memory, name of the group) that sum over all ranks and
# return where the sum is.


def one_shot(torch, values, group):
    return torch.ops.symm_mem.one_shot_all_reduce(values, "sum", group)


def two_shot(torch, values, group):
    torch.ops.symm_mem.two_shot_all_reduce_(values, "sum", group)
    return values


def nccl(torch, values, _group):
    torch.distributed.all_reduce(values)
    return values


BACKENDS = {"torch_nccl": nccl, "torch_one_shot": one_shot, "torch_two_shot": two_shot}


PERIOD = 17


def given(rank):
    """What a rank puts in, again and again: integers so small that their sums over 8 ranks are exact in bf16."""
    return [(i * 7 + rank * 13) % PERIOD - 8 for i in range(PERIOD)]


def expected(world):
    return [sum(column) for column in zip(*(given(rank) for rank in range(world)))]


def statistics(seconds):
    ordered = sorted(seconds)
    half = len(ordered) // 2
    median = ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
    last = max(0, -(-99 * len(ordered) // 100) - 1)  # the smallest that 99 % do not exceed
    return {"seconds": median, "low": ordered[0], "high": ordered[last]}


def captured(torch, body):
    """A graph of what `body` launches, and what it returned."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            body()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    # NCCL's watchdog thread may query events meanwhile, which the global mode forbids.
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        kept = body()
    return graph, kept


def wrong_values(torch, call, values, group, rank, world):
    """Values that differ from the exact sums after replays of a graph, on the worst rank."""
    def repeated(pattern):
        whole = torch.tensor(pattern, device="cuda", dtype=torch.bfloat16)
        return whole.repeat(values.numel() // PERIOD + 1)[:values.numel()]

    source, right = repeated(given(rank)), repeated(expected(world))

    def body():
        values.copy_(source)
        return call(torch, values, group)

    graph, out = captured(torch, body)
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    wrong = (out != right).sum().to(torch.int64)
    torch.distributed.all_reduce(wrong, op=torch.distributed.ReduceOp.MAX)
    return int(wrong)


def timed(torch, call, values, group, args):
    """Seconds of one allreduce in each replay, on the slowest rank."""
    values.zero_()  # sums in place would grow without end

    def body():
        for _ in range(args.calls):
            out = call(torch, values, group)
        return out

    graph, kept = captured(torch, body)
    align = torch.zeros(1, device="cuda")
    marks = []
    for _ in range(args.warmup + args.replays):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(400_000)  # meanwhile the host puts the rest on the stream
        torch.distributed.all_reduce(align)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        marks.append(begin.elapsed_time(end) / 1e3 / args.calls)
    del kept
    slowest = torch.tensor(marks[args.warmup:], device="cuda", dtype=torch.float64)
    torch.distributed.all_reduce(slowest, op=torch.distributed.ReduceOp.MAX)
    return slowest.tolist()


def first_line(error):
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"


def memory(torch, group, size):
    """Values in symmetric memory, and why there are none."""
    import torch.distributed._symmetric_memory as symm_mem

    try:
        values = symm_mem.empty(size // BYTES, dtype=torch.bfloat16, device=f"cuda:{torch.cuda.current_device()}")
        symm_mem.rendezvous(values, group)
        return values, None
    except (RuntimeError, AttributeError) as error:
        return None, first_line(error)


def measured(torch, args, rank, world):
    """Rows of one number of ranks."""
    group = torch.distributed.group.WORLD.group_name
    rows = []
    for size in args.sizes:
        shared, problem = memory(torch, group, size)
        plain = torch.empty(size // BYTES, dtype=torch.bfloat16, device="cuda")
        for name in args.backends:
            row = {"backend": name, "ranks": world, "bytes": size, "mode": "graph"}
            rows.append(row)
            values = plain if name == "torch_nccl" else shared
            if values is None:
                row["error"] = problem
                continue
            try:
                row["wrong"] = wrong_values(torch, BACKENDS[name], values, group, rank, world)
                if row["wrong"] == 0:
                    row |= statistics(timed(torch, BACKENDS[name], values, group, args))
            except (RuntimeError, AttributeError) as error:  # not there for this version, size or number of ranks
                row["error"] = first_line(error)
    return rows


def about(torch):
    return {"torch": torch.__version__, "cuda": torch.version.cuda,
            "nccl": ".".join(map(str, torch.cuda.nccl.version())), "device": torch.cuda.get_device_name(),
            "settings": {name: value for name, value in sorted(os.environ.items()) if name.startswith("NCCL_")
                         or name.startswith("TORCH_SYMM_MEM_")}}


def process(local, args, queue):
    """One rank, whose number and company stand in the environment; rank 0 hands its rows to the queue."""
    os.environ |= NO_MULTICAST
    os.environ.setdefault("RANK", str(local))
    os.environ.setdefault("LOCAL_RANK", str(local))
    import torch

    device = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(device)
    torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", device), timeout=timedelta(seconds=120))
    rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    try:
        rows = measured(torch, args, rank, world)
        if rank == 0:
            queue.put((rows, about(torch)))
        torch.distributed.barrier()
    finally:
        torch.distributed.destroy_process_group()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Kept(list):
    """The queue of a process that has no others to hand to."""

    put = list.append
    get = list.pop


def gathered(torch, args, visible):
    """Rows of every number of ranks, and versions."""
    if "WORLD_SIZE" in os.environ:
        kept = Kept()
        process(0, args, kept)
        return kept.get() if kept else None
    rows, versions = [], {}
    for world in args.ranks or [visible]:
        os.environ |= {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        queue = torch.multiprocessing.get_context("spawn").Queue()
        context = torch.multiprocessing.spawn(process, args=(args, queue), nprocs=world, join=False)
        some = None
        while not context.join(timeout=0.1):  # throws what a process threw
            if some is None and not queue.empty():
                some = queue.get()  # before the join: a process ends once its rows are taken
        some, versions = some or queue.get(timeout=10)
        rows += some
    return rows, versions


def lacking(args, visible):
    """Why this cannot run, or None."""
    if "WORLD_SIZE" in os.environ:
        local, world = int(os.environ.get("LOCAL_RANK", "0")), int(os.environ["WORLD_SIZE"])
        if world < 2:
            return "one process; at least two have something to exchange"
        return None if local < visible else f"{visible} CUDA devices; process {local} has none"
    least = max(2, max(args.ranks or [2]))
    return None if visible >= least else f"{visible} CUDA devices; {least} are needed"


def table(rows):
    lines = [f"{'backend':<16}{'ranks':>6}{'bytes':>10}{'median':>9}{'min':>9}{'p99':>9}   us per allreduce"]
    for row in rows:
        head = f"{row['backend']:<16}{row['ranks']:>6}{row['bytes']:>10}"
        if "seconds" in row:
            lines.append(head + "".join(f"{row[name] * 1e6:>9.2f}" for name in ("seconds", "low", "high")))
        elif row.get("wrong"):
            lines.append(f"{head}   WRONG: {row['wrong']} values are not the sum; not timed")
        else:
            lines.append(f"{head}   {row['error']}")
    return "\n".join(lines)


def report(args, rows, versions):
    """Prints and writes; the exit code."""
    out = {"schema": "specstep.torch_symm/1", "calls": args.calls, "replays": args.replays, "environment": versions,
           "rows": rows}
    if args.json == "-":
        print(json.dumps(out, indent=1))
    else:
        print(table(rows))
        if args.json:
            with open(args.json, "w") as file:
                json.dump(out, file, indent=1)
                file.write("\n")
    return 1 if any(row.get("wrong") for row in rows) else 0


def refused(reason):
    print(f"torch_symm.py: {reason}", file=sys.stderr)
    return UNSUPPORTED


def main(argv=None):
    args = arguments(argv)
    os.environ |= NO_MULTICAST
    try:
        import torch
    except ImportError as error:
        return refused(error)
    visible = torch.cuda.device_count() if torch.cuda.is_available() else 0
    reason = lacking(args, visible)
    if reason:
        return refused(reason)
    found = gathered(torch, args, visible)
    return report(args, *found) if found else 0


if __name__ == "__main__":
    sys.exit(main())
