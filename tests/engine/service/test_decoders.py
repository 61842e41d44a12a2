"""The decoder of a run, from the request to its record; and what a server makes of OpenAI's fields with it."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from engine import Fork, GenerationConfig, SafelightError
from engine.server.errors import ApiError
from engine.server.formats import AskedFormat
from engine.server.planning import config_of
from engine.server.schemas import ChatRequest
from engine.service import (
    ChatRun,
    ForkRun,
    LoadedModel,
    LocalBackend,
    ModelLoaded,
    run_alone,
)
from engine.text.output_format import OutputFormat
from tests.engine.service.test_local import MESSAGES, ended, loaded, trace_of
from tests.fake_engine import FakeEngine


class Engine(FakeEngine):
    """Says what its model can."""

    capabilities = LocalBackend.capabilities


def backend(*decoders: str) -> tuple[FakeEngine, LoadedModel]:
    made = Engine()
    made.decoders = decoders
    return made, next(reply.model for reply in loaded(made) if isinstance(reply, ModelLoaded))


def test_a_run_s_record_names_its_decoder_unless_that_is_block_diffusion() -> None:
    engine, model = backend("autoregressive", "block_diffusion", "causal_parallel")
    assert model.decoders == ("causal_parallel", "autoregressive", "block_diffusion")
    named = {"": "causal_parallel", "autoregressive": "autoregressive", "block_diffusion": "block_diffusion"}
    for asked, wanted in named.items():
        replies = list(run_alone(engine, ChatRun(GenerationConfig(decoder=asked), 7, MESSAGES)))
        trace = trace_of(replies)
        assert trace.header.config.decoder == engine.configs[-1].decoder == wanted
        assert trace.header.format_version == (1 if wanted == "block_diffusion" else 2)
        assert replies[-1].message == ""  # type: ignore[union-attr]
        if wanted != "block_diffusion":
            again = ForkRun.of(trace, (Fork(0, 0, seed=1),))
            assert f"bidirectional or sub_blocks, and this run uses {wanted}" in ended(engine, again).message
    other = ChatRun(GenerationConfig(decoder="other"), 7, MESSAGES)
    assert ended(engine, other).message.startswith("unknown decoder 'other'; this model has causal_parallel, ")
    config, fits = GenerationConfig(decoder="causal_parallel"), OutputFormat("json_object")
    held = ChatRun(config, 7, MESSAGES, output_format=fits)
    assert "autoregressive or block_diffusion, and this run uses causal_parallel" in ended(engine, held).message


def test_a_model_that_does_not_denoise_offers_nothing_of_it() -> None:
    _, model = backend("autoregressive")
    can = model.capabilities
    assert not any((can.forks, can.infill, can.influence, can.decisions))
    assert (can.steps, can.structured) == (True, True)
    can = backend("masked_diffusion")[1].capabilities
    assert (can.forks, can.infill, can.influence, can.structured) == (True, False, False, False)


def test_a_format_is_held_by_a_decoder_that_can_unless_another_is_asked_for() -> None:
    wanted = AskedFormat(OutputFormat("json_object"), "response_format")

    def decoder(*decoders: str, **fields: object) -> str:
        model = backend(*decoders)[1]
        return asked(model, wanted, **fields).decoder

    assert decoder("autoregressive") == "autoregressive"
    assert decoder("autoregressive", "causal_parallel") == "autoregressive"
    assert decoder("autoregressive", "block_diffusion") == ""
    assert decoder("sub_blocks") == "sub_blocks"
    assert decoder("autoregressive", "block_diffusion", decoder="autoregressive") == "autoregressive"
    for decoders, fields, message in (
        (("autoregressive", "causal_parallel"), {"decoder": "causal_parallel"}, "this run uses causal_parallel."),
        (("masked_diffusion",), {}, "cannot follow a format; describe it in the prompt."),
    ):
        with pytest.raises(ApiError) as refused:
            decoder(*decoders, **fields)
        assert (refused.value.status, refused.value.param) == (400, "response_format")
        assert message in str(refused.value)


def asked(model: LoadedModel, wanted: AskedFormat | None = None, **fields: object) -> GenerationConfig:
    body = ChatRequest.model_validate({"messages": [{"role": "user", "content": "x"}], **fields})
    return config_of(body, model, model.defaults, None, wanted)


def test_openai_s_sampling_is_honoured_where_tokens_are_drawn() -> None:
    _, model = backend("autoregressive", "block_diffusion")
    config = asked(
        model, decoder="autoregressive", temperature=0.5, top_p=0.9, top_k=-1, min_p=0.1, repetition_penalty=1.2
    )
    assert (config.sampling_temperature, config.sampling_top_p, config.sampling_top_k) == (0.5, 0.9, 0)
    assert (config.sampling_min_p, config.repetition_penalty) == (0.1, 1.2)
    assert (config.t_max, config.t_min) == (model.defaults.t_max, model.defaults.t_min)
    plain = asked(model, temperature=0)
    assert (plain.decoder, plain.sampling_temperature, plain.t_max) == ("", 0.0, model.defaults.t_max / 2)
    assert asked(model, decoder="autoregressive", vllm_xargs={"diffusion_canvas_length": 4}).canvas_length == 4
    assert asked(backend("block_diffusion", "autoregressive")[1], top_k=5).sampling_top_k == 5  # its own


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"decoder": "other"}, "decoder"),
        ({"top_p": 1.9}, "top_p"),
        ({"top_k": -4, "decoder": "block_diffusion"}, "top_k"),
        ({"decoder": "autoregressive", "top_p": 0.0}, "top_p"),
        ({"decoder": "autoregressive", "top_k": -2}, "top_k"),
        ({"decoder": "autoregressive", "min_p": 1.5}, "min_p"),
        ({"decoder": "autoregressive", "repetition_penalty": 0}, "repetition_penalty"),
        ({"decoder": "autoregressive", "vllm_xargs": {"diffusion_max_steps": 3}}, "vllm_xargs"),
    ],
)
def test_what_a_decoder_does_not_take_is_refused(fields: dict[str, object], param: str) -> None:
    _, model = backend("autoregressive", "block_diffusion")
    with pytest.raises(ApiError) as refused:
        asked(model, **fields)
    assert refused.value.param == param
    assert "sampling_" not in refused.value.message


def test_a_decoder_s_name_is_bounded() -> None:
    for bad in ("", "x" * 65):
        with pytest.raises(ValidationError):
            asked(backend("block_diffusion")[1], decoder=bad)
    with pytest.raises(SafelightError, match="decoder must be a name of at most"):
        GenerationConfig(decoder="A b")
