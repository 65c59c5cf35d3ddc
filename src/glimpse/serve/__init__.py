"""An OpenAI-compatible server over `AsyncLLM`. It needs the extra `serve`; nothing else of the package does."""

from importlib.util import find_spec

from glimpse.errors import GlimpseError

_NEEDED = ("fastapi", "uvicorn", "pydantic", "prometheus_client")


def missing() -> list[str]:
    """Packages that the server stands on and that are not here."""
    return [name for name in _NEEDED if find_spec(name) is None]


def require() -> None:
    """Raises GlimpseError naming the extra where a package that the server stands on is missing."""
    if absent := missing():
        raise GlimpseError(
            f"glimpse serve needs {', '.join(absent)}: pip install 'glimpse-llm[serve]'; in a clone of Glimpse: "
            "make server"
        )
