"""The routes together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI
from fastapi.middleware.cors import CORSMiddleware
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles

from glimpse.errors import GlimpseError
from glimpse.llm import LLM
from glimpse.serve import chat, completions, plain
from glimpse.serve.errors import ApiError, as_api_error
from glimpse.serve.guards import AccessLog, BodyLimit, Keys
from glimpse.serve.headers import SafeHeaders
from glimpse.serve.hosts import Hosts, is_loopback
from glimpse.serve.served import Served
from glimpse.serve.settings import ServeSettings

_PAGE = Path(__file__).parent / "page"


def create_app(llm: LLM, settings: ServeSettings) -> FastAPI:
    """The server of an open LLM as an ASGI app. The LLM stays open when it ends; its requests are ended."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.served = served = Served.of(llm, settings)
        served.ways.heap.settle()
        yield
        await served.ways.close()

    # No /docs: its page would fetch scripts from elsewhere.
    app = FastAPI(title="Glimpse", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    for module in (completions, chat, plain):
        app.include_router(module.router)
    if _PAGE.is_dir():
        _add_page(app)
    app.add_exception_handler(ApiError, _refuse)
    app.add_exception_handler(GlimpseError, _refuse)
    app.add_exception_handler(HTTPException, _refuse_route)
    app.add_exception_handler(Exception, _refuse)  # which also logs it
    app.add_middleware(BodyLimit, most=settings.max_body)
    if settings.api_keys:
        app.add_middleware(Keys, keys=settings.api_keys)
    if settings.allow_origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=settings.allow_origins, allow_methods=["GET", "POST"], allow_headers=["*"]
        )
    if is_loopback(settings.host) and not settings.api_keys:
        app.add_middleware(Hosts, names=settings.allow_hosts)
    app.add_middleware(SafeHeaders)
    app.add_middleware(AccessLog)
    return app


def _add_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return FileResponse(_PAGE / "index.html")

    app.mount("/static", StaticFiles(directory=_PAGE), name="static")


async def _refuse(request: Request, error: Exception) -> Response:
    refusal = as_api_error(error)
    request.app.state.served.metrics.failed(refusal.status)
    return refusal.response()


async def _refuse_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    refusal = ApiError(error.status_code, f"{error.detail}: {request.method} {request.url.path}",
                       headers=error.headers)  # fmt: skip
    return refusal.response()
