"""`glimpse models`: the demo model and its state, and which checkpoints can be used."""

from __future__ import annotations

from glimpse.cli import demo_state, jsonout, report
from glimpse.cli.failures import DONE
from glimpse.cli.options import OutputOptions


def models(output: OutputOptions) -> int:
    """List the demo model with its state, and the architectures that work."""
    with jsonout.kept_clean(output.json) as stdout:
        from glimpse.model.hf_config import ARCHITECTURES

        demo = demo_state.demo_state()
        if output.json:
            jsonout.emit({"models": [demo.to_json()], "architectures": list(ARCHITECTURES)}, stdout)
            return DONE
        report.show(
            f"demo   {demo_state.NAME} ({demo_state.LICENCE})",
            f"       {demo.said}",
            "other  -m FOLDER (Hugging Face, safetensors) or -m FILE.gguf, of these architectures:",
            f"       {', '.join(ARCHITECTURES)}",
        )
        return DONE
