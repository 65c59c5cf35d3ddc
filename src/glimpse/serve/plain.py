"""What needs no engine: models, health, tokens, metrics."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from glimpse import acceptance
from glimpse.drafting import DRAFTERS
from glimpse.pacing import PACERS
from glimpse.serve.errors import refused
from glimpse.serve.json_body import read_body
from glimpse.serve.logprobs import token_text
from glimpse.serve.messages import settled
from glimpse.serve.schemas import DetokenizeBody, TokenizeBody
from glimpse.serve.served import Served

router = APIRouter()


def _served(request: Request) -> Served:
    served: Served = request.app.state.served
    return served


@router.get("/health")
async def health(request: Request) -> Response:
    """200 while requests are taken, 503 when the server is about to end."""
    draining = _served(request).gate.draining
    return JSONResponse({"status": "draining" if draining else "ok"}, 503 if draining else 200)


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """For Prometheus."""
    return Response(_served(request).metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/v1/models")
async def models(request: Request) -> Response:
    """The one model, and how it can be asked to decode."""
    return JSONResponse({"object": "list", "data": [_model(_served(request))]})


@router.get("/v1/models/{name:path}")
async def model(request: Request, name: str) -> Response:
    """The model by its name."""
    served = _served(request)
    served.check_model(name)
    return JSONResponse(_model(served))


@router.post("/tokenize")
async def tokenize(request: Request) -> Response:
    """Token ids of a text, or of messages by the chat template."""
    served = _served(request)
    body = await read_body(request, TokenizeBody, served.settings.body_seconds)
    served.check_model(body.model)
    return JSONResponse(await asyncio.to_thread(_tokens, served, body))


def _tokens(served: Served, body: TokenizeBody) -> dict[str, object]:
    most = served.llm.context_length
    if (body.prompt is None) == (body.messages is None):
        raise refused("prompt", body.prompt, "give prompt or messages, one of them")
    if body.prompt is not None:
        ids = served.tokenizer.encode(body.prompt, add_special_tokens=body.add_special_tokens, most=most)
    else:
        ids = served.tokenizer.chat(settled(body.messages or []), most=most)
    answer: dict[str, object] = {"count": len(ids), "max_model_len": most, "tokens": ids}
    if body.return_token_strs:
        answer["token_strs"] = [token_text(served.tokenizer, token) for token in ids]
    return answer


@router.post("/detokenize")
async def detokenize(request: Request) -> Response:
    """Text of token ids."""
    served = _served(request)
    body = await read_body(request, DetokenizeBody, served.settings.body_seconds)
    served.check_model(body.model)
    return JSONResponse({"prompt": await asyncio.to_thread(_text, served, body.tokens)})


def _text(served: Served, tokens: list[int]) -> str:
    size = served.llm.spec.vocab_size
    wrong = next((token for token in tokens if not 0 <= token < size), None)
    if wrong is not None:
        raise refused("tokens", wrong, f"ids go from 0 to {size - 1}")
    return served.tokenizer.decode(tokens, skip_special_tokens=False)


def _model(served: Served) -> dict[str, object]:
    own = served.llm.options
    return {
        "id": served.settings.name,
        "object": "model",
        "created": served.created,
        "owned_by": "glimpse",
        "max_model_len": served.llm.context_length,
        "glimpse": {
            "drafters": DRAFTERS.names(),
            "pacers": PACERS.names(),
            "acceptances": acceptance.REGISTRY.names(),
            "max_context": served.llm.context_length,
            "drafter": own.drafter,
            "pacer": own.paced_by,
            "acceptance": own.accepted_by,
        },
    }
