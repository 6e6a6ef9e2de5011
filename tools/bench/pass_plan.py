"""Plans of specstep (specstep.plan/1) for torch_pass.py: shapes out of their text, and which weights fit. No torch."""

import re
from collections import Counter

BYTES = 2  # everything is bf16

# op -> (pattern of model/plan_text.cpp, names of its groups)
SHAPES = {
    "gemm": (r"(?:(\d+) x )?\[(\d+), (\d+)\] x \[(\d+), \d+\]\^T (.+)", "batches m k n format"),
    "grouped_gemm": (r"(\d+) tokens x top-(\d+), ([\d.]+) of (\d+) experts met, \[(\d+), (\d+)\]\^T (.+)",
                     "tokens top_k met experts n k format"),
    "attention": (r"(gqa|mla) (\d+) x (\d+) queries, (\d+) heads, (\d+) cached(?: at most (\d+))?, "
                  r"(\d+) values a token (\w+)(, read shared)?",
                  "attention sequences queries heads context limit values kv shared"),
    "allreduce": (r"([\d,]+) B over (\d+) ranks", "bytes ranks"),
    "allgather": (r"([\d,]+) B over (\d+) ranks", "bytes ranks"),
    "rmsnorm": (r"\[(\d+), (\d+)\]( \+ residual)?", "rows width residual"),
    "activation": (r"\[(\d+), (\d+)\]", "rows width"),
    "rope": (r"(\d+) tokens x (\d+) values, appends (\d+) B each", "tokens values append_bytes"),
    "router": (r"(\d+) tokens, top-(\d+) of (\d+)", "tokens top_k experts"),
    "combine": (r"(\d+) tokens, (\d+) outputs( \+ shared)?", "tokens top_k shared"),
    "embed": (r"\[(\d+), (\d+)\] (.+)", "tokens hidden format"),
    "sample": (r"([a-z ]+): \[(\d+), (\d+)\]", "what rows vocab"),
}
TEXTS = {"format", "attention", "kv", "what"}
FLAGS = {"residual", "shared"}
PARTS = {"gemm": "gemms", "grouped_gemm": "experts", "attention": "attention", "allreduce": "collectives",
         "allgather": "collectives"}


# Buffers that a later segment of a pass reads.
CROSSING = {"residual", "projected", "logits_part", "logits", "ids", "accepted"}


class Recorder(dict):
    """Buffers by name that remember which were read before they were written, and which were written."""

    def __init__(self, values):
        super().__init__(values)
        self.needed, self.written = {}, {}

    def __getitem__(self, name):
        if name not in self.written:
            self.needed[name] = True
        return super().__getitem__(name)

    def __setitem__(self, name, value):
        self.written[name] = True
        super().__setitem__(name, value)


class PlanError(Exception):
    """The plan cannot be carried out here."""


def parse_shape(op, text):
    """The numbers of a step's shape, by name."""
    if op not in SHAPES:
        raise PlanError(f"{op}: not carried out by this program; it has {', '.join(SHAPES)}")
    pattern, names = SHAPES[op]
    match = re.fullmatch(pattern, text)
    if not match:
        raise PlanError(f"{op}: shape '{text}' does not read as {pattern}")
    out = {}
    for name, value in zip(names.split(), match.groups()):
        if name in FLAGS:
            out[name] = value is not None
        elif name in TEXTS:
            out[name] = value
        elif name == "met":
            out[name] = float(value)
        else:
            out[name] = int(value.replace(",", "")) if value else None
    if op == "gemm":
        out["batches"] = out["batches"] or 1
    return out


def parse_plan(plan):
    """Steps as dicts: index, kind, op, layer, in, out and the numbers of the shape."""
    if plan.get("schema") != "specstep.plan/1":
        raise PlanError(f"schema is {plan.get('schema')}; specstep.plan/1, as `specstep plan RUN --json -` writes it")
    steps = []
    for index, step in enumerate(plan["steps"]):
        shape = parse_shape(step["op"], step["shape"])
        if step["op"] == "allgather" and step["kind"] != "logits_gather":
            raise PlanError(f"{step['kind']}: attention by sequence is not carried out by this program")
        steps.append({"index": index, "kind": step["kind"], "op": step["op"], "layer": step.get("layer"),
                      "in": step["in"], "out": step["out"], "shape": step["shape"], **shape})
    experts = {s["experts"] for s in steps if s["op"] in ("router", "grouped_gemm")}
    if len(experts) > 1:
        raise PlanError("experts spread over ranks are not carried out by this program; parallel.expert 1 is")
    if any(s["kind"] in ("fuse_features", "embed_norm") for s in steps):
        raise PlanError("a draft's pass is not carried out by this program; prefill, decode and verify are")
    return steps


def part_of(step):
    return PARTS.get(step["op"], "rest")


def dimensions(steps):
    """Widths that shapes leave out: of heads, of latents, of the vocabulary."""
    attention = next((s for s in steps if s["op"] == "attention"), None)
    if attention is None:
        raise PlanError("the plan has no attention")
    first = {s["kind"]: s for s in reversed(steps)}
    out = {"attention": attention["attention"], "heads": attention["heads"], "sequences": attention["sequences"],
           "queries": attention["queries"], "context": attention["context"],
           "tokens": attention["sequences"] * attention["queries"], "vocab_rows": first["lm_head"]["n"]}
    if attention["attention"] == "gqa":
        out["head_dim"] = first["o_proj"]["k"] // attention["heads"]
        out["kv_heads"] = attention["values"] // (2 * out["head_dim"])
    else:
        out["nope_dim"] = first["absorb_q"]["k"]
        out["kv_rank"] = first["absorb_q"]["n"]
        out["rope_dim"] = attention["values"] - out["kv_rank"]
        out["q_rank"] = first["q_b"]["k"] if "q_a_norm" in first else 0
        out["value_dim"] = first["absorb_v"]["n"]
    return out


def weight_shape(step, dims):
    """Shape of a step's weight, None where it has none."""
    if step["op"] == "gemm":
        one = (step["n"], step["k"])
        return (step["batches"], *one) if step["kind"] in ("absorb_q", "absorb_v") else one
    if step["op"] == "grouped_gemm":
        return (step["experts"], step["n"], step["k"])
    if step["op"] == "rmsnorm":
        return (step["width"],)
    if step["op"] == "embed":
        return (dims["vocab_rows"], step["hidden"])
    return None


def size_of(shape):
    out = BYTES
    for n in shape:
        out *= n
    return out


def weight_pools(steps, dims, limit, cache_bytes):
    """Copies of each (kind, shape): one a step where all fit in `limit` bytes, else a share of them, each pool larger
    than twice the cache where it has enough steps. Throws PlanError with what is needed when even that is too much."""
    wanted = Counter((s["kind"], weight_shape(s, dims)) for s in steps if weight_shape(s, dims))
    total = sum(count * size_of(shape) for (_, shape), count in wanted.items())
    if total <= limit:
        return dict(wanted), total
    least = {key: min(count, 2 * cache_bytes // size_of(key[1]) + 1) for key, count in wanted.items()}
    needed = sum(count * size_of(key[1]) for key, count in least.items())
    if needed > limit:
        raise PlanError(f"weights of at least {needed / 2**30:.1f} GiB do not fit in {limit / 2**30:.1f} GiB")
    share = (limit - needed) / (total - needed)
    pools = {key: least[key] + int((count - least[key]) * share) for key, count in wanted.items()}
    return pools, sum(count * size_of(key[1]) for key, count in pools.items())


def segments(steps, collectives):
    """Runs of steps between collectives, which stand alone; without `collectives` those are left out."""
    out = [[]]
    for step in steps:
        if part_of(step) == "collectives":
            if collectives:
                out += [[step], []]
            continue
        # A layer is a segment of its own, so that equal layers are compiled once.
        if out[-1] and out[-1][-1]["layer"] != step["layer"]:
            out.append([])
        out[-1].append(step)
    return [s for s in out if s]


def signature(steps):
    return tuple((s["kind"], s["shape"], tuple(s["in"]), s["out"]) for s in steps)


def statistics(seconds):
    ordered = sorted(seconds)
    half = len(ordered) // 2
    median = ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
    return {"median": median, "min": ordered[0], "max": ordered[-1], "runs": len(ordered)}
