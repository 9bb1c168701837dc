"""Environments that look as if vLLM were installed in them."""

import shutil
import sys

from grpo_training.serve import vllm_program


def no_vllm(monkeypatch, folder):
    """No vLLM is found: the environment that runs is ``folder/own``, the checkout is ``folder/checkout``."""
    (folder / "empty").mkdir()
    monkeypatch.chdir(folder / "empty")
    monkeypatch.setattr(sys, "executable", str(folder / "own/bin/python"))
    monkeypatch.setattr(vllm_program, "__file__", str(folder / "checkout/grpo_training/serve/vllm_program.py"))
    monkeypatch.setenv("PATH", str(folder / "empty"))


def install_vllm(environment, version, script="#!/bin/sh\n"):
    """Put a program ``vllm`` into an environment, and the version of its package unless that is empty; the program."""
    program = environment / "bin/vllm"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(script)
    program.chmod(0o755)
    packages = environment / "lib/python3.11/site-packages"
    shutil.rmtree(packages, ignore_errors=True)
    if version:
        metadata = packages / f"vllm-{version.partition('+')[0]}.dist-info/METADATA"
        metadata.parent.mkdir(parents=True)
        metadata.write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")
    return program
