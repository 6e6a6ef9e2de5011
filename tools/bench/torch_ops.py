"""The steps of a plan as functions on tensors, for torch_pass.py: they read and write buffers of `env` by name."""

import math

import pass_plan
import torch
import torch.nn.functional as F


def together(call):
    """Compiled as segments are: whole or not at all."""
    return torch.compile(call, dynamic=False, fullgraph=True)


class Ops:
    """Builds functions for steps. `notes` collects what was done otherwise than meant."""

    def __init__(self, steps, dims, rank, world, notes):
        self.dims, self.rank, self.world, self.notes = dims, rank, world, notes
        self.route_step = next((s for s in steps if s["op"] == "router"), None)
        self.grouped_name = "none"
        self.attention_name = "matmul, softmax, matmul"  # mla; a head is too wide for scaled_dot_product_attention
        if self.route_step:
            self.choose_grouped()
        if dims["attention"] == "gqa":
            self.choose_attention()
        self.make_inputs()

    def random(self, *shape, scale=1.0):
        return torch.empty(shape, device="cuda", dtype=torch.bfloat16).normal_(0, scale)

    def weight(self, key):
        kind, shape = key
        if len(shape) == 1:
            return torch.ones(shape, device="cuda", dtype=torch.bfloat16)
        return self.random(*shape, scale=1 if kind == "embed" else shape[-1] ** -0.5)

    def cache(self):
        d = self.dims
        length = d["context"] + d["queries"]
        if d["attention"] == "mla":
            return {"rows": self.random(d["sequences"], length, d["kv_rank"] + d["rope_dim"])}
        shape = (d["sequences"], d["kv_heads"], length, d["head_dim"])
        return {"k": self.random(*shape), "v": self.random(*shape)}

    def make_inputs(self):
        d = self.dims
        width = d["rope_dim"] if d["attention"] == "mla" else d["head_dim"]
        positions = torch.arange(d["context"], d["context"] + d["queries"], device="cuda").repeat(d["sequences"])
        rates = 10000.0 ** (-torch.arange(width // 2, device="cuda") * 2 / width)
        angles = positions[:, None] * rates[None]
        tokens = torch.randint(0, d["vocab_rows"], (d["tokens"],), device="cuda")
        self.inputs = {"tokens": tokens, "cos": angles.cos(), "sin": angles.sin()}

    def start(self):
        return dict(self.inputs)

    def function(self, step):
        build = getattr(self, "make_" + step["op"])
        return build(step)

    # Products

    def make_gemm(self, step):
        kind, d, n, k = step["kind"], self.dims, step["n"], step["k"]
        source, target = step["in"][0], step["out"]
        if kind == "absorb_q":
            def run(env, w, cache):
                x = env["query"].view(-1, d["heads"], d["nope_dim"] + d["rope_dim"])[..., :k]
                env["query_latent"] = x.transpose(0, 1).bmm(w.transpose(1, 2)).transpose(0, 1)
        elif kind == "absorb_v":
            def run(env, w, cache):
                x = env["attended"].view(-1, d["heads"], k)
                env["query"] = x.transpose(0, 1).bmm(w.transpose(1, 2)).transpose(0, 1).reshape(-1, d["heads"] * n)
        else:
            def run(env, w, cache):
                env[target] = F.linear(env[source][:, :k], w)  # q_b reads the first columns of the latents
        return run

    def choose_grouped(self):
        """The first grouped product that works here, tried on a small case with an empty group."""
        x, w = self.random(16, 64), self.random(4, 32, 64, scale=0.125)
        offs = torch.tensor([3, 3, 10, 16], device="cuda", dtype=torch.int32)
        groups = [0] * 3 + [2] * 7 + [3] * 6
        expected = torch.stack([w[g].float() @ row.float() for g, row in zip(groups, x)])
        calls = [("torch.nn.functional.grouped_mm", getattr(F, "grouped_mm", None)),
                 ("torch._grouped_mm", getattr(torch, "_grouped_mm", None))]
        for name, call in calls:
            if call is None:
                continue
            try:
                got = together(lambda x, w, offs, call=call: call(x, w.transpose(1, 2), offs=offs))(x, w, offs)
                torch.cuda.synchronize()
                error = relative_error(got, expected)
                if error < 1e-4:
                    self.grouped_name, self.grouped_call = name, call
                    return
                self.notes.append(f"{name} is wrong by {error:.2g} (normalised mean square): not used")
            except Exception as error:  # an API that is not there for this type, GPU or version
                self.notes.append(f"{name} does not work: {type(error).__name__}: {str(error)[:200]}")
        self.grouped_name, self.grouped_call = "weights gathered by pair, then bmm", None
        self.notes.append("experts: weights are copied for each pair; no grouped product works here")

    def make_grouped_gemm(self, step):
        first, top_k, call, target = step["kind"] == "expert_gate_up", step["top_k"], self.grouped_call, step["out"]
        source, last = step["in"][0], step["experts"] - 1

        def run(env, w, cache):
            x = env[source][env["order"] // top_k] if first else env[source]
            if call:
                env[target] = call(x, w.transpose(1, 2), offs=env["offs"])
            else:
                env[target] = w[env["sorted"].clamp(max=last)].bmm(x.unsqueeze(2)).squeeze(2)

        return run

    # Attention

    def make_attention(self, step):
        return self.attention_mla(step) if step["attention"] == "mla" else self.attention_gqa(step)

    def seen(self, step):
        """First slot that is read: of a window, the one that the first query sees (later ones see a few more)."""
        d = self.dims
        return max(0, d["context"] + 1 - step["limit"]) if step["limit"] else 0

    def mask(self, first):
        """Query i of a sequence sees slots up to context + i."""
        d = self.dims
        slots = torch.arange(first, d["context"] + d["queries"], device="cuda")
        return slots[None] <= d["context"] + torch.arange(d["queries"], device="cuda")[:, None]

    def attention_mla(self, step):
        d = self.dims
        first, heads, queries, rank = self.seen(step), step["heads"], step["queries"], self.dims["kv_rank"]
        scale = (d["nope_dim"] + d["rope_dim"]) ** -0.5
        hidden = ~self.mask(first)[None, :, None, :]

        def run(env, w, cache):
            rows = cache["rows"][:, first:]
            rotated = env["query"].view(-1, heads, d["nope_dim"] + d["rope_dim"])[..., d["nope_dim"]:]
            q = torch.cat([env["query_latent"], rotated], -1).view(rows.shape[0], queries * heads, -1)
            scores = q.bmm(rows.transpose(1, 2)).view(rows.shape[0], queries, heads, -1).float() * scale
            chances = scores.masked_fill(hidden, -math.inf).softmax(-1).to(q.dtype)
            out = chances.view(rows.shape[0], queries * heads, -1).bmm(rows[..., :rank])
            env["attended"] = out.view(-1, heads * rank)

        return run

    def attention_ways(self):
        """Ways of one call of SDPA, best first: (name, function(q, k, v, mask))."""
        dims = self.dims

        def lower_right(q, k, v, mask):
            return F.scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(q.shape[2], k.shape[2]),
                                                  enable_gqa=True)

        def flash(q, k, v, mask):  # what causal_lower_right comes to; that class itself is not always compiled
            return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, True)[0]

        def plain(q, k, v, mask):
            return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

        def masked(q, k, v, mask):
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)

        def repeated(q, k, v, mask):
            times = q.shape[1] // k.shape[1]
            return F.scaled_dot_product_attention(q, k.repeat_interleave(times, 1), v.repeat_interleave(times, 1),
                                                  attn_mask=mask)

        try:
            from torch.nn.attention.bias import causal_lower_right
        except ImportError as error:
            self.notes.append(f"sdpa, causal_lower_right: {error}")
            causal_lower_right = None  # choose_attention finds that it does not work
        ways = [("sdpa, causal_lower_right, enable_gqa", lower_right), ("sdpa's flash kernel, causal", flash),
                ("sdpa, mask, enable_gqa", masked), ("sdpa, mask, heads repeated", repeated)]
        return [("sdpa, enable_gqa", plain)] + ways[3:] if dims["queries"] == 1 else ways

    def choose_attention(self):
        """The fastest way that gives the right result."""
        d = self.dims
        cache, mask = self.cache(), self.mask(0)
        q = self.random(d["sequences"], d["heads"], d["queries"], d["head_dim"])
        expected = exact_attention(q, cache["k"], cache["v"], mask)
        best = None
        for name, way in self.attention_ways():
            try:
                fast = together(way)
                error = relative_error(fast(q, cache["k"], cache["v"], mask), expected)
                if error > 1e-4:
                    self.notes.append(f"{name} is wrong by {error:.2g} (normalised mean square): not used")
                    continue
                took = time_of(lambda: fast(q, cache["k"], cache["v"], mask))
            except Exception as error:  # a kernel that is not there for this shape or version
                self.notes.append(f"{name} does not work: {type(error).__name__}: {str(error)[:200]}")
                continue
            if best is None or took < best[0]:
                best = (took, name, way)
        if best is None:
            raise pass_plan.PlanError("no way of scaled_dot_product_attention works here: " + "; ".join(self.notes))
        _, self.attention_name, self.attend = best

    def attention_gqa(self, step):
        d, attend, first = self.dims, self.attend, self.seen(step)
        mask = self.mask(first)

        def run(env, w, cache):
            q = env["qkv"][:, : d["heads"] * d["head_dim"]]
            q = q.view(d["sequences"], d["queries"], d["heads"], d["head_dim"]).transpose(1, 2)
            out = attend(q, cache["k"][:, :, first:], cache["v"][:, :, first:], mask)
            env["attended"] = out.transpose(1, 2).reshape(-1, d["heads"] * d["head_dim"])

        return run

    def make_rope(self, step):
        d, context = self.dims, self.dims["context"]

        def turned(x, cos, sin):  # [tokens, heads, width]: pairs (i, i + width / 2)
            a, b = x.float().chunk(2, -1)
            cos, sin = cos[:, None], sin[:, None]
            return torch.cat([a * cos - b * sin, a * sin + b * cos], -1).to(x.dtype)

        def run_mla(env, w, cache):
            cos, sin = env["cos"], env["sin"]
            query = env["query"].view(-1, d["heads"], d["nope_dim"] + d["rope_dim"])
            rotated = turned(query[..., d["nope_dim"]:], cos, sin)
            env["query"] = torch.cat([query[..., : d["nope_dim"]], rotated], -1).flatten(1)
            latent = env["latent"][:, d["q_rank"]:]
            key = turned(latent[:, None, d["kv_rank"]:], cos, sin)[:, 0]
            rows = torch.cat([latent[:, : d["kv_rank"]], key], -1)
            cache["rows"][:, context:] = rows.view(d["sequences"], d["queries"], -1)

        def run_gqa(env, w, cache):
            heads, kv = d["heads"], d["kv_heads"]
            qkv = env["qkv"].view(-1, heads + 2 * kv, d["head_dim"])
            both = turned(qkv[:, : heads + kv], env["cos"], env["sin"])
            env["qkv"] = torch.cat([both, qkv[:, heads + kv:]], 1).flatten(1)
            shape = (d["sequences"], d["queries"], kv, d["head_dim"])
            cache["k"][:, :, context:] = both[:, heads:].reshape(shape).transpose(1, 2)
            cache["v"][:, :, context:] = qkv[:, heads + kv:].reshape(shape).transpose(1, 2)

        return run_mla if d["attention"] == "mla" else run_gqa

    # Rows

    def normed(self, x, gain):
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6) * gain.float()).to(x.dtype)

    def make_rmsnorm(self, step):
        d, kind, width = self.dims, step["kind"], step["width"]
        source, target, residual = step["in"][0], step["out"], step["residual"]
        last = d["queries"] if kind == "final_norm" and step["rows"] < d["tokens"] else 0  # of a prompt: its last token

        def run_row(env, gain, cache):
            if residual:
                env["residual"] = env["residual"] + env["projected"]
            rows = env["residual"]
            env[target] = self.normed(rows[last - 1::last] if last else rows, gain)

        def run_part(env, gain, cache):
            x = env[source]
            begin = d["q_rank"] if kind == "kv_a_norm" else 0
            end = begin + (width if kind != "qk_norm" else (d["heads"] + d["kv_heads"]) * width)
            part = self.normed(x[:, begin:end].unflatten(1, (-1, width)), gain).flatten(1)
            env[target] = torch.cat([x[:, :begin], part, x[:, end:]], 1)

        return run_part if kind in ("qk_norm", "q_a_norm", "kv_a_norm") else run_row

    def make_activation(self, step):
        source, target = step["in"][0], step["out"]

        def run(env, w, cache):
            gate, up = env[source].float().chunk(2, -1)
            env[target] = (F.silu(gate) * up).to(env[source].dtype)

        return run

    def make_embed(self, step):
        target = step["out"]

        def run(env, table, cache):
            env[target] = F.embedding(env["tokens"], table)

        return run

    def make_router(self, step):
        top_k, total = step["top_k"], step["experts"]

        def run(env, w, cache):
            scores, ids = env["scores"].float().topk(top_k, -1)
            env["weights"] = scores.softmax(-1)
            env["sorted"], env["order"] = ids.flatten().sort(stable=True)
            env["back"] = env["order"].argsort()
            each = env["sorted"][None] <= torch.arange(total, device="cuda")[:, None]
            env["offs"] = each.sum(1, dtype=torch.int32)  # end of each expert's pairs

        return run

    def make_combine(self, step):
        top_k, shared, target = step["top_k"], step["shared"], step["out"]

        def run(env, w, cache):
            rows = env["expert_out"][env["back"]].unflatten(0, (-1, top_k)).float()
            total = (rows * env["weights"][..., None]).sum(1)
            total = total + env["shared_out"].float() if shared else total
            env[target] = total.to(env["expert_out"].dtype)

        return run

    def make_sample(self, step):
        gathered, world = step["in"][0] == "logits" and self.world > 1, self.world
        verify, d = step["what"] == "accept or reject", self.dims

        def run(env, w, cache):
            logits = env["logits" if gathered else "logits_part"]
            if gathered:  # parts of the ranks, side by side
                logits = logits.unflatten(0, (world, -1)).transpose(0, 1).flatten(1)
            ids = env["ids"] = logits.argmax(-1)
            if verify:
                tokens = env["tokens"].view(-1, d["queries"])
                hits = ids.view(-1, d["queries"])[:, :-1] == tokens[:, 1:]
                env["accepted"] = hits.int().cumprod(1).sum(1)

        return run

    # Collectives

    def make_allreduce(self, step):
        def run(env, w, cache):
            torch.distributed.all_reduce(env[step["out"]])

        return run

    def make_allgather(self, step):
        def run(env, w, cache):
            part = env[step["in"][0]].contiguous()
            all_parts = part.new_empty((self.world * part.shape[0], part.shape[1]))
            torch.distributed.all_gather_into_tensor(all_parts, part)
            env[step["out"]] = all_parts

        return run

    def checks(self):
        """Normalised mean square errors of a few operations against fp32."""
        x, w = self.random(4, 512), self.random(256, 512, scale=512 ** -0.5)
        wide, gain = self.random(4, 512, scale=3), torch.ones(512, device="cuda", dtype=torch.bfloat16)
        errors = {"linear": relative_error(F.linear(x, w), x.float() @ w.float().T)}
        scale = (wide.double().square().mean(-1, keepdim=True) + 1e-6).rsqrt()
        errors["norm"] = relative_error(self.normed(wide, gain), wide.double() * scale)
        env = {"in": wide}
        self.make_activation({"in": ["in"], "out": "out"})(env, None, None)
        gate, up = wide.double().chunk(2, -1)
        errors["activation"] = relative_error(env["out"], gate / (1 + (-gate).exp()) * up)
        return {name: {"error": error, "limit": 1e-4} for name, error in errors.items()}


def relative_error(got, expected):
    off = (got.double() - expected.double()).square().sum() / expected.double().square().sum()
    value = float(off)
    return value if math.isfinite(value) else math.inf


def exact_attention(q, k, v, mask):
    times = q.shape[1] // k.shape[1]
    k, v = k.float().repeat_interleave(times, 1), v.float().repeat_interleave(times, 1)
    scores = q.float() @ k.transpose(2, 3) * q.shape[-1] ** -0.5
    return scores.masked_fill(~mask, -math.inf).softmax(-1) @ v


def time_of(call, times=20):
    """Milliseconds of a call within a graph, where launches cost what they will cost in the pass."""
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        for _ in range(times):
            call()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for _ in range(3):
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
    return begin.elapsed_time(end) / times
