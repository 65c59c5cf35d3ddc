"""By how much do verify rows' logits differ from decode rows'? For `MOVES` of `glimpse.bench.decode.ties`.

    PYTHONPATH=src python3 benchmarks/gpu_ties.py --model demo.gguf --ids ids.npz --cells 8000x4:4+8

Places of the text that the bench does not judge: behind those by 8,500 tokens, so that contexts of 8,000 end before.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path

import numpy as np
import torch
from gpu_profile import opened

from glimpse.bench.decode.models import Models
from glimpse.bench.decode.on_device.forced import ForcedBatch
from glimpse.bench.decode.prompts import Text
from glimpse.bench.decode.shape import parse_cell
from glimpse.bench.decode.ties import judge

ELSEWHERE = 8500
TEMPERATURE = 0.7


def elsewhere(ids: Path, folder: Path) -> Text:
    """The same texts, beginning at another place."""
    texts = np.load(ids)
    path = folder / "elsewhere.npz"
    np.savez(path, ids=np.roll(np.concatenate([texts[name].ravel() for name in texts.files]), -ELSEWHERE))
    return Text(ids=path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--ids", type=Path, required=True)
    parser.add_argument("--cells", default="8000x4:4+8")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--blocks", type=int, default=12, help="verifications judged a row")
    options = parser.parse_args()
    models, found = Models(getattr(torch, options.dtype), torch.device("cuda")), {}
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        text = elsewhere(options.ids, Path(folder))
        for shape in (parse_cell(name, options.model, (4, 8)) for name in options.cells.split(",")):
            cell = opened(shape, models, text, 512)
            cell.resample(TEMPERATURE, 0)
            for drafts in shape.drafts:
                forced = ForcedBatch(cell.batch, cell.batch.rounds.vocab)
                row = found[f"{shape.key} {drafts}"] = judge(forced, drafts, TEMPERATURE, options.blocks)
                print(shape.name, drafts, {key: row[key] for key in row if key != "margins"}, flush=True)
            cell.close()
    (Path(os.environ.get("OUT", ".")) / "moves.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
