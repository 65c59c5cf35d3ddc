#!/bin/sh
# The grid of issue 3 on one GPU, cells in order of importance:
#
#   benchmarks/gpu_grid.sh MODEL.gguf IDS.npz COMMIT OUT [SECONDS]
#
# No cell begins after SECONDS (default 300). Every finished cell is kept in OUT, so the same command goes on from there;
# it needs `glimpse` importable (PYTHONPATH=src). A model's first cell compiles its kernels for some 35 s.
set -u
model=$1 ids=$2 commit=$3 out=$4 seconds=${5:-300}
exec python3 -m glimpse bench decode -m "$model" --ids "$ids" --commit "$commit" --out "$out" \
    --seconds "$seconds" --cell-seconds 12 --debug \
    8000x64:4+8 "$model@llama-3.1-8b:8000x64:4+7" 8000x256:4+8 "$model@llama-3.1-8b:32000x16:4+7" 8000x1:4+8 \
    "$model@llama-3.1-8b:8000x16:4+7" "$model@1.7b:8000x32:4+8" "$model@llama-3.1-8b:8000x1:4+7" \
    "$model@llama-3.1-8b:32000x1:4+7" "$model@1.7b:32000x16:4+8" 8000x8:4+8
