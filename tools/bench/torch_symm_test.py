"""What torch_symm.py does around its measurements, checked without torch or a GPU: python3 torch_symm_test.py"""

import contextlib
import io
import json
import os
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

import torch_symm


def run(*argv, torch=None, environ=()):
    """(exit code, standard output, standard error) with this in place of torch; None: not installed."""
    out, err = io.StringIO(), io.StringIO()
    with mock.patch.dict(sys.modules, {"torch": torch}), mock.patch.dict(os.environ, dict(environ)):
        if not environ:
            os.environ.pop("WORLD_SIZE", None)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = torch_symm.main(list(argv))
            except SystemExit as error:
                code = error.code
    return code, out.getvalue(), err.getvalue()


def torch_with(devices):
    """As much of torch as is asked before anything is measured."""
    cuda = types.SimpleNamespace(is_available=lambda: devices > 0, device_count=lambda: devices)
    return types.SimpleNamespace(cuda=cuda)


ROWS = [{"backend": "torch_nccl", "ranks": 2, "bytes": 2048, "mode": "graph", "wrong": 0, "seconds": 7.25e-6,
         "low": 7e-6, "high": 9e-6},
        {"backend": "torch_one_shot", "ranks": 2, "bytes": 2048, "mode": "graph", "error": "RuntimeError: not here"}]
WRONG = ROWS + [{"backend": "torch_two_shot", "ranks": 2, "bytes": 2048, "mode": "graph", "wrong": 3}]


class WhatIsMissing(unittest.TestCase):
    def expect_77(self, reason, *argv, **context):
        code, out, err = run(*argv, **context)
        self.assertEqual((code, out, err.count("\n")), (77, "", 1))
        self.assertIn(reason, err)

    def test_torch(self):
        self.expect_77("torch")

    def test_devices(self):
        self.expect_77("0 CUDA devices; 2 are needed", torch=torch_with(0))
        self.expect_77("1 CUDA devices; 2 are needed", torch=torch_with(1))
        self.expect_77("4 CUDA devices; 8 are needed", "--ranks", "2,8", torch=torch_with(4))

    def test_company_under_torchrun(self):
        self.expect_77("one process", torch=torch_with(4), environ={"WORLD_SIZE": "1"})
        self.expect_77("process 3 has none", torch=torch_with(2), environ={"WORLD_SIZE": "4", "LOCAL_RANK": "3"})


class Arguments(unittest.TestCase):
    def test_defaults_span_2_kb_to_2_mb(self):
        args = torch_symm.arguments([])
        self.assertEqual((args.sizes[0], args.sizes[-1], args.calls), (2048, 2097152, 122))
        self.assertEqual(args.sizes, sorted(args.sizes))
        for size in (14336, 43008, 114688, 458752, 1835008):
            self.assertIn(size, args.sizes)

    def test_wrong_use(self):
        for argv in (["--sizes", "2050"], ["--sizes", "a"], ["--sizes", "0"], ["--ranks", "1"], ["--ranks", "9"],
                     ["--backends", "multimem"], ["--calls", "0"], ["--replays", "0"]):
            code, out, err = run(*argv, torch=torch_with(8))
            self.assertEqual((code, out), (2, ""), argv)
            self.assertIn("error:", err)


class Sums(unittest.TestCase):
    def test_are_exact_in_bf16_and_tell_ranks_apart(self):
        for world in range(2, 9):
            sums = torch_symm.expected(world)
            self.assertLessEqual(max(map(abs, sums)), 256)
            inputs = [torch_symm.given(rank) for rank in range(world)]
            self.assertEqual(sums[5], sum(values[5] for values in inputs))
            self.assertEqual(len({tuple(values) for values in inputs}), world)
            # A rank left out or counted twice shows somewhere in each pattern.
            self.assertTrue(all(any(values) for values in inputs))


class Statistics(unittest.TestCase):
    def test_median_least_and_99th_percentile(self):
        self.assertEqual(torch_symm.statistics([3, 1, 2]), {"seconds": 2, "low": 1, "high": 3})
        self.assertEqual(torch_symm.statistics([4, 1])["seconds"], 2.5)
        self.assertEqual(torch_symm.statistics(list(range(1, 201)))["high"], 198)


class Report(unittest.TestCase):
    def run_with(self, rows, *argv):
        with mock.patch.object(torch_symm, "gathered", return_value=(rows, {"torch": "2"})):
            return run(*argv, torch=torch_with(2))

    def test_table(self):
        code, out, _ = self.run_with(ROWS)
        self.assertEqual(code, 0)
        lines = out.splitlines()
        self.assertEqual(lines[1].split(), ["torch_nccl", "2", "2048", "7.25", "7.00", "9.00"])
        self.assertIn("RuntimeError: not here", lines[2])

    def test_a_wrong_sum_fails(self):
        code, out, _ = self.run_with(WRONG)
        self.assertEqual(code, 1)
        self.assertIn("WRONG: 3 values", out)

    def test_json_alone_and_in_a_file(self):
        code, out, _ = self.run_with(ROWS, "--json", "-", "--calls", "10")
        self.assertEqual((code, json.loads(out)["calls"], json.loads(out)["rows"]), (0, 10, ROWS))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "out.json"
            _, out, _ = self.run_with(ROWS, "--json", str(path))
            self.assertIn("torch_nccl", out)
            self.assertEqual(json.loads(path.read_text())["environment"], {"torch": "2"})


class Multicast(unittest.TestCase):
    def test_is_off_whatever_the_environment_says(self):
        seen = {}

        def look(*_):
            seen.update(os.environ)
            return ROWS, {}

        with mock.patch.object(torch_symm, "gathered", side_effect=look):
            run(torch=torch_with(2), environ={"NCCL_NVLS_ENABLE": "2", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "0",
                                              "WORLD_SIZE": "2"})
        self.assertEqual((seen["NCCL_NVLS_ENABLE"], seen["TORCH_SYMM_MEM_DISABLE_MULTICAST"]), ("0", "1"))


if __name__ == "__main__":
    unittest.main()
