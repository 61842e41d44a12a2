"""Compares an experimental device with the processor: a layer of each kind, and a step of small models.

The models are embedded ones: real weights, in both kinds of network, plain and packed. The device takes the plain path
of torch in bfloat16, the oracle is the processor in fp32. The vision tower is not among them.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from engine.catalog import MASKED, MINI
from engine.memory.experimental import asked_for, keep, verdict
from engine.memory.plan import free_bytes
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.models.network import Network
from engine.models.opening import open_model
from engine.quant import PRECISIONS
from engine.threads import available_threads, use_threads

CHECKED = ((MINI, "none"), (MINI, "int4"), (MASKED, "none"))  # model and quantization
LONGEST = 30.0  # seconds until a device is too slow, with the start of its libraries; two are expected
TOLERANCE = 0.15  # of the length of a row of numbers; rounding to bfloat16 makes up to 0.06 of it
LEAST_ROWS = 0.9  # share of rows within it; rounding may choose other experts for one or two of them
MAX_TEXT = 120  # characters of what torch says
LEAST_SHARE = 1e-7  # of a token that is drawn
PLACES = 24  # tokens of a text, and of a canvas


class _WrongError(Exception):
    """A device was wrong; its message says how."""


def settle(device: str) -> None:
    """Checks this machine's experimental device if a model is about to be loaded on it, and keeps the verdict.

    device: as ``load_model`` takes it. One that failed is checked again if it is asked for by its name.
    """
    own = asked_for(device)
    known = "" if own is None else verdict(own)
    if own is not None and (known is None or (known and device != "auto")):
        keep(own, "a check of it did not end")  # stays if this process hangs or crashes
        keep(own, why_not(own))


def why_not(device: torch.device) -> str:
    """Returns what a device does wrong, in words; empty if it is right."""
    until, threads = time.monotonic() + LONGEST, available_threads()
    use_threads(1)  # the passes are tiny
    try:
        free_bytes(device)  # plans ask for it
        for model, quantization in CHECKED:
            _compare(model, quantization, device, until)
    except _WrongError as wrong:
        return str(wrong)
    except Exception as error:  # whatever torch raises for what a device lacks
        return f"it failed with {' '.join(f'{type(error).__name__}: {error}'.split())[:MAX_TEXT]}"
    finally:
        use_threads(threads)
    return ""


def _compare(model: str, quantization: str, device: torch.device, until: float) -> None:
    """Takes the same passes on both.

    Raises:
        _WrongError: the first layer that differs, or the time is over.
    """
    opened, precision = open_model(model), PRECISIONS[quantization]
    oracle = opened.weights(quantization, torch.device("cpu"), torch.float32, precision).load()
    tried = opened.weights(quantization, device, torch.bfloat16, precision).load()
    expected = dict[str, Tensor]()

    def check(path: str, computed: Tensor) -> None:
        if time.monotonic() > until:
            raise _WrongError(f"it is too slow: a check was not done after {LONGEST:g} s")
        wanted = expected.get(path)  # the processor may compute several layers in one
        if wanted is not None and not _distance(computed, wanted) <= TOLERANCE:  # NaN is wrong, too
            raise _WrongError(f"its numbers differ from the processor's in {path} of {model} ({quantization})")

    _report(oracle, expected.__setitem__)
    _report(tried, check)


def _distance(computed: Tensor, wanted: Tensor) -> float:
    """Returns the distance of two rows, as a share of the expected one's length, that most rows keep."""
    if computed.shape != wanted.shape:
        return torch.inf
    lengths = wanted.norm(dim=-1)
    distances = (computed - wanted).norm(dim=-1) / lengths.clamp_min(0.1 * lengths.mean())
    return float(distances.flatten().quantile(LEAST_ROWS))  # NaN if one is


@torch.inference_mode()
def _report(network: Network, take: Callable[[str, Tensor], object]) -> None:
    """Reads a text, takes a step after it, and hands out by its path what each layer returned, then what is drawn."""

    def watch(stage: str, path: str, module: nn.Module) -> RemovableHandle:
        def hook(_module: nn.Module, _given: object, made: object) -> None:
            if isinstance(made, Tensor):
                take(f"{stage} {path}", made.cpu().float())  # waits for the device

        return module.register_forward_hook(hook)

    def passed(stage: str, work: Callable[[], Tensor]) -> Tensor:
        hooks = [watch(stage, path, module) for path, module in network.named_modules()]
        try:
            made = work()
        finally:
            for hook in hooks:
                hook.remove()
        take(stage, made.cpu().float())
        return made

    ids, cache = torch.arange(2 * PLACES) % (network.config.vocab_size - 1) + 1, network.new_cache()
    passed("text", lambda: network.prefill(ids[:PLACES], cache))
    if isinstance(network, DiffusionGemma):
        before = torch.randn(PLACES, network.config.vocab_size, generator=torch.Generator().manual_seed(0))
        logits = passed("step", lambda: network.denoise(ids[PLACES:], cache, before.to(network.device)))
    else:
        logits = passed("step", lambda: network.decode(ids[PLACES:], cache, 0, is_causal=False))
    take("sampling", _sampled(logits.float()).cpu().float())


def _sampled(logits: Tensor) -> Tensor:
    """Returns what a sampler makes of logits (C, V), except for chance: running sums of the rising entropies (C,).

    Raises:
        _WrongError: a token was drawn that has no share.
    """
    draws, shares = torch.Generator(logits.device).manual_seed(0), logits.softmax(dim=-1)
    drawn = torch.multinomial(shares, 1, generator=draws)
    noise = torch.randint(shares.shape[-1], drawn.shape, generator=draws, device=logits.device)
    if bool((shares.gather(-1, drawn) < LEAST_SHARE).any()) or bool((noise < 0).any()):
        raise _WrongError("it draws tokens that have no share")
    entropies = -(shares * shares.clamp_min(LEAST_SHARE).log()).sum(dim=-1)
    return entropies.sort(stable=True).values.cumsum(dim=-1)
