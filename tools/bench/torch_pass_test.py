"""What torch_pass.py plans, checked without torch: python3 torch_pass_test.py [SPECSTEP]"""

import json
import subprocess
import sys
import unittest
from pathlib import Path

import pass_plan

SPECSTEP = None
ROOT = Path(__file__).resolve().parents[2]


def plan_of(run, kind="verify", *settings):
    command = [SPECSTEP, "plan", str(ROOT / "configs/runs" / f"{run}.yaml"), "--pass", kind, "--json", "-"]
    for setting in settings:
        command += ["--set", setting]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


class Shapes(unittest.TestCase):
    def test_each_operation(self):
        gemm = pass_plan.parse_shape("gemm", "8 x [4, 128] x [512, 128]^T bf16")
        self.assertEqual(gemm, {"batches": 8, "m": 4, "k": 128, "n": 512, "format": "bf16"})
        self.assertEqual(pass_plan.parse_shape("gemm", "[4, 7168] x [2112, 7168]^T int4 g32")["batches"], 1)
        experts = pass_plan.parse_shape("grouped_gemm",
                                        "4 tokens x top-8, 22.4 of 384 experts met, [512, 7168]^T int4 g32")
        self.assertEqual((experts["top_k"], experts["met"], experts["experts"], experts["n"]), (8, 22.4, 384, 512))
        window = pass_plan.parse_shape(
            "attention", "gqa 2 x 8 queries, 8 heads, 1024 cached at most 128, 128 values a token bf16, read shared")
        self.assertEqual((window["limit"], window["values"], window["shared"]), (128, 128, True))
        full = pass_plan.parse_shape("attention", "mla 1 x 1 queries, 8 heads, 1024 cached, 576 values a token fp8")
        self.assertEqual((full["limit"], full["kv"], full["shared"]), (None, "fp8", False))
        self.assertEqual(pass_plan.parse_shape("allreduce", "57,344 B over 8 ranks"), {"bytes": 57344, "ranks": 8})
        self.assertTrue(pass_plan.parse_shape("rmsnorm", "[4, 7168] + residual")["residual"])
        self.assertFalse(pass_plan.parse_shape("combine", "4 tokens, 8 outputs")["shared"])
        self.assertEqual(pass_plan.parse_shape("sample", "accept or reject: [4, 163840]")["vocab"], 163840)

    def test_what_is_not_there_is_refused(self):
        for op, text in (("linear_attention", "1 x 4 tokens"), ("alltoall", "8 B over 2 ranks"), ("gemm", "[4] x [5]")):
            with self.assertRaises(pass_plan.PlanError):
                pass_plan.parse_shape(op, text)
        with self.assertRaises(pass_plan.PlanError):
            pass_plan.parse_plan({"schema": "other"})


class Pools(unittest.TestCase):
    steps = [{"kind": "down", "op": "gemm", "batches": 1, "n": 1024, "k": 1024}] * 10
    size = 2 * 1024 * 1024

    def test_distinct_weights_where_they_fit(self):
        pools, total = pass_plan.weight_pools(self.steps, {}, 10 * self.size, self.size)
        self.assertEqual(pools, {("down", (1024, 1024)): 10})
        self.assertEqual(total, 10 * self.size)

    def test_shared_pools_are_larger_than_the_cache_and_within_the_limit(self):
        pools, total = pass_plan.weight_pools(self.steps, {}, 5 * self.size, self.size)
        self.assertGreater(pools["down", (1024, 1024)], 2)
        self.assertLessEqual(total, 5 * self.size)

    def test_too_little_memory_is_said(self):
        with self.assertRaisesRegex(pass_plan.PlanError, "do not fit"):
            pass_plan.weight_pools(self.steps, {}, 2 * self.size, self.size)


class Buffers(unittest.TestCase):
    def test_what_a_segment_needs_and_gives(self):
        env = pass_plan.Recorder({"residual": 1, "projected": 2, "other": 3})
        env["residual"] = env["residual"] + env["projected"]
        env["normed"] = env["residual"] * 2
        env["projected"] = env["normed"] + 1
        self.assertEqual(list(env.needed), ["residual", "projected"])
        self.assertEqual(list(env.written), ["residual", "normed", "projected"])
        self.assertEqual(env["projected"], 7)


class Statistics(unittest.TestCase):
    def test_median(self):
        self.assertEqual(pass_plan.statistics([3, 1, 2]), {"median": 2, "min": 1, "max": 3, "runs": 3})
        self.assertEqual(pass_plan.statistics([4, 1])["median"], 2.5)


class WholePlans(unittest.TestCase):
    def setUp(self):
        if SPECSTEP is None:
            self.skipTest("no specstep given")

    def test_every_step_and_all_flops_are_read(self):
        for run in ("kimi-k2.5-8x-h200", "llama-3.3-70b-8x-h200", "gpt-oss-120b-8x-h200", "tiny"):
            for kind in ("decode", "verify"):
                plan = plan_of(run, kind)
                steps = pass_plan.parse_plan(plan)
                self.assertEqual(len(steps), len(plan["steps"]))
                for step, given in zip(steps, plan["steps"]):
                    if step["op"] == "gemm":
                        flops = 2 * step["batches"] * step["m"] * step["n"] * step["k"]
                        self.assertEqual(flops, given["flops"], given)

    def test_dimensions(self):
        kimi = pass_plan.dimensions(pass_plan.parse_plan(plan_of("kimi-k2.5-8x-h200")))
        self.assertEqual([kimi[n] for n in ("nope_dim", "kv_rank", "rope_dim", "q_rank", "value_dim", "heads")],
                         [128, 512, 64, 1536, 128, 8])
        llama = pass_plan.dimensions(pass_plan.parse_plan(plan_of("llama-3.3-70b-8x-h200")))
        self.assertEqual([llama[n] for n in ("head_dim", "kv_heads", "heads", "tokens")], [128, 1, 8, 4])

    def test_segments_keep_all_steps_and_equal_layers_are_one_program(self):
        steps = pass_plan.parse_plan(plan_of("kimi-k2.5-8x-h200"))
        with_all = pass_plan.segments(steps, True)
        self.assertEqual([s for part in with_all for s in part], steps)
        self.assertEqual(sum(pass_plan.part_of(p[0]) == "collectives" for p in with_all), 124)
        alone = pass_plan.segments(steps, False)
        self.assertEqual(sum(len(p) for p in alone), len(steps) - 124)
        self.assertLessEqual(len({pass_plan.signature(p) for p in alone}), 5)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        SPECSTEP = sys.argv.pop(1)
    unittest.main()
