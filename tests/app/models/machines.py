"""Computers that are only imagined, as ``engine.memory.machine.look`` would describe them."""

from __future__ import annotations

import dataclasses

from engine.memory.machine import CARDS, AbsentCard, GraphicsCard, Machine, Maker

GIB = 2**30


def with_card(name: str, total_bytes: int, memory: int = 64) -> Machine:
    """A computer whose NVIDIA card torch computes on; ``memory`` in gibibytes."""
    card = GraphicsCard("NVIDIA", name, total_bytes)
    return Machine(memory * GIB, card, is_usable=True, has_cuda=True, device=AbsentCard(name, total_bytes))


def without(memory: int, maker: Maker | None = None, name: str = "", total_bytes: int = 0) -> Machine:
    """A computer that computes on its processor, with a card that is not used or none."""
    return Machine(memory * GIB, None if maker is None else GraphicsCard(maker, name, total_bytes))


RTX_4090 = with_card("NVIDIA GeForce RTX 4090", CARDS["rtx-4090"])
A100 = with_card("NVIDIA A100-SXM4-80GB", CARDS["a100"])
RTX_4060 = with_card("NVIDIA GeForce RTX 4060", round(7.75 * GIB), 16)
NO_DRIVER = dataclasses.replace(without(16, "NVIDIA"), has_cuda=True)
CPU_TORCH = without(64, "NVIDIA", "NVIDIA GeForce RTX 4090", CARDS["rtx-4090"])
